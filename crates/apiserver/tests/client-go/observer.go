package main

import (
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// observer listens to an informer and remembers the first event that is out of order.
type observer struct {
	name, selector string
	informer       cache.SharedIndexInformer
	mutex          sync.Mutex
	events         int
	wrong          string
	// The version of each object that is there, and the highest version of each name so far.
	present, highest map[string]uint64
}

func newObserver(name, selector string, informer cache.SharedIndexInformer) *observer {
	return &observer{name: name, selector: selector, informer: informer, present: map[string]uint64{}, highest: map[string]uint64{}}
}

func (o *observer) listen() error {
	_, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			o.note("added", object, func(key string, version uint64) bool {
				_, there := o.present[key]
				return !there && version > o.highest[key]
			})
		},
		UpdateFunc: func(old, object any) {
			before := version(old)
			o.note("updated", object, func(key string, version uint64) bool {
				known, there := o.present[key]
				return there && known == before && version >= known
			})
		},
		DeleteFunc: o.deleted,
	})
	return err
}

// note checks an event and takes the version of its object for the present one.
func (o *observer) note(what string, object any, fits func(string, uint64) bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.events++
	key, version := name(object), version(object)
	if !fits(key, version) && o.wrong == "" {
		o.wrong = fmt.Sprintf("%s was %s with version %d after %d", key, what, version, o.highest[key])
	}
	o.present[key] = version
	o.highest[key] = max(version, o.highest[key])
}

// deleted takes the last known state for an object whose deletion an informer has missed.
func (o *observer) deleted(object any) {
	if unknown, missed := object.(cache.DeletedFinalStateUnknown); missed {
		object = unknown.Obj
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.events++
	key := name(object)
	if _, there := o.present[key]; !there && o.wrong == "" {
		o.wrong = key + " was deleted and is not there"
	}
	delete(o.present, key)
	o.highest[key] = max(version(object), o.highest[key])
}

func (o *observer) violation() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.wrong != "" {
		return fmt.Errorf("events out of order: %s", o.wrong)
	}
	return nil
}

// difference names an object that the informer's store and a list do not have alike. It is empty if there is none.
func (o *observer) difference(listed *unstructured.UnstructuredList) string {
	stored := map[string]uint64{}
	for _, object := range o.informer.GetStore().List() {
		stored[name(object)] = version(object)
	}
	for i := range listed.Items {
		key, wanted := name(&listed.Items[i]), version(&listed.Items[i])
		if found, there := stored[key]; !there || found != wanted {
			return fmt.Sprintf("%s has version %d in the store and %d in the list", key, found, wanted)
		}
		delete(stored, key)
	}
	for key := range stored {
		return key + " is in the store and not in the list"
	}
	return ""
}

func accessor(object any) metav1.Object {
	found, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return found
}

func name(object any) string { return accessor(object).GetName() }

// version reads the resourceVersion as a number; this server counts.
func version(object any) uint64 {
	number, err := strconv.ParseUint(accessor(object).GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}
