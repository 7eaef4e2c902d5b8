package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
)

// Request is a request about a server that is not a call, such as resources/subscribe, or the
// opening of its notices.
type Request struct {
	// Node is the id of the node that makes the request, as its certificate names it. The client
	// does not set it.
	Node string
	// Server is the name of the server, which was placed with Epoch.
	Server string
	Epoch  uint64
	// Method, Target and Params are as in transport.Request. Streams of notices have none.
	Method, Target string
	Params         json.RawMessage
	// Options are those of the request, as for a call: its handlers answer what a task asks for.
	Options []facade.CallOption
	// A large result takes room in Buffer, and Into gets the room; see [Route.Into]. nil: it needs none.
	Buffer *budget.Budget
	Into   *budget.Share
}

// Request makes a request that is not a call. The node decides which methods it knows.
//
// Errors: those of [Route], and ErrUnavailable with the cause [ErrUnsupported].
func (c *Client) Request(ctx context.Context, r Request) (json.RawMessage, error) {
	args := append(varint.AppendText(make([]byte, 0, len(r.Method)+len(r.Params)+2), r.Method), r.Params...)
	result, e := c.call(ctx, &call{method: methodRequest, server: r.Server, epoch: r.Epoch, target: r.Target, args: args, buffer: r.Buffer, into: r.Into}, r.Options)
	if e != nil {
		e.Op = r.Method + " of " + r.Server
		return nil, e
	}
	return result, nil
}

// request executes a request of another node.
func (s *serverStream) request(ctx context.Context, c *call, opts []facade.CallOption) (json.RawMessage, error) {
	if s.server.config.Request == nil {
		return nil, refused(c.server, c.epoch, ErrUnsupported)
	}
	args := varint.Reader{Rest: c.args}
	method := args.Text()
	if args.Failed {
		return nil, refused(c.server, c.epoch, errUnreadable)
	}
	r := Request{Node: s.node, Server: c.server, Epoch: c.epoch, Method: method, Target: c.target, Options: opts}
	if len(args.Rest) > 0 {
		r.Params = args.Rest
	}
	return s.server.config.Request(ctx, r)
}

var errUnreadable = errors.New("the request cannot be read")

// Catalog gets the encoded catalog of a server from the node, and checks its digest: SHA-256 in
// hexadecimal digits. The caller owns the bytes. A digest identifies the content, so the request needs
// no epoch and no lease.
//
// Errors: ErrUnavailable with OutcomeNotSent if the node cannot be reached, has no such catalog, or
// does not know the request ([ErrUnsupported]); ErrProtocol if the node answers with something else.
func (c *Client) Catalog(ctx context.Context, server, digest string) ([]byte, error) {
	op := "get the catalog of " + server
	encoded, e := c.call(ctx, &call{method: methodCatalog, server: server, target: digest}, nil)
	if e == nil && encodedlists.Digest(encoded) != digest {
		e = &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("node %q: %w", c.config.Node, encodedlists.ErrDigest)}
	}
	if e != nil {
		e.Op = op
		return nil, e
	}
	return encoded, nil
}

// catalog answers a request for a catalog.
func (s *Server) catalog(c *call) (what byte, body []byte) {
	if s.config.Catalog == nil {
		return messageFailure, encodeFailure(refused(c.server, 0, ErrUnsupported))
	}
	encoded, err := s.config.Catalog(c.server, c.target)
	if err != nil {
		return messageFailure, encodeFailure(refused(c.server, 0, err))
	}
	return messageResult, encoded
}
