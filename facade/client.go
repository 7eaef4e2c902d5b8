package facade

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// Client supervises MCP servers and calls their tools, resources and prompts.
//
//	client, err := facade.New(facade.WithSlog(slog.Default()))
//	if err != nil {
//		return err
//	}
//	defer client.Close(context.Background()) // a ctx that has ended would cut it short
//
//	err = client.Register(ctx, mcpvisor.ServerSpec{Name: "fs", Stdio: &mcpvisor.Stdio{Command: "my-server"}})
//	if err != nil {
//		return err
//	}
//	result, err := client.CallTool(ctx, "fs/list", map[string]any{"path": "/tmp"})
//
// The methods by purpose:
//
//	servers    Register, Apply, Unregister, Stop, Start, Restart, Fence, WaitReady, Ping, Close
//	groups     SetGroups, Groups, Monitor
//	calls      CallTool, CallToolRaw, CallToolForModel, ErrorForModel, ReadResource, GetPrompt, Complete
//	tasks      StartTask, ResumeTask, Tasks, JournalEntries
//	listing    Tools, AllTools, Tool, Resources, ResourceTemplates, Prompts
//	state      Servers, Status, ServerStatus, Watch
//	facts      History, Inspect, ToolStats, CallsInFlight, Stderr, Stats
//	changes    Refresh, Subscribe, Unsubscribe, SetLoggingLevel, SetRoots
//	OAuth      Authorize, FinishAuthorization, ForgetAuthorization
//
// A program that passes calls of others on, as a gateway does, finds more in package facade/relay.
//
// What can be set: the client by the options of [New] (logger, observer, defaults for
// calls, handlers for requests of servers), each server by [mcpvisor.ServerSpec] (transport,
// restart policy, timeouts, limits), each call by a [CallOption] ([WithTimeout],
// [WithWaitReady], [WithProgress]).
//
// What can go wrong: every method that can fail returns a *[mcpvisor.Error], and its
// comment lists the sentinels for errors.Is, such as mcpvisor.ErrUnavailable. The
// Outcome of the error says whether the server may have executed the request.
//
// Three terms: a registration lasts from [Client.Register] of a name to
// [Client.Unregister] of it; an incarnation is one process or connection of a server
// within it; an evicted server was given up by its policy and keeps its registration.
//
// After [Client.Close] the listings and Status are empty, and the channels of Watch are
// closed. Methods that need a server fail with ErrClosed; Unregister and Close return nil.
//
// A Client is safe for concurrent use by many goroutines. A process may have several
// clients; they share nothing. The zero value is not usable.
type Client struct {
	rt   *actors.Runtime
	opts options // of New; read only
	// defaultCall are the options of a call without any of its own; read only.
	defaultCall callOptions

	closing  atomic.Bool   // Close was called
	applying chan struct{} // holds one element while Apply runs

	authorizers authorizers
	openTasks   openTasks
	validator   validator // used with opts.validation only
	// intercepted bounds what is decoded of the results of interceptors.
	intercepted *budget.Budget
	writes      *journalWrites
	saving      sync.Mutex
	saved       map[string]string // digests of the lists that were saved last, by server; guarded by saving
	lastSaves   sync.WaitGroup    // those of Close
	keeping     chan struct{}     // closed when what lazy servers offer is saved; nil: nothing is kept
	buffer      *budget.Budget    // bounds what all servers and interceptors hold, those of the copies included

	copies   copies  // of servers, by CopyServer
	original *Client // that this one is a copy of; nil: none

	// See SpeakLegacy. By name of the server: the generation that was asked, and the one whose next session takes the era.
	askedLegacy, nextLegacy sync.Map
}

