package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// ToolFunc is what a tool of your own does. arguments is the JSON of an object, or nil if the
// call has none. A string is answered as text, nil as an empty text, and any other result
// as its JSON in text; that of an object is the structured content, too. An error is answered as the failure of the
// tool (isError) with its text, and a *[jsonrpc.Error] as an error of the protocol. ctx
// ends when the client cancels the call, or when the server ends.
//
// Each call has a goroutine of its own. A panic ends the process, as in a real server; with
// [InMemory] and [NewHTTP] that is the process of the test.
type ToolFunc func(ctx context.Context, arguments json.RawMessage) (result any, err error)

// registered holds the tools of RegisterTool, by name.
var registered = struct {
	sync.RWMutex
	byName map[string]tools.Tool
}{byName: map[string]tools.Tool{}}

// RegisterTool makes f the behaviour of tools of that name in all scripts of the process,
// and of tools whose As is that name. A script still has to list the tool: its faults apply
// to it as to any other. With [Stdio] the server is another process, which runs the same
// binary: register in an init function, or in TestMain before [Main].
//
// It panics if the name is empty, belongs to one of [DefaultTools] or was registered
// before, or if f is nil.
func RegisterTool(name string, f ToolFunc) {
	registered.Lock()
	defer registered.Unlock()
	_, isDefault := tools.Named(name)
	_, twice := registered.byName[name]
	switch {
	case name == "" || f == nil:
		panic("mcptest: RegisterTool needs a name and a function")
	case isDefault:
		panic(fmt.Sprintf("mcptest: %q is the name of a default tool; register another name", name))
	case twice:
		panic(fmt.Sprintf("mcptest: the tool %q is registered twice", name))
	}
	registered.byName[name] = tools.Tool{Name: name, Blocks: true, Run: f.run}
}

// toolNamed returns the default or registered tool of that name.
func toolNamed(name string) (tools.Tool, bool) {
	if t, ok := tools.Named(name); ok {
		return t, true
	}
	registered.RLock()
	defer registered.RUnlock()
	t, ok := registered.byName[name]
	return t, ok
}

// run calls the function and converts what it returns.
func (f ToolFunc) run(c *tools.Call) tools.Result {
	result, err := f(c.Context, c.Arguments)
	var protocol *jsonrpc.Error
	switch {
	case errors.As(err, &protocol):
		return tools.Result{Err: protocol}
	case err != nil:
		return tools.Result{Text: err.Error(), IsError: true}
	case result == nil:
		return tools.Result{}
	}
	if text, ok := result.(string); ok {
		return tools.Result{Text: text}
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return tools.Result{Text: "the result of the tool cannot be encoded: " + err.Error(), IsError: true}
	}
	r := tools.Result{Text: string(encoded)}
	if encoded[0] == '{' {
		r.Structured = encoded
	}
	return r
}
