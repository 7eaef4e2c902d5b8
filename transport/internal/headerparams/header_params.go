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
// intermediaries need not read the body: the name in Mcp-Name, and in
// Mcp-Param-{Name} each argument that the tool's schema marks with
// "x-mcp-header". A server refuses a request whose headers do not match.

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
	// maxExactInteger bounds the integers that every JSON reader gets right.
	maxExactInteger = 1<<53 - 1
)

// HeaderParams knows which arguments of which tools travel in headers, from
// the listings that this session has seen. Safe for concurrent use.
type HeaderParams struct {
	mu    sync.RWMutex
	tools map[string]toolParams
	// reading counts the readings of the list, and taken the tools that the
	// newest one has put here.
	reading uint64
	learned int
}

// toolParams are the headers of one tool, and the reading that named it last.
type toolParams struct {
	params  []headerParam
	reading uint64
}

// headerParam says that the argument at path goes into a header.
type headerParam struct {
	path   []string
	header string
}

// Learn takes the marks from a result of tools/list: the first page of a reading
// of the list, or a later one. It takes at most that many tools of a reading.
// What cannot be read is left to discovery, which sees the same result.
//
// A tool that neither this reading nor the one before has named is forgotten.
// The one before counts because two readings may overlap.
func (p *HeaderParams) Learn(result json.RawMessage, first bool, most int) {
	if first {
		p.startReading()
	}
	p.mu.RLock()
	nothing := len(p.tools) == 0
	p.mu.RUnlock()
	if nothing && !bytes.Contains(result, []byte(`"x-mcp-header"`)) {
		return // by far the usual case
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
		return listed < most // discovery takes no more of a page either
	})
}

// learnTool takes the marks of one tool.
func (p *HeaderParams) learnTool(item []byte, most int) {
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

// startReading starts a reading, and forgets what the last one did not name.
func (p *HeaderParams) startReading() {
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
func (p *HeaderParams) AddTo(h http.Header, r transport.Request) {
	p.mu.RLock()
	marks := p.tools[r.Target].params
	p.mu.RUnlock()
	if len(marks) == 0 {
		return
	}
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return
	}
	for _, mark := range marks {
		if value, ok := paramValue(argumentAt(params.Arguments, mark.path)); ok {
			h.Set("Mcp-Param-"+mark.header, HeaderValue(value))
		}
	}
}