// New makes a client without servers. Without options it logs nothing, declares no
// capabilities to servers (sampling, elicitation, roots), and calls of servers that are
// not ready fail at once. Nil options are ignored.
//
// Errors: ErrInvalid (an option cannot work).
func New(opts ...Option) (*Client, error) {
	o := options{logger: zerolog.Nop(), clientInfo: &mcp.Implementation{Name: "mcpvisor", Version: Version()}}
	if err := o.apply(opts); err != nil {
		return nil, &mcpvisor.Error{Op: "new client", Kind: mcpvisor.KindInvalid, Cause: err}
	}
	if o.maxBufferBytes <= 0 {
		o.maxBufferBytes = defaults.Within(defaultClientBufferBytes, 4)
	}
	return newClient(o, budget.New(o.maxBufferBytes, nil), nil), nil
}

// newClient makes a client with checked options. If original is not nil, the client is a copy of it, and the records of its calls are those of original, too.
func newClient(o options, buffer *budget.Budget, original *Client) *Client {
	c := &Client{opts: o, applying: make(chan struct{}, 1), buffer: buffer, intercepted: budget.New(o.maxBufferBytes, buffer)}
	c.defaultCall.CallSettings = relayhook.CallSettings{Timeout: o.callTimeout, WaitReady: o.waitReady, WithoutValidation: !o.validation}
	var records *actors.Runtime
	if original != nil {
		c.original, records, c.writes = original, original.rt, original.writes
	} else {
		c.writes = newJournalWrites(budget.New(o.maxBufferBytes/4, nil))
	}
	c.rt = actors.New(actors.Options{
		Records:   records,
		Logger:    o.logger,
		Observer:  o.observer,
		MaxStarts: o.maxStarts,
		InUse:     func(server string) bool { return c.isCopied(server) || c.openTasks.has(server) },
		Known:     c.knownLists,
		Guard:     o.guard,
		NewDialer: func(spec mcpvisor.ServerSpec) (d transport.Dialer, err error) {
			defer func() { // even if it panics: findAuthorizer may wait for the record
				c.authorizers.record(spec, d, func(name string) bool { return c.rt.Snapshot().Server(name) != nil })
			}()
			if spec.Era == mcpvisor.EraAuto {
				spec.Era = o.era
			}
			return dial.ByHook(o.dialer, spec, transport.Options{ClientInfo: o.clientInfo, Handlers: o.handlers, Logger: o.logger, Buffer: buffer,
				TakeLegacy: func() bool {
					v := c.rt.Snapshot().Server(spec.Name)
					return v != nil && c.nextLegacy.CompareAndDelete(spec.Name, v.Gen)
				}})
		},
	})
	if o.catalogs != nil && original == nil {
		c.keeping, c.saved = make(chan struct{}), map[string]string{}
		go c.keepLists(c.rt.Events().Watch(context.Background(), mcpvisor.EventReady, mcpvisor.EventChanged, mcpvisor.EventUnregistered))
	}
	return c
}

// Register adds servers. It returns when they are ready: started or connected, protocol
// version negotiated, all their lists read. If that fails for a server, the error says why and nothing
// of it stays registered. With StartSupervised in its spec, as package config sets it, Register does not wait for a
// server, and the spec's policy also applies to the first start. A registered server of the same name is replaced if it is
// evicted.
//
// Several servers start at once, as many at a time as [WithMaxStarts] says, and one that fails does not
// keep the others from starting. Of two specs with the same name the first is registered, and the second
// fails with ErrExists.
//
// ctx bounds the wait of Register, and not the life of a server: one that is ready continues
// when ctx ends. Without a deadline of ctx, Timeouts.Start and Timeouts.List bound the wait, but not that for what a
// server comes after.
//
// Errors: ErrInvalid (the spec cannot work), ErrExists, ErrStart, ErrAuthRequired, ErrCanceled (ctx
// ended), ErrClosed. If a failed start left processes behind, Hint names them. After ErrCanceled
// the registration is undone in the background. The name stays taken until EventUnregistered, or
// until Unregister returns. The error of one spec is an *[mcpvisor.Error]. That of several is an errors.Join
// of one for each spec that failed, in their order, whose Server names the spec; errors.As finds only
// the first. To get all of them:
//
//	if joined, ok := err.(interface{ Unwrap() []error }); ok {
//		for _, err := range joined.Unwrap() {
//			var e *mcpvisor.Error
//			if errors.As(err, &e) {
//				log.Println(e.Server, e)
//			}
//		}
//	}
func (c *Client) Register(ctx context.Context, specs ...mcpvisor.ServerSpec) error {
	_ = ctx.Err() // a nil ctx panics here, and not in a goroutine
	if len(specs) == 1 {
		return c.register(ctx, specs[0])
	}
	_, errs := byName(specs)
	if c.hasOrder(specs) {
		c.startTogether(ctx, specs, errs, c.rt.RegisterAll)
		return errors.Join(errs...)
	}
	inParallel(len(specs), c.opts.startsAtOnce(), func(i int) {
		if errs[i] == nil {
			errs[i] = c.register(ctx, specs[i])
		}
	})
	return errors.Join(errs...)
}

