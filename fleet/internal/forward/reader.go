package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Reader makes, for a session of a server on another node, the requests that are not calls. Safe for
// concurrent use.
type Reader struct {
	client *peer.Client
	server string
	epoch  uint64
	buffer *budget.Budget
	notify func(transport.Notice)

	opened   chan struct{} // closed when the owner passes notices on
	openOnce sync.Once
	over     chan struct{}          // closed when the owner no longer does
	why      error                  // set before over is closed
	streams  atomic.Int64           // the id of the last one
	level    atomic.Pointer[string] // that the owner was asked for last
}

// NewReader makes a reader of a server that was placed on the node of the client with epoch. buffer,
// unless it is nil, bounds large results. notify gets the notices.
func NewReader(client *peer.Client, server string, epoch uint64, buffer *budget.Budget, notify func(transport.Notice)) *Reader {
	return &Reader{client: client, server: server, epoch: epoch, buffer: buffer, notify: notify, opened: make(chan struct{}), over: make(chan struct{})}
}

// Follow passes notices on until the route or ctx ends, and says why. It is called once. Until the
// owner has begun, and after the end, there are no subscriptions.
func (r *Reader) Follow(ctx context.Context) error {
	err := r.client.Notices(ctx, r.server, r.epoch, func() { r.openOnce.Do(func() { close(r.opened) }) }, r.notify)
	if err == nil {
		err = errNoNotices
	}
	r.why = err
	close(r.over)
	return err
}

// errNoNotices is why notices have ended that the owner ended without a reason.
var errNoNotices = errors.New("the node passes no notices on")

// awaitNotices waits until the owner passes notices on. The error is of a request that is not sent.
func (r *Reader) awaitNotices(ctx context.Context) error {
	unsent := func(kind mcpvisor.ErrorKind, why error) error {
		return &mcpvisor.Error{Server: r.server, Epoch: r.epoch, Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Cause: why}
	}
	select {
	case <-r.opened:
	case <-r.over:
	case <-ctx.Done():
		return unsent(mcpvisor.ErrCanceled, context.Cause(ctx))
	}
	select {
	case <-r.over:
		return unsent(mcpvisor.ErrUnavailable, fmt.Errorf("the notices of the server have ended: %w", r.why))
	default:
		return nil
	}
}

// Request makes a request. As from a session of a transport, the answer to tasks/get of a task of
// 2026-07-28 that has failed comes with an error, whose cause is a transport.TaskFailure.
func (r *Reader) Request(ctx context.Context, q transport.Request, opts ...facade.CallOption) (json.RawMessage, error) {
	out := peer.Request{Server: r.server, Epoch: r.epoch, Method: q.Method, Target: q.Target, Params: q.Params, Options: opts, Buffer: r.buffer, Into: q.Held}
	switch q.Method {
	case "resources/subscribe", "resources/unsubscribe", "logging/setLevel":
		if err := r.awaitNotices(ctx); err != nil {
			return nil, err
		}
	}
	result, err := r.client.Request(ctx, out)
	if err == nil && q.Method == "tasks/get" {
		return result, failureOf(result)
	}
	return result, err
}

// SetLevel has the owner send log messages of a level and above, unless it was asked for that before:
// since 2026-07-28 the level is part of each request (transport.Request.LogLevel), and no caller sets it.
func (r *Reader) SetLevel(ctx context.Context, level string) error {
	if last := r.level.Load(); last != nil && *last == level {
		return nil
	}
	params, err := json.Marshal(map[string]string{"level": level})
	if err == nil {
		_, err = r.Request(ctx, transport.Request{Method: "logging/setLevel", Params: params})
	}
	if err == nil {
		r.level.Store(&level)
	}
	return err
}

// failureOf returns the error of a task that has failed; nil if it has not.
func failureOf(answer json.RawMessage) error {
	rpc := new(jsonrpc.Error)
	if t, err := task.Read(answer); err != nil || t.Status != task.Failed || json.Unmarshal(t.Failure, rpc) != nil {
		return nil //nolint:nilerr // the node that asked reads the answer
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &transport.TaskFailure{Err: rpc}}
}

// TaskRelay returns how a tool call of a session asks for a task: as its params do in 2025-11-25,
// and in any case since 2026-07-28, unless the caller wants none. It is nil for a call that may not
// become a task.
func TaskRelay(q transport.Request, modern bool) *relay.TaskRelay {
	switch {
	case modern && (q.Caller == nil || !q.Caller.NoTasks):
		return &relay.TaskRelay{}
	case modern || !q.AsTask:
		return nil
	}
	var p struct {
		Task struct {
			TTL float64 `json:"ttl"` // in milliseconds
		} `json:"task"`
	}
	_ = json.Unmarshal(q.Params, &p) // the owner asks without it
	return &relay.TaskRelay{TTL: time.Duration(p.Task.TTL) * time.Millisecond}
}

// Result returns the result of a tool call with a relay as a session of a transport does: that of a
// call that became a task comes with transport.ErrTask.
func Result(taken *relay.TaskRelay, result json.RawMessage, err error) (json.RawMessage, error) {
	if err == nil && taken != nil && taken.ID != "" {
		return result, transport.ErrTask
	}
	return result, err
}

// Listen answers subscriptions/listen (2026-07-28), until ctx or the route ends: it subscribes to
// the resources, and acknowledges those that the server watches. Changes of lists come by the
// catalog, and tasks are not watched. It returns ctx's error, or why the stream has ended.
func (r *Reader) Listen(ctx context.Context, q transport.Request) error {
	id := r.streams.Add(1)
	if q.Stream.Sent != nil {
		q.Stream.Sent(id)
	}
	var p struct {
		Notifications struct {
			ResourceSubscriptions []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return &mcpvisor.Error{Server: r.server, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	honored, err := r.subscribe(ctx, p.Notifications.ResourceSubscriptions)
	if err == nil {
		r.notify(transport.Notice{Kind: transport.Acknowledged, Stream: id, Honored: honored})
		err = r.hold(ctx, len(honored) > 0)
	}
	r.unsubscribe(ctx, honored)
	if ctx.Err() != nil && q.Stream.Cancelled != nil {
		q.Stream.Cancelled()
	}
	return err
}

// hold returns when a stream has ended. One about resources ends with the notices.
func (r *Reader) hold(ctx context.Context, resources bool) error {
	over := r.over
	if !resources {
		over = nil
	}
	select {
	case <-ctx.Done():
		return &mcpvisor.Error{Server: r.server, Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	case <-over:
		return r.why
	}
}

// subscribe subscribes to all resources, except those that the server does not watch. After another
// error none is subscribed to.
func (r *Reader) subscribe(ctx context.Context, uris []string) (honored []string, err error) {
	for _, uri := range uris {
		_, err := r.Request(ctx, transport.Request{Method: "resources/subscribe", Target: uri})
		switch {
		case err == nil:
			honored = append(honored, uri)
		case !errors.Is(err, mcpvisor.ErrProtocol):
			return append(honored, uri), err // the owner may have it, too
		}
	}
	return honored, nil
}

// unsubscribe ends subscriptions, even after the end of ctx. If the route has ended, they have.
func (r *Reader) unsubscribe(ctx context.Context, uris []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	for _, uri := range slices.Backward(uris) {
		if _, err := r.Request(ctx, transport.Request{Method: "resources/unsubscribe", Target: uri}); err != nil {
			return
		}
	}
}
