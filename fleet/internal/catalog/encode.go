package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Source knows what the servers of a node offer. A *facade.Client is one.
type Source interface {
	Catalogs() iter.Seq[relay.Catalog]
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
func New(info mcpvisor.SessionInfo, c relay.Catalog) (*Body, error) {
	described, err := json.Marshal(session{ProtocolVersion: info.ProtocolVersion, Era: info.Era, ServerName: info.ServerName, ServerVersion: info.ServerVersion,
		Capabilities: info.Capabilities, Instructions: info.Instructions, Deprecated: info.Deprecated})
	if err != nil {
		return nil, fmt.Errorf("encoding the session: %w", err)
	}
	e := encoder{b: append([]byte(`{"v":`), strconv.Itoa(version)...)}
	e.b = append(append(append(e.b, `,"session":`...), described...), `,"results":{`...)
	appendList(&e, 0, c.Tools, func(t *mcpvisor.Tool) []byte { return t.Raw })
	appendList(&e, 1, c.Resources, func(r *mcpvisor.Resource) []byte { return r.Raw })
	appendList(&e, 2, c.Templates, func(r *mcpvisor.ResourceTemplate) []byte { return r.Raw })
	appendList(&e, 3, c.Prompts, func(p *mcpvisor.Prompt) []byte { return p.Raw })
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

func appendList[T any](e *encoder, number int, items []T, rawOf func(*T) []byte) {
	if number > 0 {
		e.b = append(e.b, ',')
	}
	e.b = fmt.Appendf(e.b, `%q:{%q:[`, lists[number].method, lists[number].member)
	for i := range items {
		if e.err != nil {
			return
		}
		item := rawOf(&items[i])
		if len(e.b)+len(item) > MaxBytes {
			e.err = fmt.Errorf("they have more than %d bytes", MaxBytes)
		}
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, item...)
	}
	e.b = append(e.b, ']', '}')
}
