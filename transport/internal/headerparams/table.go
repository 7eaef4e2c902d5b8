package headerparams

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Streamable HTTP of 2026-07-28 repeats parts of a request in headers, so that
// proxies need not read the body: the name of the tool in Mcp-Name, and in
// Mcp-Param-{Name} each argument that the schema of the tool annotates with
// "x-mcp-header". A server refuses a request whose headers do not match its body.

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
	// maxExactInteger bounds the integers that every JSON reader represents exactly.
	maxExactInteger = 1<<53 - 1
)

// Table knows which arguments of which tools travel in headers. It learns them from
// the tool lists that the session receives. Safe for concurrent use.
type Table struct {
	mu    sync.RWMutex
	tools map[string]toolParams
	// reading is the number of the current reading of the tool list, and learned the
	// number of tools that this reading has added.
	reading uint64
	learned int
}

// toolParams are the annotated arguments of one tool, and the last reading that
// contained the tool.
type toolParams struct {
	params  []headerParam
	reading uint64
}

// headerParam says that the argument at this path travels in this header.
type headerParam struct {
	path   []string
	header string
}

// Learn takes the annotations from a result of tools/list. first says whether it is
// the first page of a reading of the list. At most max tools of a reading are kept.
// Errors are ignored here; discovery reads the same result and reports them.
//
// A tool that is missing from this reading and from the one before is dropped. The
// earlier one counts because two readings may overlap.
func (p *Table) Learn(result json.RawMessage, first bool, most int) {
	if first {
		p.startReading()
	}
	p.mu.RLock()
	nothing := len(p.tools) == 0
	p.mu.RUnlock()
	if nothing && !bytes.Contains(result, []byte(`"x-mcp-header"`)) {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	listed := 0
	jsonscan.EachItem(tools, func(item []byte) bool {
		p.learnTool(item, most)
		listed++
		return listed < most // discovery reads no more of a page either
	})
}

// learnTool takes the annotations of one tool.
func (p *Table) learnTool(item []byte, most int) {
	var tool struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"inputSchema"`
	}
	var schema annotatedSchema
	if json.Unmarshal(item, &tool) != nil || readAnnotated(tool.Schema, &schema) != nil {
		return
	}
	delete(p.tools, tool.Name)
	if found := collectParams(schema.Properties, nil); len(found) > 0 && p.learned < most {
		if p.tools == nil {
			p.tools = make(map[string]toolParams)
		}
		p.tools[tool.Name] = toolParams{params: found, reading: p.reading}
		p.learned++
	}
}

// startReading begins a reading of the list, and drops the tools that the last one
// did not contain.
func (p *Table) startReading() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, tool := range p.tools {
		if tool.reading < p.reading {
			delete(p.tools, name)
		}
	}
	p.reading++
	p.learned = 0
}

// AddTo adds the headers that a call of a tool needs.
func (p *Table) AddTo(h http.Header, r transport.Request) {
	p.mu.RLock()
	headers := p.tools[r.Target].params
	p.mu.RUnlock()
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
