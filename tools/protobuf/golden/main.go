// Golden bodies for the protobuf reader: JSON objects in (one per line), and for each what Go
// prints and what it puts on the wire. Run: go run . < objects.jsonl > bodies.json
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

type golden struct {
	Sent     json.RawMessage `json:"sent"`
	Printed  json.RawMessage `json:"printed"`
	Protobuf string          `json:"protobuf"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	known := scheme.Scheme
	must(apiextensions.AddToScheme(known))
	for _, group := range known.PreferredVersionAllGroups() {
		metav1.AddToGroupVersion(known, group)
	}
	decoder := serializer.NewCodecFactory(known).UniversalDeserializer()
	encoder := protobuf.NewSerializer(known, known)
	var found []golden
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		object, kind, err := decoder.Decode(lines.Bytes(), nil, nil)
		must(err)
		object.GetObjectKind().SetGroupVersionKind(*kind)
		printed, err := json.Marshal(object)
		must(err)
		var wire bytes.Buffer
		must(encoder.Encode(object.(runtime.Object), &wire))
		found = append(found, golden{append([]byte(nil), lines.Bytes()...), printed, base64.StdEncoding.EncodeToString(wire.Bytes())})
	}
	output := json.NewEncoder(os.Stdout)
	must(output.Encode(found))
}