// hasOrder reports whether servers may wait for each other. Then none may wait for a place among those that start.
func (c *Client) hasOrder(specs []mcpvisor.ServerSpec) bool {
	return len(c.rt.Snapshot().Groups()) > 0 || slices.ContainsFunc(specs, func(s mcpvisor.ServerSpec) bool { return len(s.After) > 0 })
}

// startTogether starts the servers of specs without an error so far. It completes errs.
func (c *Client) startTogether(ctx context.Context, specs []mcpvisor.ServerSpec, errs []error, start func(context.Context, []mcpvisor.ServerSpec) []error) {
	var valid []mcpvisor.ServerSpec
	var index []int
	for i, spec := range specs {
		if errs[i] == nil {
			errs[i] = c.checkSpec(ctx, spec)
		}
		if errs[i] == nil {
			valid, index = append(valid, spec), append(index, i)
		}
	}
	if len(valid) == 0 {
		return
	}
	for i, err := range start(ctx, valid) {
		errs[index[i]] = withOp(err, "register "+valid[i].Name)
	}
}

// checkSpec is the error of a server that cannot be registered, or whose context has ended.
func (c *Client) checkSpec(ctx context.Context, spec mcpvisor.ServerSpec) error {
	op, err := "register "+spec.Name, spec.Validate()
	for _, g := range c.rt.Snapshot().Groups() {
		if slices.Contains(g.Members, spec.Name) {
			err = errors.Join(err, c.refuseMember(spec.Name, g.Name))
		}
	}
	if err != nil {
		return &mcpvisor.Error{Server: spec.Name, Op: op, Kind: mcpvisor.KindInvalid, Cause: err}
	}
	return endedBefore(ctx, spec.Name, op)
}

func (c *Client) register(ctx context.Context, spec mcpvisor.ServerSpec) error {
	if err := c.checkSpec(ctx, spec); err != nil {
		return err
	}
	return withOp(c.rt.Register(ctx, spec), "register "+spec.Name)
}

// endedBefore is the error of an operation whose context had ended before it began; nil
// otherwise.
func endedBefore(ctx context.Context, server, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeNotSent, Cause: context.Cause(ctx)}
}

// Unregister removes a server. Its tools leave the listing and its calls in flight fail
// at once; when Unregister returns, its process or connections are gone. It takes at
// most a little longer than the server's Timeouts.Shutdown, and than Timeouts.Drain with [WithDrain].
//
// Errors: ErrUnknownServer, ErrCanceled (ctx ended; the removal continues), ErrLeftBehind
// (the server is removed, and the error names processes that could not be ended, or could
// not be searched for). After Close it returns nil.
func (c *Client) Unregister(ctx context.Context, name string, opts ...EndOption) error {
	err := c.rt.UnregisterDrained(ctx, name, slices.Contains(opts, WithDrain()))
	c.validator.forget(name)
	return c.withServerOp(err, name, "unregister "+name)
}

