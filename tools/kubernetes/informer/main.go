// informer lists and watches with client-go, as every operator in Go does, and prints what it sees:
//
//	informer KUBECONFIG NAMESPACE
//
// One line per event of ConfigMaps (`ADDED name revision`), `SYNCED count` when the cache is
// complete, and the same with a leading `dynamic` for the untyped client. It ends when its standard
// input does.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var printing sync.Mutex

func say(format string, values ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf(format+"\n", values...)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// eventPrinter prints every event of an informer.
func eventPrinter(prefix string) cache.ResourceEventHandler {
	report := func(kind string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if found, ok := object.(v1.Object); ok {
			say("%s%s %s %s", prefix, kind, found.GetName(), found.GetResourceVersion())
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { report("ADDED", object) },
		UpdateFunc: func(_, object any) { report("MODIFIED", object) },
		DeleteFunc: func(object any) { report("DELETED", object) },
	}
}

func follow(ctx context.Context, prefix string, informer cache.SharedIndexInformer) {
	_, err := informer.AddEventHandler(eventPrinter(prefix))
	fail(err)
	go informer.Run(ctx.Done())
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			say("%sSYNCED %d", prefix, len(informer.GetStore().List()))
		}
	}()
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	fail(err)
	namespace := os.Args[2]
	typed, err := kubernetes.NewForConfig(config)
	fail(err)
	untyped, err := dynamic.NewForConfig(config)
	fail(err)
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(namespace))
	follow(ctx, "", factory.Core().V1().ConfigMaps().Informer())
	free := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, nil)
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	follow(ctx, "dynamic ", free.ForResource(resource).Informer())
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
}
