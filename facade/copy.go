package facade

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// copies are the clients that [Client.CopyServer] has made and that are not closed. The zero value is
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

// close closes all of them at once, and waits for it.
func (s *copies) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := make([]*Client, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	failed := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { failed[i] = c.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// CopyServer starts a server once more, for somebody who must not share it: it returns a client of its
// own with this one server, which has the name and the spec of the server that is registered here, and
// is StartSupervised, without a standby. That client has the options of this one, changed by opts. The
// two share the journal, the bounds of memory, and the records of ended calls (RecentCalls, UnknownCalls), and nothing
// else: lists, statistics, events and subscriptions are of each. What happens here to the server later does not change the copy.
//
// Close ends the copy. Close of this client ends all its copies. CopyServer does not wait for the
// server: [Client.WaitReady] and [WithWaitReady] do.
//
// Errors: ErrUnknownServer, ErrInvalid (an option cannot work), ErrClosed.
func (c *Client) CopyServer(server string, opts ...Option) (*Client, error) {
	op := "copy " + server
	s := c.rt.Snapshot()
	v := s.Server(server)
	if v == nil {
		return nil, withOp(unknownServer(s, server), op)
	}
	o := c.opts
	o.interceptors, o.readInterceptors = slices.Clip(o.interceptors), slices.Clip(o.readInterceptors)
	o.observer = c.rt.Observer()
	o.handlers.Elicited = c.opts.elicitations.host
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	followElicitations(&o)
	if o.err == nil {
		o.err = o.journal.check()
	}
	if o.err != nil {
		return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Cause: o.err}
	}
	made := newClient(o, c.buffer, c)
	if !c.copies.add(made) {
		_ = made.rt.Close(context.Background()) // it has no servers
		return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindClosed, Outcome: mcpvisor.OutcomeNotSent, Cause: errClientClosed}
	}
	spec := *v.Spec
	spec.StartSupervised, spec.Standby = true, false
	if err := made.rt.Register(context.Background(), spec); err != nil {
		return nil, errors.Join(withOp(err, op), made.Close(context.Background()))
	}
	return made, nil
}
