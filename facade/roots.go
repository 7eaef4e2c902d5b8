package facade

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// WithRoots declares the roots capability and sets the roots: directories and files
// that servers may work on, as file:// URIs. All servers get the same. The list may be
// empty, and [Client.SetRoots] changes it. A URI that is not a file:// URI is an error of
// [New]. Default: the client does not declare roots.
func WithRoots(roots ...mcp.Root) Option {
	return func(o *options) {
		list, err := checkRoots(roots)
		o.roots, o.err = transport.NewRoots(list), errors.Join(o.err, err)
		o.handlers.Roots = o.roots
	}
}

// SetRoots replaces the roots and notifies the servers whose protocol version has such
// a notification; others ask for the roots when they need them. It does not wait for
// the servers. Errors: ErrInvalid (a URI that is not a file:// URI, or a client without
// [WithRoots]).
func (c *Client) SetRoots(roots ...mcp.Root) error {
	list, err := checkRoots(roots)
	if err == nil && c.opts.roots == nil {
		err = errors.New("the client declares no roots; pass WithRoots to New")
	}
	if err != nil {
		return &mcpvisor.Error{Op: "set roots", Kind: mcpvisor.KindInvalid, Cause: err}
	}
	c.opts.roots.Set(list)
	return nil
}

// checkRoots copies roots, or says which of them is not a file:// URI.
func checkRoots(roots []mcp.Root) ([]*mcp.Root, error) {
	list := make([]*mcp.Root, 0, len(roots))
	for _, r := range roots {
		if u, err := url.Parse(r.URI); err != nil || u.Scheme != "file" {
			return nil, fmt.Errorf("root %q must be a file:// URI; write it as file:///path", r.URI)
		}
		list = append(list, &r)
	}
	return list, nil
}
