package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/argcheck"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// ToolCall is one call that a storm makes again and again.
type ToolCall struct {
	// Tool is the qualified name, as in "fs/list_allowed_directories".
	Tool string `json:"tool"`
	// Arguments is a JSON object, or nil for none.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// server returns the name of the server that has the tool.
func (t ToolCall) server() string {
	server, _, _ := mcpvisor.SplitName(t.Tool)
	return server
}

// readOnlyTools returns calls of the tools of a ready server that say that they are read-only
// (annotations, readOnlyHint), with arguments made from their schemas. A tool with a required
// parameter whose value cannot be derived is left out: it needs a default, a constant, an
// enumeration or examples, or to be a boolean or a number.
func readOnlyTools(c *facade.Client, server string) (calls []ToolCall) {
	for tool := range c.AllTools() {
		if hints := tool.Definition.Annotations; tool.Server != server || hints == nil || !hints.ReadOnlyHint {
			continue
		}
		schema, _ := tool.Definition.InputSchema.(json.RawMessage)
		if args, ok := argumentsFor(schema); ok {
			calls = append(calls, ToolCall{tool.Name, args})
		}
	}
	return calls
}

// parameter is the part of a JSON Schema that a value can be derived from.
type parameter struct {
	Type     any               `json:"type"`
	Const    json.RawMessage   `json:"const"`
	Default  json.RawMessage   `json:"default"`
	Enum     []json.RawMessage `json:"enum"`
	Examples []json.RawMessage `json:"examples"`
	Minimum  *json.Number      `json:"minimum"`
}

// argumentsFor returns an object with the required parameters of an input schema; ok is false
// if one of them cannot be derived.
func argumentsFor(inputSchema json.RawMessage) (args json.RawMessage, ok bool) {
	var schema struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(inputSchema) > 0 && json.Unmarshal(inputSchema, &schema) != nil {
		return nil, false
	}
	object := map[string]json.RawMessage{}
	for _, name := range schema.Required {
		var p parameter
		if json.Unmarshal(schema.Properties[name], &p) != nil {
			return nil, false
		}
		if object[name] = p.value(); object[name] == nil {
			return nil, false
		}
	}
	args, err := json.Marshal(object)
	return args, err == nil
}

// value returns a value of the parameter, or nil.
func (p parameter) value() json.RawMessage {
	switch {
	case p.Const != nil:
		return p.Const
	case p.Default != nil:
		return p.Default
	case len(p.Enum) > 0:
		return p.Enum[0]
	case len(p.Examples) > 0:
		return p.Examples[0]
	case p.Type == "boolean":
		return json.RawMessage("false")
	case p.Type == "integer" || p.Type == "number":
		if p.Minimum != nil {
			return json.RawMessage(*p.Minimum)
		}
		return json.RawMessage("1")
	}
	return nil
}

// checkCalls is an error if a call cannot be made whatever its server lists.
func checkCalls(calls []ToolCall, specs []mcpvisor.ServerSpec) error {
	for _, call := range calls {
		known := false
		var names []string
		for _, spec := range specs {
			known = known || spec.Name == call.server()
			names = append(names, spec.Name)
		}
		if !known {
			return fmt.Errorf("tool %q is of no server here; name it as server/tool, with one of: %s", call.Tool, strings.Join(names, ", "))
		}
		var object map[string]json.RawMessage
		if len(call.Arguments) > 0 && json.Unmarshal(call.Arguments, &object) != nil {
			return fmt.Errorf("the arguments of tool %q are not a JSON object", call.Tool)
		}
	}
	return nil
}

// misnamedError says what is wrong with the calls of Options.Tools for one server.
type misnamedError struct{ problems []string }

// Error implements error.
func (e *misnamedError) Error() string { return strings.Join(e.problems, "; ") }

// checkListed is an error if a ready server does not list the tool of a call, or if the tool
// does not take its arguments.
func checkListed(ctx context.Context, c *facade.Client, server string, calls []ToolCall) *misnamedError {
	tools, names := map[string]mcpvisor.Tool{}, []string{}
	for tool := range c.AllTools() {
		if tool.Server == server {
			tools[tool.Name] = tool
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	var problems []string
	for _, call := range calls {
		tool, listed := tools[call.Tool]
		if !listed {
			problems = append(problems, fmt.Sprintf("server %q lists no tool %q; %s", server, call.Tool, instead(call.Tool, names)))
			continue
		}
		schema, _ := tool.Definition.InputSchema.(json.RawMessage)
		args := call.Arguments
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		var checker argcheck.Checker
		for _, v := range checker.Check(ctx, schema, args, argcheck.Options{}).Violations {
			subject := "the arguments"
			if v.Path != "" {
				subject = "argument " + v.Path
			}
			problems = append(problems, fmt.Sprintf("tool %q: %s %s", call.Tool, subject, v.Reason))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &misnamedError{problems}
}

// instead says which tools there are instead of one.
func instead(tool string, names []string) string {
	if near := nearest.Names(tool, names); len(near) > 0 {
		return "did you mean " + strings.Join(near, ", ") + "?"
	}
	if len(names) == 0 {
		return "it lists none"
	}
	return "it lists " + first(20, names)
}
