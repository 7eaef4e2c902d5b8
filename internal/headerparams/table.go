// Package headerparams handles the tool arguments that a client repeats in HTTP headers
// (MCP 2026-07-28, Streamable HTTP). A tool marks such an argument in its input schema
// with "x-mcp-header".
//
// [Table] holds which tools have marked arguments and adds their headers to a call, or compares them.
// [Check] reports whether the marks of a schema can be used. [Value] encodes a value for a
// header. What a tool may mark, what the marks keep in memory, and what the headers of a
// call take have bounds.
package headerparams

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// MCP 2026-07-28, Streamable HTTP: a client repeats parts of a request in headers, so
// that proxies need not read the body. Mcp-Name carries the name of the tool.
// Mcp-Param-{Name} carries each argument that the tool's schema annotates with
// "x-mcp-header". A server rejects a request whose headers do not match its body.

// Table holds which arguments of which tools a call repeats in headers. The zero Table is
// empty and ready. Safe for concurrent use.
type Table struct {
	// tools holds the tools with marked arguments by name. The map is replaced and never
	// changed; nil: no tool has any.
	tools atomic.Pointer[map[string]*toolMarks]
}

// Replace replaces the content of the table by the marks of these tools. Discovery has
// accepted them, so [Check] has found no fault with their schemas.
func (t *Table) Replace(tools []mcpvisor.Tool) {
	var marked map[string]*toolMarks
	for i := range tools {
		schema, _ := tools[i].Definition.InputSchema.(json.RawMessage)
		if marks, err := readMarks(schema); err == nil && marks != nil {
			if marked == nil {
				marked = make(map[string]*toolMarks)
			}
			marked[strings.Clone(tools[i].OriginalName)] = marks
		}
	}
	if marked == nil {
		t.tools.Store(nil)
		return
	}
	t.tools.Store(&marked)
}

// maxHeaderBytes bounds the headers for the arguments of one call, in bytes. Servers accept
// between 8 KiB and 1 MiB of headers.
const maxHeaderBytes = 256 << 10

// AddTo adds to h the headers of the marked arguments of a tool call. It fails if the
// arguments do not fit into headers.
func (t *Table) AddTo(h http.Header, tool string, params json.RawMessage) error {
	marks := t.marks(tool)
	if marks == nil {
		return nil
	}
	values, ok := marks.read(params)
	if !ok {
		return nil // not JSON; the server says so
	}
	room := maxHeaderBytes
	for i, raw := range values {
		if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
			continue // it is missing, or no header can repeat it
		}
		name := marks.headers[i]
		if len(raw) > longestEscape*maxHeaderBytes {
			return tooLong(name)
		}
		text, ok := paramValue(raw)
		if !ok {
			continue
		}
		text = Value(text)
		if room -= len(name) + len(text); room < 0 {
			return tooLong(name)
		}
		h.Set(name, text)
	}
	return nil
}

// marks returns the marks of a tool; nil if it has none.
func (t *Table) marks(tool string) *toolMarks {
	tools := t.tools.Load()
	if tools == nil {
		return nil
	}
	return (*tools)[tool]
}

// read returns the marked values in the parameters of a call, by mark; nil for those that it does
// not have. ok is false if they are not JSON.
func (t *toolMarks) read(params json.RawMessage) (values [][]byte, ok bool) {
	values = make([][]byte, len(t.headers))
	return values, t.params.read(params, values)
}

// Mismatch returns a header of a tool call that does not repeat its argument; empty if all do. It is the server's side
// of AddTo: "servers MUST reject" such a request. A header that no mark names is that of the argument of its name.
func (t *Table) Mismatch(h http.Header, tool string, params json.RawMessage) (header string) {
	marks := t.marks(tool)
	switch {
	case marks == nil && !In(h):
		return ""
	case marks == nil:
		marks = new(toolMarks)
	}
	values, _ := marks.read(params)
	for i, raw := range values {
		if name := marks.headers[i]; !repeats(h.Get(name), raw) {
			return name
		}
	}
	if !In(h) {
		return ""
	}
	_ = jsonscan.EachMember(params, func(key string, value []byte) error {
		if key != "arguments" {
			return nil
		}
		return jsonscan.EachMember(value, func(key string, value []byte) error {
			name := http.CanonicalHeaderKey(headerPrefix + key)
			if said := h[name]; len(said) > 0 && !repeats(said[0], value) && !slices.Contains(marks.headers, name) {
				header = name
			}
			return nil
		})
	})
	return header
}

