package gateway

import (
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// Share says for how many clients of a gateway one incarnation of a server runs.
type Share int

const (
	// ShareAll: one incarnation serves all clients.
	ShareAll Share = iota
	// ShareClient: each client has an incarnation of its own, a copy. It is for servers that keep
	// something for their client, such as an open page or a login. The lists are those of the
	// server that is registered, the same for all clients, and that one gets no calls.
	//
	// A copy starts with the first request of its client that needs it, which waits for it as for a
	// server that is down ([WithMaxWait]). It ends with the session or the connection of its
	// client, and when the server is replaced, given up, removed or withheld by a profile. Of a [Handler] it also ends
	// when its client has had no request and no stream for HTTPLimits.SessionIdle. A client of
	// 2026-07-28 over HTTP has no session: all clients with one token are one, and without tokens
	// its requests are refused.
	ShareClient
)

// WithShare sets for how many clients one incarnation of a server runs. Without names it is for all
// servers. With names it is for those servers, and takes precedence there. Default: [ShareAll].
func WithShare(s Share, servers ...string) Option {
	return func(o *options) {
		if len(servers) == 0 {
			o.share = s
			return
		}
		if o.shareOf == nil {
			o.shareOf = map[string]Share{}
		}
		for _, server := range servers {
			o.shareOf[server] = s
		}
	}
}

// shareNow is for how many clients one incarnation of a server runs.
func (o *options) shareNow(server string) Share {
	if s, ok := o.settings.load().ShareOf[server]; ok {
		return s
	}
	if s, ok := o.shareOf[server]; ok {
		return s
	}
	return o.share
}

// sharesAll reports whether no server has copies.
func (o *options) sharesAll() bool {
	return o.share == ShareAll && len(o.shareOf) == 0 && len(o.settings.load().ShareOf) == 0
}

// The defaults of [Settings].
const (
	DefaultMaxCopies            = 64
	DefaultMaxCopiesOfPrincipal = 32
)

// copyCount counts the copies of all gateways with the same settings, from their start until nothing of
// them is left. The zero value counts none. Safe for concurrent use.
type copyCount struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int // by principal
}

// take counts one more copy of a principal, or says why there must not be one.
func (n *copyCount) take(s *settings, principal, server string) error {
	most, mostOf := s.MaxCopies, s.MaxCopiesOfPrincipal
	setDefault(&most, DefaultMaxCopies)
	setDefault(&mostOf, DefaultMaxCopiesOfPrincipal)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.of[principal] >= mostOf && principal != "":
		return tooManyCopies(server, fmt.Sprintf("%s has %d copies of servers", message.Quote(principal), n.of[principal]))
	case n.of[principal] >= mostOf:
		return tooManyCopies(server, fmt.Sprintf("the clients without a token have %d copies of servers", n.of[principal]))
	case n.all >= most:
		return tooManyCopies(server, fmt.Sprintf("all clients have %d copies of servers", n.all))
	}
	if n.of == nil {
		n.of = map[string]int{}
	}
	n.all++
	n.of[principal]++
	return nil
}

func tooManyCopies(server, who string) error {
	return &jsonrpc.Error{Code: message.CodeBusy, Message: "server " + server + " runs once for each client, and " + who + ", which is the most; end sessions that are not needed, and try again. Nothing was done."}
}

// give takes a copy back that has ended.
func (n *copyCount) give(principal string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all--
	if n.of[principal]--; n.of[principal] == 0 {
		delete(n.of, principal)
	}
}
