package fleetcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

// ticket is what the guard of a node needs to give its lease back. It has names of files, and no
// secret.
type ticket struct {
	Reach reach       `json:"reach"`
	Lease store.Lease `json:"lease"`
}

func (r *reach) ticket() (func(store.Lease) ([]byte, error), error) {
	own := *r
	for _, path := range []*string{&own.EtcdCA, &own.EtcdCert, &own.EtcdKey, &own.EtcdPasswordFile} {
		if *path == "" {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return nil, err
		}
		*path = whole
	}
	return func(lease store.Lease) ([]byte, error) { return json.Marshal(ticket{own, lease}) }, nil
}

// GuardMain runs the guard if this process was started as one, and does not return then. main and
// TestMain call it first.
func GuardMain() { guard.Main(giveBack) }

// giveBack gives the lease of a ticket back. The certificates are read again: they may have been
// renewed since.
func giveBack(ctx context.Context, text []byte) error {
	var t ticket
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("the ticket of the guard cannot be read: %w", err)
	}
	c, err := t.Reach.config()
	if err != nil {
		return err
	}
	s, err := etcd.Open(c)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return s.Revoke(ctx, t.Lease)
}
