package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Source knows what the servers of a node offer. A *facade.Client is one.
type Source interface {
	Catalogs() iter.Seq[mcpvisor.Catalog]
	ServerStatus(name string) (status mcpvisor.ServerStatus, ok bool)
}

// ErrNotReady is the error of a server that is not ready on this node, or not registered.
var ErrNotReady = errors.New("the server is not ready on this node")

// maxReads is how often Of reads a server that is being restarted.
const maxReads = 3

// Of encodes what a server offers that is ready. Session and lists are of one incarnation. It walks
// over the servers of the client.
//
// Errors: ErrNotReady; the server offers more than a body may hold.
func Of(client Source, server string) (*Body, error) {
	for range maxReads {
		before, ok := client.ServerStatus(server)
		if !ok || before.State != supervisor.StateReady || before.Session == nil {
			return nil, ErrNotReady
		}
		for c := range client.Catalogs() {
			if c.Server != server {
				continue
			}
			after, ok := client.ServerStatus(server)
			if !ok || c.Unavailable || after.Gen != before.Gen || after.Epoch != before.Epoch {
				break
			}
			return New(*before.Session, c)
		}
	}
	return nil, ErrNotReady
}

// New encodes a session and its lists.
func New(info mcpvisor.SessionInfo, c mcpvisor.Catalog) (*Body, error) {
	described, err := json.Marshal(session{ProtocolVersion: info.ProtocolVersion, Era: info.Era, ServerName: info.ServerName, ServerVersion: info.ServerVersion,
		Capabilities: info.Capabilities, Instructions: info.Instructions, Deprecated: info.Deprecated})
	if err != nil {
		return nil, fmt.Errorf("encoding the session: %w", err)
	}
	e := encoder{b: append([]byte(`{"v":`), strconv.Itoa(version)...)}
	e.b = append(append(append(e.b, `,"session":`...), described...), `,"results":{`...)
	appendList(&e, 0, c.Tools, tool)
	appendList(&e, 1, c.Resources, func(r *mcpvisor.Resource) ([]byte, error) { return rawOr(r.Raw, r.Definition) })
	appendList(&e, 2, c.Templates, func(r *mcpvisor.ResourceTemplate) ([]byte, error) { return rawOr(r.Raw, r.Definition) })
	appendList(&e, 3, c.Prompts, func(p *mcpvisor.Prompt) ([]byte, error) { return rawOr(p.Raw, p.Definition) })
	if e.err != nil {
		return nil, fmt.Errorf("encoding the lists: %w", e.err)
	}
	return Decode(bytes.Clone(append(e.b, "}}"...)), "") // without the room that append has left
}

// encoder appends the lists to b, until the first error.
type encoder struct {
	b   []byte
	err error
}

func appendList[T any](e *encoder, number int, items []T, encode func(*T) ([]byte, error)) {
	if number > 0 {
		e.b = append(e.b, ',')
	}
	e.b = fmt.Appendf(e.b, `%q:{%q:[`, lists[number].method, lists[number].member)
	for i := range items {
		if e.err != nil {
			return
		}
		var item []byte
		if item, e.err = encode(&items[i]); len(e.b)+len(item) > MaxBytes {
			e.err = fmt.Errorf("they have more than %d bytes", MaxBytes)
		}
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, item...)
	}
	e.b = append(e.b, ']', '}')
}

func rawOr(raw json.RawMessage, definition any) ([]byte, error) {
	if raw != nil {
		return raw, nil
	}
	return json.Marshal(definition)
}

// tool encodes a tool. Its schemas are the bytes that the server sent, which json.Marshal would
// change, and it has the member that the definition does not know.
func tool(t *mcpvisor.Tool) ([]byte, error) {
	if t.Raw != nil {
		return t.Raw, nil
	}
	type execution struct {
		TaskSupport string `json:"taskSupport"`
	}
	wire := struct {
		*mcp.Tool
		Name         string     `json:"name"`
		InputSchema  *struct{}  `json:"inputSchema,omitempty"` // these two hide those of the definition
		OutputSchema *struct{}  `json:"outputSchema,omitempty"`
		Execution    *execution `json:"execution,omitempty"`
	}{Tool: t.Definition, Name: t.OriginalName}
	if t.TaskSupport != "" {
		wire.Execution = &execution{t.TaskSupport}
	}
	b, err := json.Marshal(wire)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	if b, err = appendSchema(b, "inputSchema", t.Definition.InputSchema); err == nil {
		b, err = appendSchema(b, "outputSchema", t.Definition.OutputSchema)
	}
	return append(b, '}'), err
}

func appendSchema(b []byte, member string, schema any) ([]byte, error) {
	if schema == nil {
		return b, nil
	}
	text, ok := schema.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(schema); err != nil {
			return nil, err
		}
	}
	return append(fmt.Appendf(b, `,%q:`, member), text...), nil
}
