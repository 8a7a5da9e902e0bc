// SPDX-License-Identifier: Apache-2.0

// goyaml answers questions about YAML with the library that wrote the reference's ConfigMaps.
//
// One JSON object a line comes in on stdin, one goes out on stdout:
//
//	{"write": "<JSON text>"}  ->  {"text": "<YAML>"}
//	{"read":  "<YAML>"}       ->  {"text": "<JSON text>"}   or {"error": "..."}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

type question struct {
	Write *string `json:"write"`
	Read  *string `json:"read"`
}

type answer struct {
	Text  string `json:"text"`
	Error string `json:"error,omitempty"`
}

func ask(q question) (result answer) {
	defer func() {
		if caught := recover(); caught != nil {
			result = answer{Error: fmt.Sprint("panic: ", caught)}
		}
	}()
	var text []byte
	var err error
	if q.Write != nil {
		var value any
		numbers := json.NewDecoder(strings.NewReader(*q.Write))
		numbers.UseNumber()
		if err = numbers.Decode(&value); err == nil {
			text, err = yaml.Marshal(value)
		}
	} else {
		text, err = yaml.YAMLToJSON([]byte(*q.Read))
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Text: string(text)}
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	for {
		var q question
		if decoder.Decode(&q) != nil {
			return
		}
		if out.Encode(ask(q)) != nil {
			return
		}
	}
}
