package headerparams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// annotatedSchema is the part of a JSON schema that can contain "x-mcp-header"
// annotations.
type annotatedSchema struct {
	Type       any                        `json:"type"`
	Header     json.RawMessage            `json:"x-mcp-header"`
	Properties map[string]annotatedSchema `json:"properties"`
}

// check examines the properties of a schema. seen contains the header names so far,
// in lower case, because header names ignore case.
func (s annotatedSchema) check(seen map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p.Header != nil {
			var header string
			switch kind, _ := p.Type.(string); {
			case json.Unmarshal(p.Header, &header) != nil || !isToken(header):
				return fmt.Errorf("the x-mcp-header of %q is not a valid header name; use letters, digits and hyphens", name)
			case kind != "string" && kind != "integer" && kind != "boolean":
				return fmt.Errorf("the x-mcp-header of %q marks a value whose type is not string, integer or boolean", name)
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

// schemaLimits bound a schema before it is searched for annotations, because the search
// decodes it as a whole.
var schemaLimits = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}

// readAnnotated reads the annotations of a schema.
func readAnnotated(schema json.RawMessage, m *annotatedSchema) error {
	if len(schema) == 0 {
		return nil
	}
	if err := jsonrpc.CheckBounds(schema, schemaLimits); err != nil {
		return fmt.Errorf("it holds %w", err)
	}
	return json.Unmarshal(schema, m)
}

// Check returns why the annotations of a tool's schema are invalid; nil if they are
// valid. "Clients MUST exclude" a tool with invalid annotations from their lists (MCP
// 2026-07-28, Streamable HTTP).
func Check(schema json.RawMessage) error {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil
	}
	var root annotatedSchema
	if err := readAnnotated(schema, &root); err != nil {
		return fmt.Errorf("its schema cannot be read: %w", err)
	}
	return root.check(map[string]bool{})
}

// collectParams returns the valid annotations of properties and of the objects in them.
// prefix is the path of the object that has these properties.
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
