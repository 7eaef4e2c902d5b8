// Package capability decodes what clients declare into bits, and says what they can be asked. It keeps
// no state.
package capability

import (
	"cmp"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Capabilities of clients. The ids of sessions contain these bits, so their values must not change.
const (
	canSample uint16 = 1 << iota
	canSampleWithTools
	canElicitForms
	canElicitURLs
	hasRoots
	Tasks            // of 2025-11-25
	rootsListChanged // with hasRoots
)

// OfInitialize returns the capabilities that a client has declared in initialize.
func OfInitialize(capabilities json.RawMessage) (bits uint16) {
	_ = jsonscan.EachMember(capabilities, func(key string, value []byte) error { // no object: nothing is declared
		if string(value) == "null" {
			return nil
		}
		switch key {
		case "sampling":
			bits |= canSample | bitOf(value, canSampleWithTools, "tools")
		case "elicitation":
			modes := bitOf(value, canElicitForms, "form") | bitOf(value, canElicitURLs, "url")
			if modes == 0 { // as before 2025-11-25
				modes = canElicitForms
			}
			bits |= modes
		case "roots":
			bits |= hasRoots | bitOf(value, rootsListChanged, "listChanged")
		case "tasks":
			if value[0] == '{' {
				bits |= Tasks
			}
		}
		return nil
	})
	return bits
}

// OfRequest returns the capabilities in a request of 2026-07-28. There tasks are an extension; see
// HasTasksExtension.
func OfRequest(capabilities json.RawMessage) uint16 {
	return OfInitialize(capabilities) &^ Tasks
}

// bitOf returns bit if an object has a member that is neither null nor false.
func bitOf(object []byte, bit uint16, name string) uint16 {
	if value := string(jsonscan.Member(object, name)); value == "" || value == "null" || value == "false" {
		return 0
	}
	return bit
}

// HasTasksExtension reports whether the capabilities of a request of 2026-07-28 declare the extension
// for tasks.
func HasTasksExtension(capabilities json.RawMessage) bool {
	return jsonscan.Member(jsonscan.Member(capabilities, "extensions"), task.Extension) != nil
}

// Answers returns what a client with these capabilities answers.
func Answers(bits uint16) facade.Declared {
	return facade.Declared{
		Sampling: bits&canSample != 0, SamplingTools: bits&canSampleWithTools != 0,
		Elicitation: bits&canElicitForms != 0, URLElicitation: bits&canElicitURLs != 0, Roots: bits&hasRoots != 0, RootsListChanged: bits&rootsListChanged != 0,
	}
}

// Check refuses a request that needs a detail that the client has not declared, such as a mode of
// elicitation.
func Check(declared uint16, r relay.ServerRequest) error {
	mode, _ := jsonscan.ReadString(jsonscan.Member(r.Params, "mode"))
	mode = cmp.Or(mode, "form")
	tools := jsonscan.Member(r.Params, "tools") != nil || jsonscan.Member(r.Params, "toolChoice") != nil
	missing := ""
	switch {
	case r.Method == "sampling/createMessage" && tools && declared&canSampleWithTools == 0:
		missing = "sampling.tools"
	case r.Method == "elicitation/create" && mode == "form" && declared&canElicitForms == 0:
		missing = "elicitation.form"
	case r.Method == "elicitation/create" && mode == "url" && declared&canElicitURLs == 0:
		missing = "elicitation.url"
	}
	if missing == "" {
		return nil
	}
	return message.InvalidParams("the client has not declared " + missing)
}

// answering has, by method, the capabilities one of which a client needs to be asked.
var answering = map[string]uint16{"sampling/createMessage": canSample, "elicitation/create": canElicitForms | canElicitURLs, "roots/list": hasRoots}

// CanAnswer reports whether a client with these capabilities answers a method of a server.
func CanAnswer(bits uint16, method string) bool { return bits&answering[method] != 0 }
