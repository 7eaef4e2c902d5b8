package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

const (
	trustTimeout = 2 * time.Second // for the answers of all nodes
	trustAgain   = 200 * time.Millisecond
	// CertificateWarning is how long before its end the certificate of a node needs attention.
	CertificateWarning = 14 * 24 * time.Hour
)

// checkTrust fails if nodes of the fleet answer, and this one and none of them accept each other's certificates:
// it would take servers that no other node can call.
func (c *Config) checkTrust(ctx context.Context, id string) error {
	if c.Listener == nil {
		return nil
	}
	var nodes store.Snapshot
	for {
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		var err error
		nodes, err = c.Store.Read(reading, records.NodesPrefix)
		cancel()
		if err == nil {
			break
		}
		select {
		case <-time.After(trustAgain):
		case <-ctx.Done():
			return fmt.Errorf("join the fleet as node %q: the store has not answered: %w", id, context.Cause(ctx))
		}
	}
	asking, cancel := context.WithTimeout(ctx, trustTimeout)
	defer cancel()
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		trusted bool // guarded by mu, as refusal
		refusal error
	)
	for _, pair := range nodes.Pairs {
		other, _, ok := records.SplitNodeKey(pair.Key)
		node, _, err := records.Decode[placement.Node](pair.Value)
		if !ok || err != nil || other == id || node.Address == "" {
			continue
		}
		all.Go(func() {
			reached, refused := c.Identity.Refused(asking, other, node.Address)
			mu.Lock()
			defer mu.Unlock()
			trusted = trusted || reached && refused == nil
			if refused != nil {
				refusal = fmt.Errorf("join the fleet as node %q: it and node %q do not accept each other's certificates: %w; use a certificate of the same authority that has not expired", id, other, refused)
			}
		})
	}
	all.Wait()
	if trusted {
		return nil
	}
	return refusal
}

// warnOfExpiry logs that the certificate of the node ends soon, until ctx ends.
func (n *Node) warnOfExpiry(ctx context.Context) {
	expires := n.config.Identity.Expires()
	if expires.IsZero() {
		return
	}
	select {
	case <-time.After(time.Until(expires) - CertificateWarning):
		n.log.Warn().Time("expires", expires).Msg("the certificate of the node expires soon: other nodes cannot reach it then; make a new one and restart the node")
	case <-ctx.Done():
	}
}
