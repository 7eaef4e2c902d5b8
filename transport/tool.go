package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// toolChunk is how many definitions are allocated together. Servers with
// thousands of tools are why; one that has three wastes little.
const toolChunk = 64

// toolList decodes the tools of one server, in one pass over each page and
// with few allocations for each tool.
type toolList struct {
	chunk []mcp.Tool
	defs  []*mcp.Tool
	// check, if set, looks at the input schema of each tool.
	check  func(schema json.RawMessage) error
	bounds *bounds
}

// add decodes one entry. Schemas stay the bytes that the server sent.
func (l *toolList) add(item json.RawMessage) error {
	if len(l.chunk) == 0 {
		l.chunk = make([]mcp.Tool, min(toolChunk, max(4, len(l.defs))))
	}
	def := &l.chunk[0]
	err := readTool(item, def, l.bounds)
	if err == nil {
		err = l.bounds.tool(def)
	}
	if schema, ok := def.InputSchema.(json.RawMessage); err == nil && ok && l.check != nil {
		err = l.check(schema)
	}
	if err != nil {
		*def = mcp.Tool{}
		return err
	}
	l.chunk = l.chunk[1:]
	l.defs = append(l.defs, def)
	return nil
}

func readTool(item json.RawMessage, def *mcp.Tool, b *bounds) error {
	err := jsonscan.EachMember(item, func(key string, value []byte) (err error) {
		switch key {
		case "name":
			def.Name, err = jsonscan.ReadString(value)
		case "title":
			def.Title, err = jsonscan.ReadString(value)
		case "description":
			def.Description, err = jsonscan.ReadString(value)
		case "inputSchema":
			def.InputSchema = readSchema(value)
		case "outputSchema":
			def.OutputSchema = readSchema(value)
		case "annotations":
			if def.Annotations = nil; b.fits(value) {
				err = json.Unmarshal(value, &def.Annotations)
			}
		case "icons":
			if def.Icons = nil; b.fits(value) {
				err = json.Unmarshal(value, &def.Icons)
			}
		case "_meta":
			if def.Meta = nil; b.fits(value) {
				err = json.Unmarshal(value, &def.Meta)
			}
		}
		if err != nil {
			return fmt.Errorf("its member %q: %w", key, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, jsonscan.ErrNotObject):
		return errors.New("it is no JSON object")
	case err == nil && def.Name == "":
		return errors.New(`it has no "name"`)
	}
	return err
}

func readSchema(value []byte) any {
	if string(value) == "null" {
		return nil
	}
	return json.RawMessage(value[:len(value):len(value)])
}

// tools names the decoded tools for one server. All their names share one
// piece of memory.
func (l *toolList) tools(server string) []mcpvisor.Tool {
	if len(l.defs) == 0 {
		return nil
	}
	size := 0
	for _, def := range l.defs {
		size += 2*len(server) + 2*len(def.Name) + 16
	}
	names := make([]byte, 0, size)
	cut := func(from int) string {
		return unsafe.String(unsafe.SliceData(names[from:]), len(names)-from) //nolint:gosec // written once, before
	}
	list := make([]mcpvisor.Tool, len(l.defs))
	for i, def := range l.defs {
		// Growing would only move what comes after: earlier names keep their memory.
		names = slices.Grow(names, 2*len(server)+len(def.Name)+mcpvisor.MaxAliasBytes)
		from := len(names)
		names = append(append(append(names, server...), mcpvisor.Separator...), def.Name...)
		list[i] = mcpvisor.Tool{Name: cut(from), Server: server, OriginalName: def.Name, Definition: def}
		from = len(names)
		names = mcpvisor.AppendAlias(names, server, def.Name)
		list[i].Alias = cut(from)
	}
	return list
}