// Restart ends the server's session, if it has one, and starts the server again with
// all attempts of its policy, whatever its state. It returns when the restart is under
// way; [Client.WaitReady], [WithWaitReady] and [Client.Watch] show when it is complete.
// A Status or WaitReady after Restart refers to the new start.
//
// Errors: ErrUnknownServer, ErrEvicted (it was fenced; register it again), ErrCanceled, ErrClosed.
func (c *Client) Restart(ctx context.Context, name string, opts ...EndOption) error {
	return c.withServerOp(c.rt.RestartFor(ctx, name, nil, slices.Contains(opts, WithDrain())), name, "restart "+name)
}

// EndOption says how [Client.Unregister] and [Client.Restart] end a session.
type EndOption struct{ drain bool }

// WithDrain lets the calls in flight end before the session ends, within Timeouts.Drain of the server.
// Calls that come meanwhile are not sent: they fail with ErrUnavailable before a restart, or wait for it with
// [WithWaitReady], and with ErrClosed before a removal. A call that the
// server has made a task of counts while a caller waits for the task. An end without WithDrain, Fence and
// Close cut it short.
func WithDrain() EndOption { return EndOption{drain: true} }

// RestartFor implements relay.Methods.
func (c relayed) RestartFor(ctx context.Context, name string, cause *supervisor.Cause) error {
	return c.withServerOp(c.rt.RestartFor(ctx, name, cause, false), name, "restart "+name)
}

// Fence ends a server at once and keeps it from starting again until the name is registered
// again. It is for servers that this process may no longer run, because a lease or a lock on
// their name is lost. The process group is killed, without the grace of Timeouts.Shutdown; a
// server in memory, whose goroutine cannot be killed, has its context ended; a session over HTTP
// ends as with Unregister. Its copies (package relay) end in the same way. When Fence returns nil,
// nothing of the server is left.
//
// Calls in flight fail with ErrEnded and OutcomeUnknown. Later calls fail with
// ErrEvicted and OutcomeNotSent. Their cause has reason in it, one line for operators such as
// "the lease is over"; it may be empty. The server is listed as evicted, and its policy, a standby,
// Restart and Authorize do not start it. Register, Apply with another spec, and Unregister work as
// for every evicted server. Fence of a server that has never been ready and is not
// StartSupervised makes its Register fail, and leaves nothing registered.
//
// Errors: ErrUnknownServer, ErrCanceled (ctx ended; the fence holds, and what is left ends in the
// background), ErrLeftBehind (the fence holds, and the error names processes that could not be
// ended, or could not be searched for). After Close it returns nil.
func (c *Client) Fence(ctx context.Context, name, reason string) error {
	fence := func(made *Client) error { return made.Fence(ctx, name, reason) }
	fenced := make(chan error, 1)
	go func() { fenced <- c.rt.Fence(ctx, name, reason) }()
	copies := c.endCopies(fence)
	err := <-fenced
	copies = errors.Join(copies, c.endCopies(fence)) // those that were made meanwhile
	if err == nil {
		err = copies
	}
	return c.withServerOp(err, name, "fence "+name)
}

