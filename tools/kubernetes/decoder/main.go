// decoder reads a JSON array of objects and decodes each strictly into the Go types of client-go: an unknown
// field, a doubled one or a wrong type is an error. It prints a line per object and ends with 1 if one is wrong.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	code := 0
	for _, object := range objects {
		_, kind, err := decoder.Decode(object, nil, nil)
		if err != nil {
			code = 1
			fmt.Println(err)
			continue
		}
		fmt.Println(kind.GroupVersion(), kind.Kind)
	}
	os.Exit(code)
}
