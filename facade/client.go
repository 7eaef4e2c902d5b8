package facade

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Version is the version of this library.
const Version = "0.1.0"

// Client supervises servers and calls their tools. Safe for concurrent use by
// many goroutines; several clients live side by side in one process. Close it
// when done.
type Client struct {
	rt   *actors.Runtime
	opts options

	authorizers authorizers
}

// New makes a client without servers. The error, ErrInvalid, is for options that
// cannot work.
func New(opts ...Option) (*Client, error) {
	o := options{logger: zerolog.Nop(), clientInfo: &mcp.Implementation{Name: "mcpvisor", Version: Version}}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.wrong != nil {
		return nil, &mcpvisor.Error{Op: "new client", Kind: mcpvisor.KindInvalid, Cause: o.wrong}
	}
	o.logger = guarded(o.logger)
	if o.buffer <= 0 {
		o.buffer = DefaultMaxBufferBytes
	}
	buffer := budget.New(o.buffer, nil)
	c := &Client{opts: o}
	c.rt = actors.New(actors.Options{
		Logger: o.logger,
		Random: o.random,
		NewDialer: func(spec mcpvisor.ServerSpec) (d transport.Dialer, err error) {
			defer func() { // also if it panics: Authorize may wait for it
				c.authorizers.note(spec, d, func(name string) bool { return c.rt.Snapshot().Server(name) != nil })
			}()
			return transport.NewDialer(spec, transport.Options{ClientInfo: o.clientInfo, Handlers: o.handlers, Logger: o.logger, Buffer: buffer})
		},
	})
	return c, nil
}

// Register adds a server. It returns when the server is ready: connected,
// negotiated, its whole catalog listed. If the first start fails the error
// explains why and nothing is left behind, unless the spec is StartSupervised:
// then Register returns at once and the policy looks after the start as well.
// A server of that name that was evicted is replaced: it is unregistered first.
//
// Errors: ErrInvalid (the spec cannot work), ErrExists, ErrStart,
// ErrAuthRequired, ErrCanceled (ctx ended; the registration is taken back),
// ErrClosed.
func (c *Client) Register(ctx context.Context, spec mcpvisor.ServerSpec) error {
	op := "register " + spec.Name
	if err := spec.Validate(); err != nil {
		return &mcpvisor.Error{Server: spec.Name, Op: op, Kind: mcpvisor.KindInvalid, Cause: err}
	}
	return withOp(c.rt.Register(ctx, spec), op)
}

// Unregister removes a server: its tools are gone from the listing at once,
// its calls in flight fail, and when Unregister returns its process or its
// connections are gone too. Bounded by Timeouts.Shutdown and then some.
// Errors: ErrUnknownServer, ErrCanceled (it goes on in the background),
// ErrLeftBehind (the server is removed, and the error names processes that could
// not be ended or not be looked for).
func (c *Client) Unregister(ctx context.Context, name string) error {
	return withOp(c.rt.Unregister(ctx, name), "unregister "+name)
}

// Restart gives a server a fresh start with a fresh budget, whatever state it
// is in. It returns when that is under way; calls with WaitReady, or Watch,
// tell when it is done. A status or a WaitReady after it shows the new start. Errors: ErrUnknownServer, ErrClosed, ErrCanceled.
func (c *Client) Restart(ctx context.Context, name string) error {
	return withOp(c.rt.Restart(ctx, name), "restart "+name)
}

// WaitReady waits until a server is ready. Errors: ErrUnknownServer,
// ErrEvicted, ErrCanceled, ErrClosed.
func (c *Client) WaitReady(ctx context.Context, name string) error {
	_, err := c.rt.AwaitReady(ctx, name)
	return withOp(err, "wait for "+name)
}

// Close stops every server in parallel and ends the client. It is bounded by
// the servers' Timeouts.Shutdown whatever they do, and by ctx; it may be
// called more than once. Errors: ErrCanceled (it goes on in the background),
// ErrLeftBehind (the client is closed, and the error names, by server, processes
// that could not be ended or not be looked for).
func (c *Client) Close(ctx context.Context) error {
	c.authorizers.close()
	return withOp(c.rt.Close(ctx), "close")
}

// Watch delivers events of the given kinds from now on; no kinds means all. The channel
// is closed when ctx ends or the client is closed. End ctx to stop watching: a watcher
// that merely stops reading keeps its queue.
//
// The queue holds at most 1,024 events and 8 MiB. When a watcher does not keep up, the
// oldest events are dropped, EventLog and EventResourceUpdated before others, and
// EventMissed says how many. Events of other kinds than those asked for take no place in
// the queue. EventMissed is always delivered. A slow watcher delays nothing else.
func (c *Client) Watch(ctx context.Context, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	return c.rt.Watch(ctx, kinds...)
}

// withOp says in an error of ours what was attempted. Several callers may have
// been handed one error, so it is copied.
func withOp(err error, op string) error {
	if e, ok := err.(*mcpvisor.Error); ok && e != nil {
		own := *e
		own.Op = op
		return &own
	}
	return err
}
