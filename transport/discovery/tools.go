package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// toolDecoder decodes the tools of one server, in one pass over each page.
type toolDecoder struct {
	defs []*mcp.Tool
	raws []json.RawMessage // as the server sent them
	// tasks holds execution.taskSupport of the tools that have one, by definition.
	tasks map[*mcp.Tool]string
	// checkSchema, if set, is CheckInputSchema of the session.
	checkSchema func(schema json.RawMessage) (kept int, err error)
}

// add decodes one entry. Schemas stay the bytes that the server sent.
func (d *toolDecoder) add(item json.RawMessage, b *bounds) error {
	def, tasks := new(mcp.Tool), ""
	if fixed := repairSchemas(item); &fixed[0] != &item[0] {
		*b.decoded += len(fixed)
		item = fixed
		b.repaired++
	}
	err := readTool(item, def, &tasks, b)
	if err == nil {
		err = b.tool(def)
	}
	if schema, ok := def.InputSchema.(json.RawMessage); err == nil && ok && d.checkSchema != nil {
		var kept int
		kept, err = d.checkSchema(schema)
		*b.decoded += kept
	}
	if err != nil {
		return err
	}
	d.defs = append(d.defs, def)
	d.raws = append(d.raws, slices.Clip(item))
	if tasks != "" {
		if d.tasks == nil {
			d.tasks = map[*mcp.Tool]string{}
		}
		d.tasks[def] = tasks
	}
	return nil
}

// readTool decodes one entry into def, and its execution.taskSupport, which the go-sdk does
// not know, into tasks. Of duplicate members the last one counts.
func readTool(item json.RawMessage, def *mcp.Tool, tasks *string, b *bounds) error {
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
		case "execution":
			*tasks = readTaskSupport(value)
		case "annotations":
			if def.Annotations = nil; b.admit(value) {
				err = json.Unmarshal(value, &def.Annotations)
			}
		case "icons":
			if def.Icons = nil; b.admit(value) {
				err = json.Unmarshal(value, &def.Icons)
			}
		case "_meta":
			if def.Meta = nil; b.admit(value) {
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
		return errors.New("it is not a JSON object")
	case err == nil && def.Name == "":
		return errors.New(`it has no "name"`)
	}
	return err
}

// readTaskSupport reads the member execution of a tool. What is neither "required" nor
// "optional" does not require tasks.
func readTaskSupport(execution []byte) string {
	switch string(jsonscan.Member(execution, "taskSupport")) {
	case `"required"`:
		return "required"
	case `"optional"`:
		return "optional"
	}
	return ""
}

// readSchema returns the bytes of a schema; nil for null.
func readSchema(value []byte) any {
	if string(value) == "null" {
		return nil
	}
	return json.RawMessage(value[:len(value):len(value)])
}

// named returns the decoded tools with their names for one server.
func (d *toolDecoder) named(server string) []mcpvisor.Tool {
	if len(d.defs) == 0 {
		return nil
	}
	list := make([]mcpvisor.Tool, len(d.defs))
	for i, def := range d.defs {
		list[i] = mcpvisor.Tool{Name: mcpvisor.Qualify(server, def.Name), Alias: mcpvisor.Alias(server, def.Name),
			Server: server, OriginalName: def.Name, TaskSupport: d.tasks[def], Definition: def, Raw: d.raws[i]}
	}
	return list
}
