package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// peers are the connections to other nodes, made when a server on one of them is needed. Safe for
// concurrent use.
type peers struct {
	identity peer.Identity

	mu        sync.Mutex               // guards the fields below, and those of each neighbour
	byAddress map[[2]string]*neighbour // by node and address: a node that came back at another one may have two for a while
	closed    bool
}

// neighbour is another node.
type neighbour struct {
	node, address string
	client        *peer.Client
	err           error         // why it cannot be reached; nil: it can
	changed       chan struct{} // closed, and replaced, when err changes
	sessions      map[*remoteSession]bool
	idle          *time.Timer // closes it when no session uses it; nil until none does for the first time
}

func newPeers(identity peer.Identity) *peers {
	return &peers{identity: identity, byAddress: map[[2]string]*neighbour{}}
}

// join notes a session that goes to a node, and returns the connection, which may not be made yet.
func (p *peers) join(s *remoteSession, node, address string) (*neighbour, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("node %q is closed", node)
	}
	n := p.byAddress[[2]string{node, address}]
	if n == nil {
		n = &neighbour{node: node, address: address, err: errNotConnected, changed: make(chan struct{}), sessions: map[*remoteSession]bool{}}
		client, err := peer.NewClient(peer.ClientConfig{Identity: p.identity, Node: node, Address: address,
			OnChange: func(_ bool, err error) { p.changed(n, err) }})
		if err != nil {
			return nil, err
		}
		n.client = client
		p.byAddress[[2]string{node, address}] = n
	}
	n.sessions[s] = true
	return n, nil
}

var errNotConnected = errors.New("it is not connected yet")

// leave forgets a session. A connection that none has used for a while is closed.
func (p *peers) leave(s *remoteSession, n *neighbour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(n.sessions, s)
	if len(n.sessions) > 0 || p.closed {
		return
	}
	if n.idle == nil {
		n.idle = time.AfterFunc(idlePeer, func() { p.forget(n) })
	}
	n.idle.Reset(idlePeer)
}

// idlePeer is how long a connection is kept that no session uses.
const idlePeer = time.Minute

// forget closes a connection that no session uses.
func (p *peers) forget(n *neighbour) {
	p.mu.Lock()
	if len(n.sessions) > 0 || p.byAddress[[2]string{n.node, n.address}] != n {
		p.mu.Unlock()
		return
	}
	delete(p.byAddress, [2]string{n.node, n.address})
	p.mu.Unlock()
	n.client.Close()
}

// changed notes whether a node can be reached. If not, the sessions to it end: their next ones wait
// until it can.
func (p *peers) changed(n *neighbour, err error) {
	p.mu.Lock()
	n.err = err
	close(n.changed)
	n.changed = make(chan struct{})
	var lost []*remoteSession
	if err != nil {
		for s := range n.sessions {
			lost = append(lost, s)
		}
	}
	p.mu.Unlock()
	for _, s := range lost {
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseClosed, Err: err, Message: fmt.Sprintf("node %q cannot be reached: %v", n.node, err)})
	}
}

// why returns why the last attempt to connect has failed, or else what was known before.
func (n *neighbour) why(known error) error {
	if err := n.client.Reachable(); err != nil {
		return err
	}
	return known
}

// wait waits until a node can be reached.
func (p *peers) wait(ctx context.Context, n *neighbour) error {
	for {
		p.mu.Lock()
		err, changed := n.err, n.changed
		p.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("node %q cannot be reached: %w", n.node, n.why(err))
		}
	}
}

// unreachable returns why each node that sessions go to cannot be reached; those that can are left
// out.
func (p *peers) unreachable() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	why := map[string]string{}
	for key, n := range p.byAddress {
		if n.err != nil && len(n.sessions) > 0 {
			why[key[0]] = n.why(n.err).Error()
		}
	}
	return why
}

func (p *peers) close() {
	p.mu.Lock()
	p.closed = true
	all := p.byAddress
	p.byAddress = nil
	p.mu.Unlock()
	for _, n := range all {
		if n.idle != nil {
			n.idle.Stop()
		}
		n.client.Close()
	}
}
