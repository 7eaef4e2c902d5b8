package peer

import (
	"context"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/internal/catalog"
)

// Catalog gets the encoded catalog of a server from the node, and compares its digest, which is
// SHA-256 in hexadecimal digits. The bytes are the caller's. A digest names one
// content, so the request names no epoch, and needs no lease.
//
// Errors: ErrUnavailable with OutcomeNotSent if the node cannot be reached, has no such catalog, or
// does not know the request ([ErrUnsupported]); ErrProtocol if the node answers with something else.
func (c *Client) Catalog(ctx context.Context, server, digest string) ([]byte, error) {
	op := "get the catalog of " + server
	encoded, e := c.call(ctx, &call{method: methodCatalog, server: server, target: digest, settings: c.config.Defaults}, nil)
	if e == nil && catalog.Digest(encoded) != digest {
		e = &mcpvisor.Error{Server: server, Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("node %q: %w", c.config.Node, catalog.ErrDigest)}
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
