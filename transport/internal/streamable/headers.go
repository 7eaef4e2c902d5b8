package streamable

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
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

// HeaderValue writes a text as a header value: as it is if it is printable
// ASCII without outer spaces, else in the protocol's own Base64 form.
func HeaderValue(text string) string {
	plain := text == strings.Trim(text, " ") &&
		!(strings.HasPrefix(text, encodedPrefix) && strings.HasSuffix(text, encodedSuffix))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= 0x20 && text[i] <= 0x7e
	}
	if plain {
		return text
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + encodedSuffix
}

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

// annotatedSchema is the part of a schema in which the marks stand.
type annotatedSchema struct {
	Type       any                        `json:"type"`
	Header     json.RawMessage            `json:"x-mcp-header"`
	Properties map[string]annotatedSchema `json:"properties"`
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

// schemaLimits bound a schema that is searched for annotations. It is decoded as a whole.
var schemaLimits = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}

// readAnnotated reads a schema that may hold marks.
func readAnnotated(schema json.RawMessage, m *annotatedSchema) error {
	if len(schema) == 0 {
		return nil
	}
	if err := jsonrpc.CheckBounds(schema, schemaLimits); err != nil {
		return fmt.Errorf("it holds %w", err)
	}
	return json.Unmarshal(schema, m)
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

// CheckHeaderParams reports why a tool's marks cannot be followed. "Clients MUST
// exclude" such a tool from what they list (MCP 2026-07-28, Streamable HTTP).
func CheckHeaderParams(schema json.RawMessage) error {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil
	}
	var root annotatedSchema
	if err := readAnnotated(schema, &root); err != nil {
		return fmt.Errorf("its schema cannot be read: %w", err)
	}
	return root.check(map[string]bool{})
}

// check looks at the properties of a schema. seen holds the names so far, which
// are the same header in any case.
func (m annotatedSchema) check(seen map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		p := m.Properties[name]
		if p.Header != nil {
			var header string
			switch kind, _ := p.Type.(string); {
			case json.Unmarshal(p.Header, &header) != nil || !isToken(header):
				return fmt.Errorf("the x-mcp-header of %q is no header name", name)
			case kind != "string" && kind != "integer" && kind != "boolean":
				return fmt.Errorf("the x-mcp-header of %q marks a value that is no string, integer or boolean", name)
			case seen[strings.ToLower(header)]:
				return fmt.Errorf("the x-mcp-header %q marks two values", header)
			}
			seen[strings.ToLower(header)] = true
		}
		if err := p.check(seen); err != nil {
			return err
		}
	}
	return nil
}

func collectParams(properties map[string]annotatedSchema, prefix []string) []headerParam {
	var found []headerParam
	for name, schema := range properties {
		path := append(prefix[:len(prefix):len(prefix)], name)
		var header string
		if json.Unmarshal(schema.Header, &header) == nil && isToken(header) {
			found = append(found, headerParam{path: path, header: header})
		}
		found = append(found, collectParams(schema.Properties, path)...)
	}
	return found
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

func argumentAt(value json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return nil
		}
		value = object[name]
	}
	return value
}

// paramValue is an argument as text: a string, a boolean, or an integer that
// is exact everywhere. Other values do not travel in headers.
func paramValue(raw json.RawMessage) (string, bool) {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= maxExactInteger {
			return strconv.FormatInt(int64(v), 10), true
		}
	}
	return "", false
}

// isToken reports whether a text can stand in the name of a header.
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// CheckInputSchema implements [InputSchemaChecker]. Before 2026-07-28 the annotations of a
// schema mean nothing, and every schema passes.
func (s *session) CheckInputSchema(schema json.RawMessage) error {
	if !s.isModern() {
		return nil
	}
	return CheckHeaderParams(schema)
}
