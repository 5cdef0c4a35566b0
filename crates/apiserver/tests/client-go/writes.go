package main

import (
	"context"
	"fmt"
	"math/rand"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const leftOnly = "side=left"

// write creates, replaces, patches, applies or deletes one object. An object that is not there is created.
func write(ctx context.Context, objects dynamic.ResourceInterface, random *rand.Rand, n int) error {
	name := objectName(random.Intn(names))
	side := []string{"left", "right"}[random.Intn(2)]
	var err error
	switch random.Intn(8) {
	case 0, 1:
		err = objects.Delete(ctx, name, metav1.DeleteOptions{})
	case 2:
		err = replace(ctx, objects, name, side, n)
	case 3:
		_, err = objects.Apply(ctx, name, configMap(name, side, n), metav1.ApplyOptions{FieldManager: "check", Force: true})
	case 4:
		patch := fmt.Sprintf(`[{"op":"replace","path":"/data/write","value":"%d"}]`, n)
		_, err = objects.Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	default:
		patch := fmt.Sprintf(`{"metadata":{"labels":{"side":"%s"}},"data":{"write":"%d"}}`, side, n)
		_, err = objects.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		_, err = objects.Create(ctx, configMap(name, side, n), metav1.CreateOptions{})
	}
	return err
}

// replace reads an object and writes it back, as a controller does.
func replace(ctx context.Context, objects dynamic.ResourceInterface, name, side string, n int) error {
	found, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	next := configMap(name, side, n)
	next.SetResourceVersion(found.GetResourceVersion())
	_, err = objects.Update(ctx, next, metav1.UpdateOptions{})
	return err
}
