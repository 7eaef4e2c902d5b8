package configfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// Target returns what an entry that makes no server would run or reach, as the file
// says it and without secrets: the loader reads nothing in a disabled entry, and makes no spec
// of one that cannot be used. It is empty if the file does not say it, and for the name "",
// which stands for the whole file.
func Target(path, name string) string {
	f, err := Open(path)
	if err != nil {
		return ""
	}
	text, _, found := f.Entry(name)
	var entry map[string]any
	if !found || json.Unmarshal(text, &entry) != nil {
		return ""
	}
	value := func(key string) string {
		text, _ := entry[key].(string)
		return text
	}
	address := cmp.Or(value("httpUrl"), value("url"), value("serverUrl"))
	switch {
	case value("command") != "":
		var args []string
		list, _ := entry["args"].([]any)
		for _, arg := range list {
			word, _ := arg.(string)
			args = append(args, word)
		}
		return mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: value("command"), Args: args}}.Target()
	case address == "":
		return ""
	}
	// A variable is no legal host, and a path would have its braces escaped.
	var names []string
	address = writtenVariable.ReplaceAllStringFunc(address, func(expr string) string {
		name, _, _ := strings.Cut(strings.TrimSuffix(expr, "}"), ":-") // the default may be a secret
		names = append(names, name+"}")
		return variableMark(len(names) - 1)
	})
	target := mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: address}}.Target()
	for i, name := range slices.Backward(names) { // mark 1 begins as mark 10 does
		target = strings.Replace(target, variableMark(i), name, 1)
	}
	return target
}

// writtenVariable matches a variable in the text of a file.
var writtenVariable = regexp.MustCompile(`\$\{[^}]*\}`)

// variableMark stands for a variable in an address while that is read.
func variableMark(i int) string { return fmt.Sprintf("variable-%d", i) }
