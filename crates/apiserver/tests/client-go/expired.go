package main

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
)

// What a server says in a watch that cannot go on, because the changes that it needs are no longer remembered.
var tooOld = []byte("too old resource version")

// expiries counts watches that the server ended because their history is gone, by label selector. Informers do not tell.
type expiries struct {
	all, left atomic.Int64
}

func (e *expiries) of(selector string) *atomic.Int64 {
	if selector == leftOnly {
		return &e.left
	}
	return &e.all
}

// wrap looks into the watches that pass through a transport.
func (e *expiries) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		query := request.URL.Query()
		if err == nil && query.Get("watch") != "" {
			response.Body = &searched{ReadCloser: response.Body, found: e.of(query.Get("labelSelector"))}
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// searched counts how often the words pass by, also if they come in two pieces.
type searched struct {
	io.ReadCloser
	found *atomic.Int64
	tail  []byte
}

func (s *searched) Read(buffer []byte) (int, error) {
	count, err := s.ReadCloser.Read(buffer)
	seen := append(s.tail, buffer[:count]...)
	s.found.Add(int64(bytes.Count(seen, tooOld)))
	s.tail = bytes.Clone(seen[max(0, len(seen)-len(tooOld)+1):])
	return count, err
}
