package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// verifyPause is the shortest time between two checks whether a session is lost.
const verifyPause = time.Second

// verdict is what the outcome of one request proves about the session.
type verdict int

const (
	// provesNothing: no answer came, or it was not that of an MCP server: 408, 425, 502 to 504 and 520 to
	// 530, which proxies send, a web page, an empty body, the answer to another request.
	provesNothing verdict = iota
	// provesLife: a result, or 429, with which a server that works limits its clients.
	provesLife
	// refused: a JSON-RPC error, or a status that says nothing about credentials.
	refused
	// denied: 401, 403 or 407.
	denied
)

func verdictOf(got reply, httpErr *endpoint.HTTPError) verdict {
	switch status := statusOf(got, httpErr); {
	case endpoint.IsGatewayStatus(status), status == http.StatusRequestTimeout, status == http.StatusTooEarly, 520 <= status && status <= 530:
		return provesNothing
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return denied
	case status == http.StatusTooManyRequests, httpErr == nil && got.errorMember == nil:
		return provesLife
	case status != 0, httpErr == nil:
		return refused
	}
	return provesNothing
}

// noteRefusal has a legacy session verified after the server refused a request: one check at
// a time, and at most one in verifyPause. A refusal during a check is followed by another one, and so is a
// check that is refused: what refuses everything for a moment, such as a limit, does not end the session.
func (c *calls) noteRefusal() {
	if c.server.isModern() || c.refusals.Add(1) > 1 {
		return
	}
	c.life.goTask(func() {
		refused := false
		for seen := int64(0); refused || !c.refusals.CompareAndSwap(seen, 0); {
			if backoff.Sleep(c.life.ctx, time.Until(c.nextCheck)) != nil {
				return
			}
			seen = c.refusals.Load()
			refused = c.verify(refused)
			c.nextCheck = time.Now().Add(verifyPause)
		}
	})
}

// verify reports whether the server refuses in the session what it has answered before. If it did so in the
// check before, too, and no request had a result since, verify ends the session. Servers say in many ways that they
// have forgotten a session, and not only by 404, as MCP 2025-11-25 (Streamable HTTP, "Session Management") demands. In each of them
// they refuse a ping, too.
func (c *calls) verify(before bool) bool {
	ctx, cancel := context.WithTimeout(c.life.ctx, confirmTimeout)
	defer cancel()
	v, err := c.examine(ctx)
	switch {
	case v != refused || before && c.life.answered.Load():
		return false
	case before:
		c.life.end(&supervisor.Cause{Kind: supervisor.CauseClosed, Err: err.Err,
			Message: fmt.Sprintf("the server forgot the session: it refuses what it answered before: %s (its URL is %s)", err.Message, c.life.shownURL)})
		return false
	}
	c.life.answered.Store(false)
	return true
}

// examine asks the server whether the session lives: by a ping, or since 2026-07-28, which has
// none, by server/discover. A server whose pings never had a result in this session may not
// know them, and is asked for a list that it has returned before. So is one whose earlier
// session ended because it refused a ping: a server that refuses nothing else would be
// started again and again.
// A refusal is returned as refused only if a result came before. err is nil if v is provesLife.
func (c *calls) examine(ctx context.Context) (v verdict, err *endpoint.HTTPError) {
	a := c.server.agreed.Load()
	if a.modern {
		v, err = c.ask(ctx, a, "server/discover")
		return v, err
	}
	known := c.pinged.Load()
	v, err = c.ask(ctx, a, "ping")
	doubtful := !known || v == refused && c.pingsDoubted.Load() || err != nil && err.Status == http.StatusForbidden // which may be about pings alone
	if list := a.sender.Handshake.List(); list != "" && (v == refused || v == denied) && doubtful {
		v, err = c.ask(ctx, a, list)
		known = true
	}
	if v == refused && !known {
		return provesLife, nil
	}
	c.pingRefused.Store(v == refused)
	return v, err
}

// ask sends a request that has no effect, and ends the session if the server or the session is
// gone. A JSON-RPC error is returned as the HTTPError that it would be without its body.
func (c *calls) ask(ctx context.Context, a *agreement, method string) (verdict, *endpoint.HTTPError) {
	r := transport.Request{Method: method}
	ex := c.exchanger.table.startRequest(ctx, &r)
	defer ex.finish()
	defer ex.reserver.share.Release()
	header, _ := c.header(a, &r) // it fails for tools only
	got, httpErr := c.exchanger.roundTrip(ex, ex.id(), requestBody(ex.id(), &r, a.meta), header)
	v := verdictOf(got, httpErr)
	switch {
	case httpErr != nil && (httpErr.SessionLost || httpErr.ServerGone):
		c.life.lose(httpErr)
	case httpErr == nil && got.errorMember != nil:
		e := jsonrpc.ServerError(got.errorMember)
		httpErr = endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the server answered %s with an error: %v", method, e.Cause)
		httpErr.Err, httpErr.Status = e.Cause, got.status
	case httpErr == nil && method == "ping":
		c.pinged.Store(true)
	}
	return v, httpErr
}

// probe is a request of [transport.Probe]. An answer proves that the server is alive, also a
// JSON-RPC error. Any other refusal of what had a result before has an outcome that does not
// count as an answer.
func (c *calls) probe(ctx context.Context) (json.RawMessage, error) {
	if !c.life.startTask() {
		return nil, transport.DeathError(c.life.cause(), mcpvisor.OutcomeNotSent)
	}
	defer c.life.tasks.Done()
	v, httpErr := c.examine(ctx)
	switch {
	case v == refused:
		c.noteRefusal()
	case httpErr != nil && httpErr.ConnBroken && ctx.Err() == nil:
		c.life.confirm(ctx, c.ping)
	}
	switch died := c.life.cause(); {
	case died != nil:
		return nil, transport.DeathError(died, mcpvisor.OutcomeUnknown)
	case v == provesLife, v == refused && httpErr.Status == 0:
		return json.RawMessage("{}"), nil
	case ctx.Err() != nil:
		return nil, jsonrpc.RequestError(ctx, nil, mcpvisor.OutcomeUnknown, httpErr)
	}
	e := httpErr.CallError()
	if e.Outcome == mcpvisor.OutcomeAnswered {
		e.Outcome = mcpvisor.OutcomeUnknown
	}
	return nil, e
}