// repeats reports whether a header has the value of an argument; either may be missing.
func repeats(header string, raw json.RawMessage) bool {
	said, valid := Decode(header)
	var text string
	if len(raw) > 0 && string(raw) != "null" {
		if len(raw) > longestEscape*maxHeaderBytes {
			return false
		}
		var ok bool
		if text, ok = paramValue(raw); !ok && said != "" {
			return false
		}
	}
	return valid && (said == text || sameInteger(said, raw))
}

// Ambiguous returns a member of the params, on the way to a marked argument or one itself, that is there twice or
// under a name that differs only in case: two readers may take different values. Empty without one.
func (t *Table) Ambiguous(tool string, params json.RawMessage) (member string) {
	if marks := t.marks(tool); marks != nil {
		return marks.params.ambiguous(params)
	}
	return ""
}

func (n *markedValue) ambiguous(object []byte) (member string) {
	seen := make([]bool, len(n.children))
	_ = jsonscan.EachMember(object, func(name string, value []byte) error {
		for i := range n.children {
			child := &n.children[i]
			switch {
			case member != "" || !strings.EqualFold(child.name, name):
			case child.name == name && !seen[i]:
				seen[i] = true
				member = child.ambiguous(value)
			case child.name == name || !n.has(name): // the schema may have two that differ in case
				member = strings.Clone(name)
			}
		}
		return nil
	})
	return member
}

// has reports whether a marked argument is below a member of that name, or is it.
func (n *markedValue) has(name string) bool {
	return slices.ContainsFunc(n.children, func(c markedValue) bool { return c.name == name })
}

// sameInteger reports whether a header has the integer of an argument in another form, as 42.0.
func sameInteger(said string, raw json.RawMessage) bool {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return false
	}
	a, errA := strconv.ParseFloat(said, 64)
	b, errB := strconv.ParseFloat(string(raw), 64)
	return errA == nil && errB == nil && a == b && a == math.Trunc(a) && math.Abs(a) <= maxExactInteger
}

// longestEscape is how many bytes of JSON stand for one byte of text at most.
const longestEscape = 6

func tooLong(header string) error {
	return fmt.Errorf("the tool wants some arguments repeated in HTTP headers, and these take more than %d bytes (header %s); shorten them",
		maxHeaderBytes, header)
}

// read finds the marked values in an object of the parameters. Of duplicate members the last
// one counts. It reports false if the object is not valid.
func (n *markedValue) read(object []byte, values [][]byte) (valid bool) {
	err := jsonscan.EachMember(object, func(name string, value []byte) error {
		i, found := slices.BinarySearchFunc(n.children, name, func(c markedValue, name string) int { return cmp.Compare(c.name, name) })
		if !found {
			return nil
		}
		child := &n.children[i]
		clear(values[child.under[0]:child.under[1]])
		if child.mark >= 0 {
			values[child.mark] = value
		}
		_ = child.read(value, values) // a value that is no object has no marked values in it
		return nil
	})
	return err == nil
}

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
	// maxExactInteger bounds the integers that every JSON reader represents exactly.
	maxExactInteger = 1<<53 - 1
)

// Value encodes a text as a header value. Printable ASCII without leading or trailing
// spaces is returned unchanged. Any other text is encoded as "=?base64?…?=" (MCP
// 2026-07-28, Streamable HTTP).
func Value(text string) string {
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

// Decode is the reverse of [Value]. ok is false if the value has the form of an encoded one and
// cannot be decoded.
func Decode(value string) (text string, ok bool) {
	inner, encoded := strings.CutPrefix(value, encodedPrefix)
	inner, ends := strings.CutSuffix(inner, encodedSuffix)
	if !encoded || !ends {
		return value, true
	}
	decoded, err := base64.StdEncoding.DecodeString(inner)
	return string(decoded), err == nil
}

// paramValue returns an argument as text: a string, a boolean, or an integer that every
// JSON reader represents exactly. It reports false for other values, which no header
// repeats.
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

const (
	// maxMarks is how many arguments of one tool may be marked, and maxHeaderName how long
	// the name in a mark may be, in bytes. Most servers accept 8 to 64 KiB of headers. A tool
	// beyond these bounds is refused: its calls would fit into no request.
	maxMarks      = 64
	maxHeaderName = 128
)

// schemaLimits bound a schema before it is searched for marks, because the search decodes
// it as a whole.
var schemaLimits = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}

// annotatedSchema is the part of a JSON schema that can contain marks.
type annotatedSchema struct {
	Type       any                        `json:"type"`
	Header     json.RawMessage            `json:"x-mcp-header"`
	Properties map[string]annotatedSchema `json:"properties"`
}

// Check returns why the marks of a tool's input schema cannot be used; nil if they can.
// "Clients MUST exclude" a tool with invalid annotations from their lists (MCP 2026-07-28,
// Streamable HTTP). kept is how many bytes a [Table] takes for the tool, estimated.
func Check(schema json.RawMessage) (kept int, err error) {
	marks, err := readMarks(schema)
	if marks == nil || err != nil {
		return 0, err
	}
	return marks.kept, nil
}

