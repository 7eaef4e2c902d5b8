package facade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
)

// WithCatalogStore keeps what lazy servers offer in a store ([mcpvisor.StartLazy]): they are listed from it, with what they
// offered when they last ran, and do not run until they are wanted. What was kept for another command, address or choice of
// tools is not used. A store that fails costs one line of the log, and the start that it would have saved. Default: none.
func WithCatalogStore(store mcpvisor.CatalogStore) Option {
	return func(o *options) { o.catalogs = store }
}

// WithCatalogGuard has a guard look at what each server offers before it is listed: see [mcpvisor.CatalogGuard] and
// package lock. What the guard withholds is in no list, a call of a tool fails with ErrUnknownTool and the finding, that
// of a prompt with ErrDenied, and
// Catalog.Warnings of the status has the finding. A guard whose mind has changed is asked again by [Client.Refresh], or
// when the server starts the next time. Default, and for a nil guard: everything is listed.
func WithCatalogGuard(guard mcpvisor.CatalogGuard) Option {
	return func(o *options) { o.guard = guard }
}

// keptLists are the lists of a lazy server in the store.
type keptLists struct {
	// Of is the digest of what decides what the server offers.
	Of    string          `json:"of"`
	Offer json.RawMessage `json:"offer"`
}

// specDigest changes with what may change the offer of a server. Of the environment and the headers only the names count.
func specDigest(spec *mcpvisor.ServerSpec) string {
	h := sha256.New()
	fmt.Fprintln(h, spec.TransportKind(), spec.Target(), spec.Era)
	fmt.Fprintf(h, "%q %q\n", spec.Tools.Allow, spec.Tools.Deny)
	if len(spec.ToolSettings) > 0 {
		fmt.Fprintf(h, "%q\n", fmt.Sprint(spec.ToolSettings)) // maps are printed in the order of their keys
	}
	if s := spec.Stdio; s != nil {
		fmt.Fprintf(h, "%q %q %q %q\n", s.Command, s.Args, s.Dir, slices.Sorted(maps.Keys(s.Env)))
	}
	if s := spec.HTTP; s != nil {
		fmt.Fprintf(h, "%q %q\n", s.URL+s.Socket, slices.Sorted(maps.Keys(s.Headers)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// knownLists returns the lists that the store has of a server; nil if there are none that can be used.
func (c *Client) knownLists(ctx context.Context, spec *mcpvisor.ServerSpec) *catalog.Catalog {
	if c.opts.catalogs == nil || spec.Start != mcpvisor.StartLazy {
		return nil
	}
	name := spec.Name // Load may return after this
	data, err := hostcall.Wait(ctx, "CatalogStore", nil, func(context.Context) ([]byte, error) { return c.opts.catalogs.Load(name) })
	if err == nil && data == nil {
		return nil
	}
	var found *catalog.Catalog
	if err == nil {
		found, err = c.readKept(spec, data)
	}
	if err != nil && !errors.Is(err, errOtherOffer) {
		c.opts.logger.Warn().Str("server", spec.Name).Err(err).Msg("the kept lists of the server cannot be used; it is started once")
	}
	return found
}

// errOtherOffer is the error of lists that another command, address or choice of tools has led to.
var errOtherOffer = errors.New("they were kept for another specification")

func (c *Client) readKept(spec *mcpvisor.ServerSpec, data []byte) (*catalog.Catalog, error) {
	var kept keptLists
	if len(data) > encodedlists.MaxBytes {
		return nil, fmt.Errorf("they have %d bytes; %d are accepted", len(data), encodedlists.MaxBytes)
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	if kept.Of != specDigest(spec) {
		return nil, errOtherOffer
	}
	body, err := encodedlists.Decode(kept.Offer, "")
	if err != nil {
		return nil, err
	}
	return c.rt.ReadLists(spec, body)
}

// saveAll has what the lazy servers offer now saved before keeping is closed. It does not wait: a store that hangs must
// not keep servers from being ended.
func (c *Client) saveAll() {
	if c.keeping != nil {
		last := c.rt.Snapshot()
		c.lastSaves.Go(func() { c.saveLists(last, last.Names()) })
	}
}

// keepLists saves what lazy servers offer, until the client is closed.
func (c *Client) keepLists(changes <-chan mcpvisor.Event) {
	defer close(c.keeping)
	for e := range changes {
		now := c.rt.Snapshot()
		names := []string{e.Server}
		if e.Kind == mcpvisor.EventMissed {
			names = now.Names()
			c.saving.Lock()
			names = slices.AppendSeq(slices.Clone(names), maps.Keys(c.saved)) // some may be gone
			c.saving.Unlock()
		}
		c.saveLists(now, names)
	}
	c.lastSaves.Wait()
}

// saveLists saves what lazy servers offer, unless it was saved last.
func (c *Client) saveLists(s *actors.Snapshot, names []string) {
	c.saving.Lock()
	defer c.saving.Unlock()
	for _, name := range names {
		if v := s.Server(name); v == nil || v.Spec.Start != mcpvisor.StartLazy {
			delete(c.saved, name)
		} else if err := c.saveListsLocked(v); err != nil {
			c.opts.logger.Warn().Str("server", name).Err(err).Msg("the lists of the server cannot be kept; it will be started once more")
		}
	}
}

func (c *Client) saveListsLocked(v *actors.View) error {
	info, lists := v.Offer()
	if lists == nil {
		return nil
	}
	body, err := encodedlists.New(info, lists)
	if err != nil {
		return err
	}
	of := specDigest(v.Spec)
	digest := of + body.Digest()
	if c.saved[v.Name] == digest {
		return nil
	}
	data, err := json.Marshal(keptLists{Of: of, Offer: body.Encoded()})
	if err == nil {
		err = hostcall.Call("CatalogStore", func() error { return c.opts.catalogs.Save(v.Name, data) })
	}
	if err == nil {
		c.saved[v.Name] = digest
	}
	return err
}
