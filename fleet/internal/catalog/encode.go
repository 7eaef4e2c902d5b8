package catalog

import (
	"errors"
	"iter"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	shared "github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
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
func Of(client Source, server string) (*encodedlists.Body, error) {
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
			return encodedlists.New(*before.Session, &shared.Catalog{Tools: c.Tools, Resources: c.Resources, Templates: c.Templates, Prompts: c.Prompts})
		}
	}
	return nil, ErrNotReady
}
