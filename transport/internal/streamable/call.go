package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// confirmTimeout bounds the check whether a server is alive after a connection broke. The
// error of the call is delayed by that check.
const confirmTimeout = time.Second

// calls is the call channel of a session: it sends the requests of callers, and makes their
// results and errors. Safe for concurrent use.
//
// Fields without a remark are set by NewSession and not changed afterwards.
type calls struct {
	server    *peer
	life      *liveness
	exchanger *exchanger
	receiver  *receiver
	// params are the arguments that headers must repeat. useTools sets it.
	params     headerparams.Table
	toolsKnown atomic.Bool // useTools was called

	pinged       atomic.Bool  // a ping of this session had a result
	pingRefused  atomic.Bool  // the last check of this session was refused; see examine
	pingsDoubted *atomic.Bool // the dialer's
	// refusals counts the refused requests since the running check of noteRefusal began; 0
	// while none runs. The goroutine of that check owns nextCheck.
	refusals  atomic.Int64
	nextCheck time.Time
}

// request sends a request of the caller. "Every JSON-RPC message sent from the client MUST
// be a new HTTP POST request to the MCP endpoint" (MCP 2025-11-25, Streamable HTTP, "Sending
// Messages to the Server").
//
// A legacy request is sent from here, and is not copied on the way. With many callers, most of what
// a call costs here is memory that is not in the cache: each copy makes its stack larger.
func (c *calls) request(ctx context.Context, r *transport.Request) (json.RawMessage, error) {
	if died := c.life.cause(); died != nil {
		return nil, transport.DeathError(died, mcpvisor.OutcomeNotSent)
	}
	a := c.server.agreed.Load()
	if a == nil {
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
	}
	if err := ctx.Err(); err != nil {
		return nil, jsonrpc.RequestError(ctx, nil, mcpvisor.OutcomeNotSent, err)
	}
	switch {
	case r.Method == transport.ProbeMethod(a.info.Era):
		return c.probe(ctx)
	case a.modern:
		return a.sender.Request(ctx, r)
	}
	result, err := c.sendOnce(ctx, r)
	return a.sender.ObserveLegacy(r, result, err)
}

// send sends a request once and returns its result. The shutdown of the session waits for
// the exchange, but not for the caller's Progress function.
func (c *calls) send(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	return c.sendOnce(ctx, &r)
}

// sendOnce is send without a copy of the request.
func (c *calls) sendOnce(ctx context.Context, r *transport.Request) (json.RawMessage, error) {
	if !c.life.startTask() {
		return nil, transport.DeathError(c.life.cause(), mcpvisor.OutcomeNotSent)
	}
	ex := c.exchanger.table.startRequest(ctx, r)
	jsonrpc.NotifySent(r, ex.id())
	if ex.entry.Progress != nil {
		return c.sendWithProgress(ex, r)
	}
	defer c.life.tasks.Done()
	defer ex.finish()
	result, err := c.sendExchange(ex, r)
	ex.handOverBuffer(r, err)
	return result, err
}

// sendExchange runs the exchange of a request, and turns its answer into a result or an
// error.
func (c *calls) sendExchange(ex *exchange, r *transport.Request) (json.RawMessage, error) {
	a := c.server.agreed.Load()
	header, err := c.header(a, r)
	if err != nil {
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	got, httpErr := c.exchanger.roundTrip(ex, ex.id(), requestBody(ex.id(), r, jsonrpc.CallMeta(a.meta, r.Caller)), header)
	if (httpErr != nil && !httpErr.SessionLost || httpErr == nil && got.errorMember != nil) && verdictOf(got, httpErr) == refused {
		c.noteRefusal() // a session that is known to be lost needs no check
	}
	if httpErr != nil {
		return nil, c.callError(ex, httpErr)
	}
	if err := got.callError(); err != nil {
		return nil, err
	}
	return got.result, nil
}

// requestBody returns a request as the body of a POST, in one allocation.
func requestBody(id int64, r *transport.Request, meta json.RawMessage) []byte {
	const rest = 128 // enough for the other members and the progress token
	return jsonrpc.AppendRequest(make([]byte, 0, len(r.Method)+len(r.Params)+len(r.Meta)+len(meta)+rest), id, r, meta)
}

// sendWithProgress sends a request whose caller gets progress reports. The exchange runs
// in its own goroutine. The calling goroutine only calls the caller's Progress function,
// which may block. If that function panics, the exchange is canceled.
func (c *calls) sendWithProgress(ex *exchange, of *transport.Request) (result json.RawMessage, err error) {
	r := *of // the goroutine's own: of stays on the stack
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.life.tasks.Done()
		defer ex.finish()
		result, err = c.sendExchange(ex, &r)
	}()
	finished := false
	defer func() {
		if !finished {
			ex.end(context.Canceled, context.Canceled)
			<-done
			ex.handOverBuffer(&r, context.Canceled)
		}
	}()
	for answered := false; !answered; {
		select {
		case <-done:
			answered = true
		case <-ex.entry.Progress.Ready:
		}
		ex.entry.Progress.Deliver()
	}
	finished = true
	ex.handOverBuffer(&r, err)
	return result, err
}

