package tools

import "slices"

const (
	schemaNone   = `{"type":"object"}`
	schemaText   = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	schemaName   = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	hintReadOnly = `{"readOnlyHint":true,"idempotentHint":true}`
)

// Tool is one default tool.
type Tool struct {
	Name, Description string
	// Schema and Annotations are JSON. Annotations may be empty.
	Schema, Annotations string
	// Blocks: Run may block, so it needs a goroutine of its own.
	Blocks bool
	// NeedsStreams: Run uses Call.Streams, so the tool is not offered over HTTP.
	NeedsStreams bool
	Run          func(c *Call) Result
}

// All lists the default tools in the order of their listing. Do not change it.
var All = []Tool{
	{Name: "echo", Description: "Answers with its text.", Schema: schemaText, Annotations: hintReadOnly, Run: withArgs(echo)},
	{Name: "add", Description: "Adds two numbers.", Annotations: hintReadOnly, Run: withArgs(add),
		Schema: `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`},
	{Name: "sleep", Description: "Answers after ms milliseconds, unless cancelled.", Annotations: hintReadOnly, Blocks: true, Run: withArgs(sleep),
		Schema: `{"type":"object","properties":{"ms":{"type":"number"}},"required":["ms"]}`},
	{Name: "fail", Description: "Fails as a tool does: isError, with its text.", Annotations: hintReadOnly, Run: withArgs(fail),
		Schema: `{"type":"object","properties":{"text":{"type":"string"}}}`},
	{Name: "pid", Description: "Answers with the process id, a random instance id and the number of the start.",
		Schema: schemaNone, Annotations: hintReadOnly, Run: withArgs(pid)},
	{Name: "count", Description: "Has a side effect: records one execution under the key.", Run: withArgs(count),
		Schema: `{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}`},
	{Name: "crash", Description: "Exits with the status code, 1 by default, before answering.", Run: withArgs(crash),
		Schema: `{"type":"object","properties":{"code":{"type":"integer"}}}`},
	{Name: "signal", Description: "Dies of the signal, such as KILL, before answering.", Schema: schemaName, NeedsStreams: true, Run: withArgs(die)},
	{Name: "hang", Description: "Never answers.", Schema: schemaNone, Annotations: hintReadOnly, Blocks: true, Run: withArgs(hang)},
	{Name: "env", Description: "Answers with an environment variable of the server.", Schema: schemaName, Annotations: hintReadOnly, Run: withArgs(env)},
	{Name: "big", Description: "Answers with that many bytes.", Annotations: hintReadOnly, Run: withArgs(big),
		Schema: `{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}`},
	{Name: "stderr", Description: "Writes a line to stderr.", Schema: schemaText, NeedsStreams: true, Run: withArgs(writeStderr)},
	{Name: "junk", Description: "Writes lines to stdout that are not JSON-RPC.", NeedsStreams: true, Run: withArgs(writeJunk),
		Schema: `{"type":"object","properties":{"count":{"type":"integer"}}}`},
	{Name: "fork", Description: "Starts a grandchild that holds the output streams and ignores SIGTERM.", NeedsStreams: true, Run: withArgs(fork),
		Schema: `{"type":"object","properties":{"detached":{"type":"boolean"}}}`},
	{Name: "add_tool", Description: "Adds a tool and announces it.", Schema: schemaName, Run: withArgs(addTool)},
	{Name: "remove_tool", Description: "Removes a tool and announces it.", Schema: schemaName, Run: withArgs(removeTool)},
	{Name: "slow_progress", Description: "Takes steps, ms milliseconds apart, and reports each.", Annotations: hintReadOnly, Blocks: true, Run: withArgs(slowProgress),
		Schema: `{"type":"object","properties":{"steps":{"type":"integer"},"ms":{"type":"number"}},"required":["steps"]}`},
	{Name: "log", Description: "Sends a log message.", Run: withArgs(logMessage),
		Schema: `{"type":"object","properties":{"level":{"type":"string"},"text":{"type":"string"}},"required":["text"]}`},
	{Name: "touch", Description: "Announces that a resource changed.", Run: withArgs(touch),
		Schema: `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`},
	{Name: "ask", Description: "Sends a request to the client and returns its answer.", Blocks: true, NeedsStreams: true, Run: withArgs(ask),
		Schema: `{"type":"object","properties":{"method":{"type":"string"},"params":{"type":"object"}},"required":["method"]}`},
	{Name: "consult", Description: "Requires input of the client in several rounds and returns the last.", Blocks: true, Run: withArgs(consult),
		Schema: `{"type":"object","properties":{"method":{"type":"string"},"params":{"type":"object"},"rounds":{"type":"integer"}},"required":["method"]}`},
}

// Named returns the default tool of that name.
func Named(name string) (Tool, bool) {
	i := slices.IndexFunc(All, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return All[i], true
}

// Echo is the behaviour of tools without one of their own: it answers with the
// arguments.
var Echo = Tool{Run: func(c *Call) Result { return textResult(string(c.Arguments)) }}