// WaitReady waits until each of the named servers has been ready or cannot become ready by itself. Without names it
// waits for all servers that are registered now, except those that are asleep, resting or stopped. It wakes a named
// server that is asleep or resting. A server may wait for one that is stopped or not registered, and WaitReady with it:
// give ctx a deadline. If one server failed, WaitReady returns its error; if several failed, their errors in the order
// of the names, joined by [errors.Join].
//
// Errors: ErrUnknownServer, ErrUnavailable (an operator has stopped it), ErrEvicted, ErrAuthRequired, ErrCanceled, ErrClosed.
func (c *Client) WaitReady(ctx context.Context, names ...string) error {
	await := func(name string) error {
		_, err := c.rt.AwaitReady(ctx, name)
		return err
	}
	if len(names) == 0 {
		names, await = c.Servers(), func(name string) error { return c.rt.AwaitSettled(ctx, name) }
	}
	var failed []error
	for _, name := range names { // no order matters: the last one decides when all were ready
		if err := await(name); err != nil {
			failed = append(failed, c.withServerOp(err, name, "wait for "+name))
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// Ping asks a server whether it answers, by a ping or, since 2026-07-28, by server/discover, and
// waits for the answer. Any answer counts, even an error. Ping never restarts the server:
// liveness probes ([mcpvisor.Probe]) do that. Without a deadline of ctx, Probe.Timeout of the
// server bounds the wait. The server must be ready. Pings are in no statistic.
//
// Errors: ErrUnknownServer, ErrUnavailable, ErrEvicted, ErrAuthRequired, ErrCrashed,
// ErrTimeout, ErrCanceled, ErrClosed.
func (c *Client) Ping(ctx context.Context, server string) error {
	s := c.rt.Snapshot()
	view := s.Server(server)
	if view == nil {
		return withOp(unknownServer(s, server), "ping "+server)
	}
	return withOp(c.rt.Ping(ctx, view), "ping "+server)
}

// Close stops all servers, with their copies (package relay), and ends the client: in parallel, but each before those
// that it comes after. It takes at most a little longer than the longest Timeouts.Shutdown, whatever the servers do; with
// an order, than the longest sum of servers that end one after another. It
// may be called more than once, and each call waits for the end. Pass context.Background(): if ctx has ended, such as that of
// signal.NotifyContext after the signal, Close returns at once, and a program that then exits
// leaves servers behind.
//
// Errors: ErrCanceled (ctx ended; the shutdown continues), ErrLeftBehind (the client is
// closed, and the error names, by server, processes that could not be ended, or could not
// be searched for).
func (c *Client) Close(ctx context.Context) error {
	if !c.closing.Swap(true) {
		c.saveAll()
	}
	c.authorizers.close()
	copies := make(chan error, 1)
	go func() { copies <- c.copies.close(ctx) }()
	err := withOp(c.rt.Close(ctx), "close")
	if c.keeping != nil {
		select {
		case <-c.keeping:
		case <-ctx.Done():
		}
	}
	if c.original == nil { // what a copy has to write, it writes after its end, too
		c.writes.close(ctx)
	}
	c.openTasks.release()
	if failed := <-copies; failed != nil {
		err = errors.Join(err, failed)
	}
	switch {
	case c.original == nil:
	case ctx.Err() == nil:
		c.original.copies.remove(c)
	default: // it may not have ended yet, and the original waits for it until then
		go func() { _ = c.Close(context.Background()) }() //nolint:gosec // ctx has ended
	}
	return err
}

// Closed implements relay.Methods.
func (c relayed) Closed() bool { return c.closing.Load() }

// Watch delivers events of the given kinds from now on; no kinds means all. The channel
// is closed when ctx ends or the client is closed. End ctx to stop watching: a watcher
// that merely stops reading keeps its queue.
//
// The queue holds at most 1,024 events and 8 MiB. When a watcher does not keep up, the
// oldest events are dropped, EventLog and EventResourceUpdated before others, and
// EventMissed says how many. Events of other kinds take no place in the queue.
// EventMissed is always delivered. A slow watcher delays nothing else.
func (c *Client) Watch(ctx context.Context, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	_ = ctx.Err() // a nil ctx panics here, and not in a goroutine
	return c.rt.Events().Watch(ctx, kinds...)
}

// withOp returns a copy of an error of ours that says what was attempted. The original
// may be shared with other callers.
func withOp(err error, op string) error {
	if e, ok := err.(*mcpvisor.Error); ok && e != nil {
		own := *e
		own.Op = op
		return &own
	}
	return err
}