// toolMarks are the marked arguments of one tool. They are not changed.
type toolMarks struct {
	params  markedValue // the parameters of tools/call; its only child is "arguments"
	headers []string    // the header of each mark
	kept    int         // bytes of memory, estimated
}

// markedValue is a value in the parameters of a call that is marked, or that contains marked
// values. Marked values share the nodes of the objects around them, so that the tree is
// at most a few times as large as the schema.
type markedValue struct {
	name     string
	mark     int           // the index of its header; -1: it is not marked
	under    [2]int        // the marks of the node and of its children: from under[0] up to under[1]
	children []markedValue // sorted by name
}

// nodeBytes is the memory of a node without its texts, in bytes.
const nodeBytes = 80

// readMarks returns the marks of an input schema; nil if it has none.
func readMarks(schema json.RawMessage) (*toolMarks, error) {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil, nil //nolint:nilnil // the usual case: no marks and no error
	}
	var root annotatedSchema
	_, err := jsonbound.Check(context.Background(), schema, schemaLimits)
	if err != nil {
		err = fmt.Errorf("it holds %w", err)
	} else {
		err = json.Unmarshal(schema, &root)
	}
	if err != nil {
		return nil, fmt.Errorf("its schema cannot be read: %w", err)
	}
	t, seen := new(toolMarks), make(map[string]bool)
	arguments := markedValue{name: "arguments", mark: -1}
	if err := t.addProperties(&arguments, root.Properties, seen); err != nil || len(t.headers) == 0 {
		return nil, err
	}
	t.params = markedValue{mark: -1, under: arguments.under, children: []markedValue{arguments}}
	t.kept += 2 * nodeBytes
	return t, nil
}

// addProperties adds the marked properties of an object to its node. seen contains the
// header names so far, in lower case, because header names ignore case.
func (t *toolMarks) addProperties(to *markedValue, properties map[string]annotatedSchema, seen map[string]bool) error {
	to.under[0] = len(t.headers)
	if to.mark >= 0 {
		to.under[0] = to.mark
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name]
		child := markedValue{name: strings.Clone(name), mark: -1}
		if p.Header != nil {
			header, err := headerName(name, p, seen)
			if err != nil {
				return err
			}
			if len(t.headers) == maxMarks {
				return fmt.Errorf("it marks more than %d arguments with x-mcp-header", maxMarks)
			}
			child.mark = len(t.headers)
			t.headers = append(t.headers, http.CanonicalHeaderKey(headerPrefix+header))
			t.kept += 2*len(header) + nodeBytes
		}
		if err := t.addProperties(&child, p.Properties, seen); err != nil {
			return err
		}
		if child.under[0] < child.under[1] {
			to.children = append(to.children, child)
			t.kept += nodeBytes + len(name)
		}
	}
	to.children = slices.Clip(to.children)
	to.under[1] = len(t.headers)
	return nil
}

// IsHeader reports whether name is that of a header for an argument, in any case.
func IsHeader(name string) bool {
	return len(name) > len(headerPrefix) && strings.EqualFold(name[:len(headerPrefix)], headerPrefix) && len(name) <= len(headerPrefix)+maxHeaderName && isToken(name)
}

// In reports whether there are headers for arguments.
func In(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	return false
}

// MaxPreflightBytes is how long the list of headers in a preflight request is at most: those for the arguments of one call,
// and the others, for which 1 KiB is plenty.
const MaxPreflightBytes = maxMarks*(len(headerPrefix)+maxHeaderName+len(", ")) + 1<<10

// headerPrefix begins the names of the headers.
const headerPrefix = "Mcp-Param-"

// headerName returns the name in the mark of a property.
func headerName(property string, p annotatedSchema, seen map[string]bool) (string, error) {
	var header string
	switch kind, _ := p.Type.(string); {
	case json.Unmarshal(p.Header, &header) != nil || !isToken(header):
		return "", fmt.Errorf("the x-mcp-header of %.100q is not a valid header name; use letters, digits and hyphens", property)
	case len(header) > maxHeaderName:
		return "", fmt.Errorf("the x-mcp-header of %.100q is longer than %d bytes", property, maxHeaderName)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return "", fmt.Errorf("the x-mcp-header of %.100q marks a value whose type is not string, integer or boolean", property)
	case seen[strings.ToLower(header)]:
		return "", fmt.Errorf("the x-mcp-header %q marks two values", header)
	}
	seen[strings.ToLower(header)] = true
	return header, nil
}

// isToken reports whether a text can be part of a header name (RFC 9110, section
// 5.6.2).
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
