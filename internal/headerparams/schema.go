package headerparams

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
)

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
	params  node     // the parameters of tools/call; its only child is "arguments"
	headers []string // the header of each mark
	kept    int      // bytes of memory, estimated
}

// node is a value in the parameters of a call that is marked, or that contains marked
// values. Marked values share the nodes of the objects around them, so that the tree is
// at most a few times as large as the schema.
type node struct {
	name     string
	mark     int    // the index of its header; -1: it is not marked
	under    [2]int // the marks of the node and of its children: from under[0] up to under[1]
	children []node // sorted by name
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
	arguments := node{name: "arguments", mark: -1}
	if err := t.addProperties(&arguments, root.Properties, seen); err != nil || len(t.headers) == 0 {
		return nil, err
	}
	t.params = node{mark: -1, under: arguments.under, children: []node{arguments}}
	t.kept += 2 * nodeBytes
	return t, nil
}

// addProperties adds the marked properties of an object to its node. seen contains the
// header names so far, in lower case, because header names ignore case.
func (t *toolMarks) addProperties(to *node, properties map[string]annotatedSchema, seen map[string]bool) error {
	to.under[0] = len(t.headers)
	if to.mark >= 0 {
		to.under[0] = to.mark
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name]
		child := node{name: strings.Clone(name), mark: -1}
		if p.Header != nil {
			header, err := headerName(name, p, seen)
			if err != nil {
				return err
			}
			if len(t.headers) == maxMarks {
				return fmt.Errorf("it marks more than %d arguments with x-mcp-header", maxMarks)
			}
			child.mark = len(t.headers)
			t.headers = append(t.headers, "Mcp-Param-"+header)
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
