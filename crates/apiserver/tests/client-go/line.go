package main

import (
	"io"
	"math/rand"
	"net"
	"sync"
)

// line carries the connections of the informers to the server. It can be held, so that nothing gets through, and cut.
type line struct {
	listener net.Listener
	target   string
	mutex    sync.Mutex
	free     *sync.Cond
	held     bool
	open     map[net.Conn]bool
}

func newLine(target string) (*line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &line{listener: listener, target: target, open: map[net.Conn]bool{}}
	l.free = sync.NewCond(&l.mutex)
	go l.accept()
	return l, nil
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) close() {
	_ = l.listener.Close()
	l.release()
	l.cut()
}

func (l *line) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		l.mutex.Lock()
		l.open[near], l.open[far] = true, true
		l.mutex.Unlock()
		go l.carry(near, far)
		go l.carry(far, near)
	}
}

// carry copies until one side ends, and then ends both.
func (l *line) carry(from, to net.Conn) {
	buffer := make([]byte, 16<<10)
	for {
		count, err := from.Read(buffer)
		l.mutex.Lock()
		for l.held && l.open[from] {
			l.free.Wait()
		}
		l.mutex.Unlock()
		if count > 0 {
			if _, failed := to.Write(buffer[:count]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			break
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, end := range []io.Closer{from, to} {
		_ = end.Close()
	}
	delete(l.open, from)
	delete(l.open, to)
}

func (l *line) hold() {
	l.mutex.Lock()
	l.held = true
	l.mutex.Unlock()
}

func (l *line) release() {
	l.mutex.Lock()
	l.held = false
	l.free.Broadcast()
	l.mutex.Unlock()
}

// cut ends all connections, in the middle of whatever they carry.
func (l *line) cut() {
	l.mutex.Lock()
	for end := range l.open {
		_ = end.Close()
	}
	l.open = map[net.Conn]bool{}
	l.free.Broadcast()
	l.mutex.Unlock()
}

// disturbance decides when the line is cut, and when it is held for longer than the server's history reaches.
type disturbance struct {
	line          *line
	history       int
	random        *rand.Rand
	cuts, outages int
	heldUntil     int
}

const (
	// Outages in one run. Each costs the informers a pause that doubles.
	outages = 3
	// One write in so many is followed by a cut of all connections.
	writesPerCut = 150
)

// before is called before each write.
func (d *disturbance) before(n, writes int) {
	switch {
	case d.heldUntil > 0 && n >= d.heldUntil:
		d.end()
	case d.heldUntil > 0:
	case d.outages < outages && n == (d.outages+1)*writes/(outages+1):
		d.line.hold()
		d.outages++
		d.heldUntil = n + 2*d.history
	case d.random.Intn(writesPerCut) == 0:
		d.line.cut()
		d.cuts++
	}
}

// end lets the informers through again; what was on its way is lost.
func (d *disturbance) end() {
	if d.heldUntil > 0 {
		d.line.cut()
		d.line.release()
		d.heldUntil = 0
	}
}
