package facade

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// copies are the clients that relay.Methods.CopyServer has made and that are not closed. The zero value is
// empty. Safe for concurrent use.
type copies struct {
	mu     sync.Mutex // guards the fields below
	open   map[*Client]bool
	closed bool
}

// add reports false if the client has been closed.
func (s *copies) add(c *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = map[*Client]bool{}
	}
	s.open[c] = true
	return true
}

func (s *copies) remove(c *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// close closes all of them, and those that are added later are refused.
func (s *copies) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.each(func(c *Client) error { return c.Close(ctx) })
}

func (s *copies) all() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// each calls f for all of them at once, and waits for it.
func (s *copies) each(f func(*Client) error) error {
	all := s.all()
	failed := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { failed[i] = f(c) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// isCopied reports whether a copy of a server runs.
func (c *Client) isCopied(server string) bool {
	return slices.ContainsFunc(c.copies.all(), func(made *Client) bool { return made.rt.Snapshot().Server(server) != nil })
}

// CopyServer implements relay.Methods.
func (c relayed) CopyServer(server string, opts ...Option) (*Client, error) {
	op := "copy " + server
	s := c.rt.Snapshot()
	v := s.Server(server)
	if v == nil {
		return nil, withOp(unknownServer(s, server), op)
	}
	if v.Spec.Exclusive {
		return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: errExclusive}
	}
	if ended := endedError(v); ended != nil {
		return nil, withOp(ended, op)
	}
	if v.State == supervisor.StateWaiting || v.Rests() && isOrdered(s, v) {
		return nil, withOp(v.Unavailable(), op)
	}
	o := c.opts
	o.interceptors = slices.Clip(o.interceptors)
	o.observer = c.rt.Observer()
	if err := o.apply(opts); err != nil {
		return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrInvalid, Cause: err}
	}
	made := newClient(o, c.buffer, c.Client)
	if !c.copies.add(made) {
		_ = made.rt.Close(context.Background()) // it has no servers
		return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeNotSent, Cause: errClientClosed}
	}
	spec := *v.Spec
	spec.StartSupervised, spec.Standby, spec.After, spec.Start, spec.IdleStop = true, false, nil, mcpvisor.StartEager, 0
	if err := made.rt.Register(context.Background(), spec); err != nil {
		return nil, errors.Join(withOp(err, op), made.Close(context.Background()))
	}
	if ended := endedError(c.rt.Snapshot().Server(server)); ended != nil { // Fence or Stop has not seen the copy
		return nil, errors.Join(withOp(ended, op), made.Close(context.Background()))
	}
	return made, nil
}

// SpeaksBothEras implements relay.Methods.
func (c relayed) SpeaksBothEras(server string) (both, known bool) {
	v := c.rt.Snapshot().Server(server)
	if v == nil || v.Spec.Era != mcpvisor.EraAuto || v.Spec.Exclusive {
		return false, true
	}
	return v.BothEras, v.EverReady
}

// SpeakLegacy implements relay.Methods.
func (c relayed) SpeakLegacy(ctx context.Context, server string) error {
	v := c.rt.Snapshot().Server(server)
	if v == nil || !v.Spec.Exclusive || v.Spec.Era != mcpvisor.EraAuto || !v.BothEras || v.State != supervisor.StateReady && !v.Rests() {
		return nil
	}
	if asked, _ := c.askedLegacy.Swap(server, v.Gen); asked == v.Gen || v.Status().Calls.Total > 0 { // the status is made once
		return nil
	}
	if c.nextLegacy.Store(server, v.Gen); v.Rests() { // it is about to start
		return nil
	}
	return c.rt.RestartFor(ctx, server, &supervisor.Cause{Kind: supervisor.CauseRestart, Message: "its first client needs a session before 2026-07-28"}, true)
}

// isOrdered reports whether a server may come after others, which run while it does.
func isOrdered(s *actors.Snapshot, v *actors.View) bool {
	return len(v.Spec.After) > 0 || slices.ContainsFunc(s.Groups(), func(g mcpvisor.GroupStatus) bool { return slices.Contains(g.Members, v.Name) })
}

var errExclusive = errors.New("a copy is a second process, and the server is exclusive; remove ServerSpec.Exclusive, or let all share the server")

// endedError is the error of a copy of a server that was fenced or stopped; nil if it was not.
func endedError(v *actors.View) error {
	switch {
	case v == nil:
		return nil
	case v.State == supervisor.StateStopped:
		return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: actors.ErrStopped}
	case v.State == supervisor.StateEvicted && v.Cause != nil && v.Cause.Kind == supervisor.CauseFenced:
		return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Kind: mcpvisor.ErrEvicted, Outcome: mcpvisor.OutcomeNotSent, Cause: v.Cause, Hint: "register it again"}
	}
	return nil
}

// endCopies ends all copies of a server by end. A copy that is just being registered, or unregistered, ends by itself.
func (c *Client) endCopies(end func(*Client) error) error {
	return c.copies.each(func(made *Client) error {
		if err := end(made); !errors.Is(err, mcpvisor.ErrUnknownServer) && !errors.Is(err, mcpvisor.ErrClosed) {
			return err
		}
		return nil
	})
}
