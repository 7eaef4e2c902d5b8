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
	"github.com/mcpvisor/mcpvisor/transport"
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
func (t *Table) AddTo(h http.Header, r transport.Request) error {
	tools := t.tools.Load()
	if tools == nil {
		return nil
	}
	marks := (*tools)[r.Target]
	if marks == nil {
		return nil
	}
	values := make([][]byte, len(marks.headers)) // by mark; nil: the call has no such argument
	if marks.params.read(r.Params, values) != nil {
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

// longestEscape is how many bytes of JSON stand for one byte of text at most.
const longestEscape = 6

func tooLong(header string) error {
	return fmt.Errorf("the tool wants some arguments repeated in HTTP headers, and these take more than %d bytes (header %s); shorten them",
		maxHeaderBytes, header)
}

// read finds the marked values in an object of the parameters. Of duplicate members the last
// one counts. The error says that the object is not valid.
func (n *node) read(object []byte, values [][]byte) error {
	return jsonscan.EachMember(object, func(name string, value []byte) error {
		i, found := slices.BinarySearchFunc(n.children, name, func(c node, name string) int { return cmp.Compare(c.name, name) })
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
