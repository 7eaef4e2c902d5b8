package headerparams

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
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

// AddTo adds to h the headers of the marked arguments of a tool call. It reads the
// parameters once, and fails if the arguments do not fit into headers.
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

// read returns the marked values in the parameters of a call, by mark. ok is false if they are
// not JSON.
func (t *toolMarks) read(params json.RawMessage) (values [][]byte, ok bool) {
	read := argumentReader{scan: jsonscan.Scanner{Text: params}, values: make([][]byte, len(t.headers))}
	read.scan.SkipSpace()
	ok = read.value(&t.params)
	return read.values, ok
}

// Mismatch returns the first header of a tool call that does not repeat its argument; empty if
// all do. It is the server's side of AddTo: "servers MUST reject" such a request.
func (t *Table) Mismatch(h http.Header, tool string, params json.RawMessage) (header string) {
	marks := t.marks(tool)
	if marks == nil {
		return ""
	}
	values, ok := marks.read(params)
	if !ok {
		return ""
	}
	for i, raw := range values {
		name := marks.headers[i]
		said, valid := Decode(h.Get(name))
		var text string
		if len(raw) > 0 && string(raw) != "null" {
			if len(raw) > longestEscape*maxHeaderBytes {
				return name
			}
			if text, ok = paramValue(raw); !ok && said != "" {
				return name
			}
		}
		if !valid || said != text && !sameInteger(said, raw) {
			return name
		}
	}
	return ""
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

// argumentReader finds the marked values in the parameters of one call, in one pass.
type argumentReader struct {
	scan   jsonscan.Scanner
	values [][]byte // by mark; nil: the call has no such argument
}

// value reads the value of a node. It reports false if the text is not valid. Of duplicate
// members the last one counts.
func (r *argumentReader) value(n *node) bool {
	clear(r.values[n.under[0]:n.under[1]])
	if len(n.children) > 0 && r.scan.Consume('{') {
		return r.members(n)
	}
	text, ok := r.scan.Value()
	if n.mark >= 0 {
		r.values[n.mark] = text
	}
	return ok
}

// members reads the members of an object behind its opening bracket.
func (r *argumentReader) members(n *node) bool {
	r.scan.SkipSpace()
	if r.scan.Consume('}') {
		return true
	}
	for {
		quoted, escaped, ok := r.scan.MemberName()
		if !ok {
			return false
		}
		if child := n.child(jsonscan.UnquoteShared(quoted, escaped)); child == nil {
			_, ok = r.scan.Value()
		} else {
			ok = r.value(child)
		}
		if !ok {
			return false
		}
		r.scan.SkipSpace()
		if !r.scan.Consume(',') {
			return r.scan.Consume('}')
		}
		r.scan.SkipSpace()
	}
}

// child returns the child with this name; nil if there is none.
func (n *node) child(name string) *node {
	i, found := slices.BinarySearchFunc(n.children, name, func(c node, name string) int { return cmp.Compare(c.name, name) })
	if !found {
		return nil
	}
	return &n.children[i]
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
