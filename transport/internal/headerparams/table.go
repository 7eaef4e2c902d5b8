package headerparams

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// MCP 2026-07-28, Streamable HTTP: a client repeats parts of a request in headers, so
// that proxies need not read the body. Mcp-Name carries the name of the tool.
// Mcp-Param-{Name} carries each argument that the tool's schema annotates with
// "x-mcp-header". A server rejects a request whose headers do not match its body.

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
	// maxExactInteger bounds the integers that every JSON reader represents exactly.
	maxExactInteger = 1<<53 - 1
)

// Table holds which arguments of which tools a call repeats in headers. It reads them
// from the tool lists that the session receives. The zero Table is empty and ready.
// Safe for concurrent use.
type Table struct {
	mu    sync.RWMutex // guards all fields
	tools map[string]toolParams
	// reading numbers the readings of the tool list, and learned counts the tools that
	// the current reading has added.
	reading uint64
	learned int
}

// toolParams holds the annotated arguments of one tool, and the number of the last
// reading that contained the tool.
type toolParams struct {
	params  []headerParam
	reading uint64
}

// headerParam is one annotated argument: its path in the arguments, and the header that
// repeats it.
type headerParam struct {
	path   []string
	header string
}

// Learn stores the annotations in a result of tools/list. first says whether the result
// is the first page of a reading of the list. At most maxTools tools of one reading are
// kept. Learn ignores errors; discovery reads the same result and reports them.
//
// A tool is dropped when neither the current reading nor the previous one contained it.
// The previous one counts because two readings may overlap.
func (t *Table) Learn(result json.RawMessage, first bool, maxTools int) {
	if first {
		t.startReading()
	}
	t.mu.RLock()
	empty := len(t.tools) == 0
	t.mu.RUnlock()
	if empty && !bytes.Contains(result, []byte(`"x-mcp-header"`)) {
		return // the usual case
	}
	var tools []byte
	if err := jsonscan.EachMember(result, func(key string, value []byte) error {
		if key == "tools" {
			tools = value
		}
		return nil
	}); err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	listed := 0
	jsonscan.EachItem(tools, func(item []byte) bool {
		t.learnTool(item, maxTools)
		listed++
		return listed < maxTools // discovery reads no more of a page than this
	})
}

// learnTool stores the annotations of one tool. The caller holds the mutex.
func (t *Table) learnTool(item []byte, maxTools int) {
	var tool struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"inputSchema"`
	}
	var schema annotatedSchema
	if json.Unmarshal(item, &tool) != nil || readAnnotated(tool.Schema, &schema) != nil {
		return
	}
	delete(t.tools, tool.Name)
	if found := collectParams(schema.Properties, nil); len(found) > 0 && t.learned < maxTools {
		if t.tools == nil {
			t.tools = make(map[string]toolParams)
		}
		t.tools[tool.Name] = toolParams{params: found, reading: t.reading}
		t.learned++
	}
}

// startReading begins a reading of the list, and drops the tools that the previous
// reading did not contain.
func (t *Table) startReading() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, tool := range t.tools {
		if tool.reading < t.reading {
			delete(t.tools, name)
		}
	}
	t.reading++
	t.learned = 0
}

// AddTo adds to h the headers of the annotated arguments of a tool call.
func (t *Table) AddTo(h http.Header, r transport.Request) {
	t.mu.RLock()
	headers := t.tools[r.Target].params
	t.mu.RUnlock()
	if len(headers) == 0 {
		return
	}
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return
	}
	for _, param := range headers {
		if value, ok := paramValue(argumentAt(params.Arguments, param.path)); ok {
			h.Set("Mcp-Param-"+param.header, Value(value))
		}
	}
}
