package mcptest

import "encoding/json"

const (
	schemaNone   = `{"type":"object"}`
	schemaText   = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	schemaName   = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	hintReadOnly = `{"readOnlyHint":true,"idempotentHint":true}`
)

// toolOrder is the default tools in the order of their listing.
var toolOrder = []string{
	"echo", "add", "sleep", "fail", "pid", "count", "crash", "signal", "hang", "env", "big", "stderr",
	"junk", "fork", "add_tool", "remove_tool", "slow_progress", "log", "touch", "ask", "consult",
}

// behaviours is what the default tools do, by name.
var behaviours = map[string]behaviour{
	"echo": {about: "Answers with its text.", schema: schemaText, hints: hintReadOnly, do: echo},
	"add": {about: "Adds two numbers.", hints: hintReadOnly, do: withArgs(add),
		schema: `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`},
	"sleep": {about: "Answers after ms milliseconds, unless cancelled.", hints: hintReadOnly, waits: true, do: withArgs(sleep),
		schema: `{"type":"object","properties":{"ms":{"type":"number"}},"required":["ms"]}`},
	"fail": {about: "Fails as a tool does: isError, with its text.", hints: hintReadOnly, do: withArgs(fail),
		schema: `{"type":"object","properties":{"text":{"type":"string"}}}`},
	"pid": {about: "Tells process id, a random instance id and the number of the start.", schema: schemaNone, hints: hintReadOnly, do: withArgs(pid)},
	"count": {about: "Has a side effect: records one execution under the key.", do: withArgs(count),
		schema: `{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}`},
	"crash": {about: "Exits with the status code, 1 by default, before answering.", do: withArgs(crash),
		schema: `{"type":"object","properties":{"code":{"type":"integer"}}}`},
	"signal": {about: "Dies of the signal, as KILL, before answering.", schema: schemaName, linesOnly: true, do: withArgs(die)},
	"hang":   {about: "Never answers.", schema: schemaNone, hints: hintReadOnly, waits: true, do: withArgs(hang)},
	"env":    {about: "Tells an environment variable of the server.", schema: schemaName, hints: hintReadOnly, do: withArgs(env)},
	"big": {about: "Answers with that many bytes.", hints: hintReadOnly, do: withArgs(big),
		schema: `{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}`},
	"stderr": {about: "Writes a line to stderr.", schema: schemaText, linesOnly: true, do: withArgs(stderr)},
	"junk": {about: "Writes lines to stdout that are not JSON-RPC.", linesOnly: true, do: withArgs(writeJunk),
		schema: `{"type":"object","properties":{"count":{"type":"integer"}}}`},
	"fork": {about: "Starts a grandchild that holds the output streams and ignores SIGTERM.", linesOnly: true, do: withArgs(fork),
		schema: `{"type":"object","properties":{"detached":{"type":"boolean"}}}`},
	"add_tool":    {about: "Adds a tool and announces it.", schema: schemaName, do: withArgs(addTool)},
	"remove_tool": {about: "Removes a tool and announces it.", schema: schemaName, do: withArgs(removeTool)},
	"slow_progress": {about: "Takes steps, ms milliseconds apart, and reports each.", hints: hintReadOnly, waits: true, do: withArgs(slowProgress),
		schema: `{"type":"object","properties":{"steps":{"type":"integer"},"ms":{"type":"number"}},"required":["steps"]}`},
	"log": {about: "Sends a log message.", do: withArgs(logMessage),
		schema: `{"type":"object","properties":{"level":{"type":"string"},"text":{"type":"string"}},"required":["text"]}`},
	"touch": {about: "Announces that a resource changed.", do: withArgs(touch),
		schema: `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`},
	"consult": {about: "Wants input of the client in so many rounds, and tells the last.", waits: true, do: withArgs(consult),
		schema: `{"type":"object","properties":{"method":{"type":"string"},"params":{"type":"object"},"rounds":{"type":"integer"}},"required":["method"]}`},
	"ask": {about: "Sends a request to the client and tells its answer.", waits: true, linesOnly: true, do: withArgs(ask),
		schema: `{"type":"object","properties":{"method":{"type":"string"},"params":{"type":"object"}},"required":["method"]}`},
}

// DefaultTools is what a script without tools offers, to build upon:
//
//	echo {text}               answers with the text
//	add {a, b}                the sum, as text and as structured content
//	sleep {ms}                answers later, unless cancelled
//	fail {text}               an isError result
//	pid                       {pid, instance, start}: which process and incarnation
//	count {key}               a side effect that is recorded; see Executions
//	crash {code}              exits before answering
//	signal {name}             dies of a signal before answering
//	hang                      never answers
//	env {name}                an environment variable of the server
//	big {bytes}               that many bytes of text
//	stderr {text}             a line on stderr
//	junk {count}              lines on stdout that are not JSON-RPC
//	fork {detached}           a grandchild that holds stdout and stderr
//	add_tool {name}           changes the list of tools and announces it
//	remove_tool {name}        the same
//	slow_progress {steps, ms} progress notifications, if asked for by a token
//	log {level, text}         a log message, if the level is wanted
//	touch {uri}               notifications/resources/updated, if subscribed
//	ask {method, params}      a request of the server to the client
//	consult {method, params, rounds} the same as the version wants it: since
//	                          2026-07-28 by answers that want input
//
// Over HTTP the tools that need the process's own streams are left out.
func DefaultTools() []ToolDef {
	tools := make([]ToolDef, 0, len(toolOrder))
	for _, name := range toolOrder {
		b := behaviours[name]
		t := ToolDef{Name: name, Description: b.about, InputSchema: json.RawMessage(b.schema)}
		if b.hints != "" {
			t.Annotations = json.RawMessage(b.hints)
		}
		tools = append(tools, t)
	}
	return tools
}
