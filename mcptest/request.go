package mcptest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// target returns the tool, prompt or resource that a request names.
func (p params) target() string {
	if p.Name != "" {
		return p.Name
	}
	return p.URI
}

// request is a request that the server handles.
type request struct {
	id     json.RawMessage
	method string
	params params
	// modern: the request has the _meta of 2026-07-28.
	modern bool
	// ctx ends with the server, and when the client cancels the request. A request that
	// does not block uses the server's own context.
	ctx context.Context
	// answerFaults holds the faults that change the answer.
	answerFaults []*Fault
	// resultType is the type of the result since 2026-07-28; empty means complete.
	resultType string
	// uncancellable: the request is answered even if the client cancels it.
	uncancellable bool
}

var modernMark = []byte(mcp.MetaKeyProtocolVersion)

// handleLine handles one line of the client. It runs in the goroutine that reads stdin.
func (s *server) handleLine(line []byte) {
	var e envelope
	if failure := e.decode(line); failure != nil {
		if len(e.ID) == 0 {
			e.ID = json.RawMessage("null")
		}
		s.replyError(&request{id: e.ID}, failure)
		return
	}
	switch {
	case e.Method == "":
		s.clientRequests.deliver(e.ID, e.Result, e.Error)
	case len(e.ID) == 0:
		s.handleNotification(e)
	default:
		s.handleRequest(&request{
			id: e.ID, method: e.Method, params: e.Params, ctx: s.ctx,
			modern: bytes.Contains(e.Params.Meta, modernMark),
		})
	}
}

func (s *server) handleNotification(e envelope) {
	switch e.Method {
	case "notifications/cancelled":
		s.session.closeListen(e.Params.RequestID)
		s.calls.cancel(e.Params.RequestID)
	case "notifications/initialized":
		s.injectStage(StageInitialized)
	}
}

// handleRequest injects the faults that are due and handles the request. Unless
// something may block, it does so in the goroutine that reads stdin.
func (s *server) handleRequest(r *request) {
	due := s.plan.due(stageOf(r.method), r.method, r.params.target())
	if !s.waits(r) && !anyWaits(due) {
		s.process(r, due)
		return
	}
	ctx, done := s.calls.open(s.ctx, r.id)
	r.ctx = ctx
	s.running.Go(func() {
		defer done()
		s.process(r, due)
	})
}

func (s *server) process(r *request, due []*Fault) {
	for _, f := range due {
		if !s.injectBeforeAnswer(f, r) {
			return
		}
	}
	result, rerr, answered := s.dispatch(r)
	if answered || s.ctx.Err() != nil || r.ctx.Err() != nil && !r.uncancellable {
		return
	}
	if rerr != nil {
		s.replyError(r, rerr)
		return
	}
	s.reply(r, s.success(r, result))
}

// success returns an answer with these members of the result, and with those that the
// version adds.
func (s *server) success(r *request, members []byte) []byte {
	if r.modern {
		comma := ""
		if len(members) > 0 {
			comma = ","
		}
		members = fmt.Appendf(nil, `%s%s"resultType":%q,"_meta":{%q:%s}`, members, comma, cmp.Or(r.resultType, "complete"), mcp.MetaKeyServerInfo, s.serverInfo())
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, r.id, members)
}

func (s *server) replyError(r *request, e *jsonrpc.Error) {
	s.reply(r, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, r.id, tools.JSON(e)))
}

func (s *server) serverInfo() json.RawMessage {
	return tools.JSON(map[string]string{"name": s.script.Name, "version": s.script.Version})
}

// notify sends a notification; params is a JSON object, or empty.
func (s *server) notify(method string, params []byte) { s.out.writeLine(notification(method, params)) }

func notification(method string, params []byte) []byte {
	if len(params) > 0 {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%s,"params":%s}`, tools.JSON(method), params)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%s}`, tools.JSON(method))
}

// inFlight holds the requests that run in goroutines, so that the client can cancel
// them. Safe for concurrent use.
type inFlight struct {
	cancels sync.Map // context.CancelFunc by id
}

func (f *inFlight) open(parent context.Context, id json.RawMessage) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	f.cancels.Store(string(id), cancel)
	return ctx, func() {
		cancel()
		f.cancels.Delete(string(id))
	}
}

func (f *inFlight) cancel(id json.RawMessage) {
	if cancel, ok := f.cancels.Load(string(id)); ok {
		cancel.(context.CancelFunc)()
	}
}

// serverRequests are the requests of the server that the client has not answered. Safe for concurrent use.
type serverRequests struct {
	count   atomic.Int64
	pending sync.Map // chan json.RawMessage by id
}

// register adds a request and returns its id and the channel for its answer.
func (q *serverRequests) register() (string, <-chan json.RawMessage) {
	id := `"mcptest-` + strconv.FormatInt(q.count.Add(1), 10) + `"`
	answer := make(chan json.RawMessage, 1)
	q.pending.Store(id, answer)
	return id, answer
}

// deliver passes on the client's answer: the result, or the error object.
func (q *serverRequests) deliver(id, result, failure json.RawMessage) {
	if len(result) == 0 {
		result = failure
	}
	if waiting, ok := q.pending.LoadAndDelete(string(id)); ok {
		waiting.(chan json.RawMessage) <- result
	}
}