// header returns the header of a request. Calls of a legacy session share it, so it must not
// be changed: a header for each call would allocate on the hot path. Only a modern session
// needs one, because its headers repeat the method, the name and arguments of the call (MCP
// 2026-07-28, Streamable HTTP). header fails if these arguments do not fit into headers.
func (c *calls) header(a *agreement, r *transport.Request) (http.Header, error) {
	if !a.modern {
		return a.header, nil
	}
	h := make(http.Header, len(a.header)+3)
	maps.Copy(h, a.header)
	h["Mcp-Method"] = []string{r.Method}
	switch r.Method {
	case "tools/call", "prompts/get", "resources/read", "tasks/get", "tasks/update", "tasks/cancel":
		h["Mcp-Name"] = []string{headerparams.Value(r.Target)}
	}
	if r.Method == "tools/call" {
		return h, c.params.AddTo(h, r.Target, r.Params)
	}
	return h, nil
}

// useTools implements UseTools of [transport.Session].
func (c *calls) useTools(tools []mcpvisor.Tool, partial bool) {
	if c.server.isModern() && !(c.toolsKnown.Swap(true) && partial) {
		c.params.Replace(tools)
	}
}

// callError returns the error of a call that failed with httpErr. It ends the session if
// httpErr proves that the session or the server is gone. After a broken connection it
// checks whether the server is alive. It cancels a request on which a legacy server may
// still work.
func (c *calls) callError(ex *exchange, httpErr *endpoint.HTTPError) error {
	if httpErr.Outcome == mcpvisor.OutcomeUnknown {
		c.exchanger.table.requests.GaveUp(&ex.entry)
	}
	c.receiver.requests.CancelOfCall(ex.id())
	switch {
	case httpErr.SessionLost || httpErr.ServerGone:
		c.life.lose(httpErr)
	case httpErr.ConnBroken && ex.ctx.Err() == nil:
		c.life.confirm(ex.ctx, c.ping)
	}
	if httpErr.Outcome == mcpvisor.OutcomeAnswered {
		return httpErr.CallError()
	}
	if died := c.life.cause(); died != nil {
		return transport.DeathError(died, httpErr.Outcome)
	}
	if ex.ctx.Err() != nil {
		if httpErr.Outcome == mcpvisor.OutcomeUnknown && !c.server.isModern() { // for a modern server the end of the connection is the cancellation
			c.notifyCancelled(ex)
		}
		e := jsonrpc.RequestError(ex.ctx, nil, httpErr.Outcome, httpErr)
		if e.Kind == mcpvisor.ErrTimeout && e.Cause == nil {
			e.Cause = httpErr.Remark
		}
		return e
	}
	return httpErr.CallError()
}

// ping asks the server whether it is alive. It ends the session if the server or the session
// is gone. A ping whose connection breaks proves nothing, because it may have got the connection
// of the request that broke: it is sent again, a few times.
func (c *calls) ping() {
	ctx, cancel := overdue.WithTimeout(c.life.ctx, confirmTimeout)
	defer cancel()
	a := c.server.agreed.Load()
	for pause := confirmTimeout / 100; pause < confirmTimeout; pause *= 4 {
		_, err := c.ask(ctx, a, transport.ProbeMethod(a.info.Era))
		if err == nil || !err.ConnBroken || backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// notifyCancelled notifies a legacy server that a request is canceled (MCP 2025-11-25,
// Cancellation), because for a legacy server the end of the connection is not a
// cancellation: "Disconnection SHOULD NOT be interpreted as the client cancelling its
// request" (Streamable HTTP). It does not wait for the delivery.
func (c *calls) notifyCancelled(ex *exchange) {
	err, _ := jsonrpc.ContextEnd(ex.ctx)
	c.exchanger.notify(jsonrpc.Cancelled(ex.id(), errors.Is(err, context.DeadlineExceeded)))
}
