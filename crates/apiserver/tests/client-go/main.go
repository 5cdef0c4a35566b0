// Command client-go-check holds the informers of client-go against an API server that is written to, disconnected from
// and compacted all the time. In the end every informer must hold what a fresh list shows, and no event may have come
// out of order.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"net/url"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	namespace = "default"
	// Few names make many updates, deletions and objects that come back.
	names = 200
	// An informer that is not up to date this long after the last write has missed something.
	patience = time.Minute
	// Requests a second that a client may send: far more than a server answers.
	unlimited = 1e6
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

type options struct {
	server, token, ca string
	writes, history   int
	seed              int64
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "URL of the API server")
	flag.StringVar(&o.ca, "ca", "", "file with the certificate of its authority")
	flag.IntVar(&o.writes, "writes", 10_000, "number of writes")
	flag.IntVar(&o.history, "history", 0, "changes that the server remembers")
	flag.Int64Var(&o.seed, "seed", 1, "seed of everything random")
	flag.Parse()
	o.token = os.Getenv("TOKEN")
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	direct := &rest.Config{Host: o.server, BearerToken: o.token, QPS: unlimited, Burst: unlimited}
	direct.TLSClientConfig.CAFile = o.ca
	address, err := url.Parse(o.server)
	if err != nil {
		return err
	}
	line, err := newLine(address.Host)
	if err != nil {
		return err
	}
	defer line.close()
	through := rest.CopyConfig(direct)
	address.Host = line.address()
	through.Host = address.String()
	expired := &expiries{}
	through.Wrap(expired.wrap)

	writer, err := dynamic.NewForConfig(direct)
	if err != nil {
		return err
	}
	observers, err := observe(ctx, through)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewSource(o.seed))
	disturbed := &disturbance{line: line, history: o.history, random: random}
	for n := range o.writes {
		disturbed.before(n, o.writes)
		if err := write(ctx, writer.Resource(configMaps).Namespace(namespace), random, n); err != nil {
			return fmt.Errorf("write %d: %w", n, err)
		}
	}
	disturbed.end()
	for _, observer := range observers {
		if err := observer.settle(ctx, writer.Resource(configMaps).Namespace(namespace)); err != nil {
			return fmt.Errorf("%s: %w", observer.name, err)
		}
	}
	return report(o, disturbed, expired, observers)
}

// observe starts a typed informer of all objects and a dynamic one of those with a label.
func observe(ctx context.Context, config *rest.Config) ([]*observer, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(namespace))
	left := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, func(list *metav1.ListOptions) {
		list.LabelSelector = leftOnly
	})
	observers := []*observer{
		newObserver("typed informer", "", all.Core().V1().ConfigMaps().Informer()),
		newObserver("dynamic informer", leftOnly, left.ForResource(configMaps).Informer()),
	}
	for _, observer := range observers {
		if err := observer.listen(); err != nil {
			return nil, err
		}
	}
	all.Start(ctx.Done())
	left.Start(ctx.Done())
	for _, observer := range observers {
		if !cache.WaitForCacheSync(ctx.Done(), observer.informer.HasSynced) {
			return nil, errors.New("an informer did not begin")
		}
	}
	return observers, nil
}

// settle waits until the informer holds what the server lists.
func (o *observer) settle(ctx context.Context, objects dynamic.ResourceInterface) error {
	listed, err := objects.List(ctx, metav1.ListOptions{LabelSelector: o.selector})
	if err != nil {
		return err
	}
	difference := ""
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		difference = o.difference(listed)
		return difference == "", nil
	})
	if err != nil {
		return fmt.Errorf("the store differs from a fresh list: %s", difference)
	}
	return o.violation()
}

func report(o options, disturbed *disturbance, expired *expiries, observers []*observer) error {
	if disturbed.cuts == 0 || disturbed.outages == 0 {
		return errors.New("nothing was disturbed")
	}
	events, ended := 0, int64(0)
	for _, observer := range observers {
		events += observer.events
		count := expired.of(observer.selector).Load()
		if count == 0 {
			return fmt.Errorf("the %s never met a compacted history", observer.name)
		}
		ended += count
	}
	fmt.Printf("client-go: %d writes, %d cut connections, %d outages, %d expired watches, %d events: all stores equal a fresh list\n",
		o.writes, disturbed.cuts, disturbed.outages, ended, events)
	return nil
}

func objectName(n int) string { return fmt.Sprintf("object-%d", n) }

func configMap(name, side string, n int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "labels": map[string]any{"side": side}},
		"data":       map[string]any{"write": fmt.Sprint(n)},
	}}
}
