package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Observer sees each request of a client at its start and at its end, for traces and
// metrics. Set it with facade.WithObserver.
//
// These requests are observed: what callers ask for (tools/call, resources/read, prompts/get,
// completion/complete), one pair for each call of the Client, however many attempts, round trips
// and waits it takes; the pages of the lists that the client reads by itself (tools/list and
// others); and, with Incoming, what servers ask for (sampling/createMessage, elicitation/create,
// roots/list).
//
// The methods are called in the goroutine of the request, by many goroutines at a time,
// and delay it: they must not block. They may call the client, but must not wait for the request that
// they observe, as Refresh does in one of tools/list. A panic in them is logged and has no other effect.
type Observer interface {
	// RequestStarted is called before anything is sent, and before any wait. The context that it
	// returns replaces that of the request: RequestEnded gets it and, with Incoming, so does the
	// handler of the host. nil keeps the context.
	//
	// The bytes are a JSON object of members that travel in the _meta of the request, such
	// as {"traceparent":"00-…"} (SEP-414); nil for none. They are not sent with Incoming.
	// The members progressToken and io.modelcontextprotocol/… belong to the protocol. If
	// the bytes have one of these, or are no JSON object, they are not sent, and the log
	// says so once. They must not change before RequestEnded.
	RequestStarted(ctx context.Context, r RequestStart) (context.Context, []byte)
	// RequestEnded is called once for each RequestStarted, after the result was decoded.
	RequestEnded(ctx context.Context, r RequestEnd)
}

// RequestStart describes a request at its start.
type RequestStart struct {
	// Server is the name of the server, Gen the registration and Epoch the incarnation in
	// service. Epoch is 0 before the first one is ready.
	Server string
	Gen    uint64
	Epoch  uint64
	// Method is the JSON-RPC method, as in "tools/call".
	Method string
	// Target is the server's own name of the tool or prompt, or the URI of the resource;
	// empty for other methods. It comes from the caller, perhaps from a language model.
	Target string
	// Listed: the server lists a tool or prompt of the name Target. Only listed names are bounded
	// in number, so only they are fit for labels of metrics.
	Listed bool
	// Protocol is the negotiated version, as in "2025-11-25"; empty while the server has
	// no session.
	Protocol string
	// Transport is "stdio", "http" or "memory".
	Transport string
	// Incoming: the server made the request, and the client answers it.
	Incoming bool
	// Meta is the _meta object of an Incoming request as the server sent it, or what the caller gave
	// facade.WithMeta; nil for none. It may hold a trace context.
	Meta json.RawMessage
}

// RequestEnd describes a request at its end. Its RequestStart is up to date: Epoch is the
// incarnation that got the request.
type RequestEnd struct {
	RequestStart
	// Began is when the request was sent or queued, and Took how long it took from then
	// until its answer was received. Waiting with facade.WithWaitReady counts in neither.
	// Both are zero if the request was refused before that.
	Began time.Time
	Took  time.Duration
	// Err is why the request failed; nil if it did not. For Incoming, the server may get
	// another error, without internals of the host.
	Err *mcpvisor.Error
	// ToolError: the tool ran and failed by itself (a result with isError).
	ToolError bool
	// Outcome is that of Err; mcpvisor.OutcomeAnswered if the request did not fail.
	Outcome mcpvisor.Outcome
	// ResultBytes is the length of the result as it was sent.
	ResultBytes int
	// RequestID is the JSON-RPC id of the request, of its last round trip if there were
	// several; 0 if nothing was sent, and with Incoming.
	RequestID int64
}
