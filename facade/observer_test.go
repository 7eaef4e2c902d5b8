package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// recordingObserver keeps what it is shown. meta is what it returns for _meta.
type recordingObserver struct {
	meta string

	mu     sync.Mutex
	starts []monitor.RequestStart
	ends   []monitor.RequestEnd
	paired int // ends whose context came from a start
}

// observedKey is the key of a context's value that the observer sets.
type observedKey struct{}

func (o *recordingObserver) RequestStarted(ctx context.Context, r monitor.RequestStart) (context.Context, []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starts = append(o.starts, r)
	return context.WithValue(ctx, observedKey{}, r.Method), []byte(o.meta)
}

func (o *recordingObserver) RequestEnded(ctx context.Context, r monitor.RequestEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, r)
	if ctx.Value(observedKey{}) == r.Method {
		o.paired++
	}
}

// take returns the ends so far of one method, and forgets all.
func (o *recordingObserver) take(t *testing.T, method string) (ends []monitor.RequestEnd) {
	t.Helper()
	require.Eventually(t, func() bool { // a list may be read again in the background
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.ends) == len(o.starts)
	}, 20*time.Second, time.Millisecond, "each start has its end")
	o.mu.Lock()
	defer o.mu.Unlock()
	require.Equal(t, len(o.ends), o.paired)
	for _, e := range o.ends {
		if e.Method == method {
			ends = append(ends, e)
		}
	}
	o.starts, o.ends, o.paired = nil, nil, 0
	return ends
}

const traceMeta = `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"}`

// The members of _meta reach the server beside those of the protocol, over every transport
// and in both eras.
func TestWithObserver_meta_reaches_the_server(t *testing.T) {
	onEveryMetaServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		o := &recordingObserver{meta: traceMeta}
		c := registered(t, spec, facade.WithObserver(o))
		check := func(text string) {
			var meta map[string]any
			require.NoError(t, json.Unmarshal([]byte(text), &meta))
			require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", meta["traceparent"])
			require.Equal(t, "a=b", meta["tracestate"])
			require.Contains(t, meta, "progressToken")
			if spec.Era == mcpvisor.EraModern {
				require.Contains(t, meta, mcp.MetaKeyProtocolVersion)
			}
		}
		r, err := c.CallTool(t.Context(), "s/meta", nil)
		require.NoError(t, err)
		check(r.Content[0].(*mcp.TextContent).Text)
		prompt, err := c.GetPrompt(t.Context(), "s/meta", nil)
		require.NoError(t, err)
		check(prompt.Messages[0].Content.(*mcp.TextContent).Text)

		const own = `{"example.com/own":1}` // the observer is shown what the caller sends
		_, err = c.CallTool(t.Context(), "s/meta", nil, facade.WithMeta(json.RawMessage(own)))
		require.NoError(t, err)
		_, err = c.GetPrompt(t.Context(), "s/meta", nil, facade.WithMeta(json.RawMessage(own)))
		require.NoError(t, err)
		require.Equal(t, own, string(o.take(t, "prompts/get")[1].Meta))
	})
}

// One call is one pair, with what is known at its end. The lists that the client reads are
// observed, too.
func TestWithObserver(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		ctx := t.Context()
		o := &recordingObserver{meta: traceMeta}
		c := newClient(t, facade.WithObserver(o))
		require.NoError(t, c.Register(ctx, spec))
		lists := o.take(t, "tools/list")
		require.Len(t, lists, 1)
		require.Positive(t, lists[0].Took)
		require.Positive(t, lists[0].ResultBytes)
		require.EqualValues(t, 1, lists[0].Epoch)
		require.Empty(t, lists[0].Target)

		call(t, c, "s/echo", map[string]any{"text": "x"})
		end := o.take(t, "tools/call")[0]
		require.Positive(t, end.Took)
		require.Positive(t, end.ResultBytes)
		require.Positive(t, end.RequestID)
		status, _ := c.ServerStatus("s")
		require.Equal(t, monitor.RequestEnd{RequestStart: monitor.RequestStart{Server: "s", Gen: 1, Epoch: 1, Method: "tools/call", Target: "echo",
			Listed: true, Protocol: status.Session.ProtocolVersion, Transport: spec.TransportKind()},
			Began: end.Began, Took: end.Took, ResultBytes: end.ResultBytes, RequestID: end.RequestID, Outcome: mcpvisor.OutcomeAnswered}, end)

		_, err := c.CallTool(ctx, "s/fail", map[string]any{"text": "no"})
		require.NoError(t, err)
		require.True(t, o.take(t, "tools/call")[0].ToolError)
		_, err = c.CallTool(ctx, "s/nothing", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
		end = o.take(t, "tools/call")[0]
		require.ErrorIs(t, end.Err, mcpvisor.ErrUnknownTool)
		require.False(t, end.Listed)
		require.Equal(t, mcpvisor.OutcomeNotSent, end.Outcome)
		require.Zero(t, end.Took)
		cancelOnProgress(t, c)
		end = o.take(t, "tools/call")[0]
		require.ErrorIs(t, end.Err, mcpvisor.ErrCanceled)
		require.Equal(t, mcpvisor.OutcomeUnknown, end.Outcome)
		require.True(t, end.Listed)
		_, err = c.ReadResource(ctx, "s", "test://nothing")
		require.Error(t, err)
		require.Equal(t, "test://nothing", o.take(t, "resources/read")[0].Target)
		_, err = c.CallTool(ctx, "nowhere/echo", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
		require.Empty(t, o.take(t, "tools/call"), "it is for no server")
		require.NoError(t, c.Refresh(ctx, "s"))
		require.Len(t, o.take(t, "prompts/list"), 1)
	})
}

// A call that waits for its server is one pair, and names the incarnation that got it.
func TestWithObserver_wait_ready(t *testing.T) {
	o := new(recordingObserver)
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(3, 50*time.Millisecond)}, facade.WithObserver(o))
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	o.take(t, "")
	call(t, c, "s/echo", map[string]any{"text": "x"}) // with WithWaitReady
	ends := o.take(t, "tools/call")
	require.Len(t, ends, 1)
	require.EqualValues(t, 2, ends[0].Epoch)
	require.Nil(t, ends[0].Err)
	require.True(t, ends[0].Listed)
	require.NotEmpty(t, ends[0].Protocol)
}

// What a server asks for is observed with the _meta that it sent, and the handler gets the
// context of the observer. Meanwhile the call is in flight.
func TestWithObserver_requests_of_servers(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		o := &recordingObserver{meta: traceMeta}
		var c *facade.Client
		requests, listed := 0, 0
		fail := false
		c = newClient(t, facade.WithObserver(o), facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
			require.Equal(t, "elicitation/create", ctx.Value(observedKey{}))
			requests++
			if slices.ContainsFunc(c.CallsInFlight(), func(f monitor.CallInFlight) bool { return f.Target == "consult" && !f.Began.IsZero() }) {
				listed++
			}
			if fail {
				return nil, errors.New("the user is away")
			}
			return &mcp.ElicitResult{Action: "decline"}, nil
		}))
		require.NoError(t, c.Register(t.Context(), spec))
		params := json.RawMessage(`{"message":"who?","requestedSchema":{"type":"object","properties":{}},"_meta":{"traceparent":"from the server"}}`)
		args := map[string]any{"method": "elicitation/create", "params": params, "rounds": 2}
		call(t, c, "s/consult", args)
		require.Positive(t, requests)
		require.Equal(t, requests, listed, "the call is in flight while its handler works, in each round")
		end := o.take(t, "elicitation/create")[0]
		require.True(t, end.Incoming)
		require.JSONEq(t, `{"traceparent":"from the server"}`, string(end.Meta))
		require.Equal(t, "s", end.Server)
		require.EqualValues(t, 1, end.Epoch)
		require.Equal(t, mcpvisor.OutcomeAnswered, end.Outcome)
		require.Positive(t, end.ResultBytes)
		require.Nil(t, end.Err)

		fail = true
		_, _ = c.CallTool(t.Context(), "s/consult", args)
		end = o.take(t, "elicitation/create")[0]
		require.ErrorIs(t, end.Err, mcpvisor.ErrInputRequired)
		require.ErrorContains(t, end.Err, "the user is away")
	})
}

// panickingObserver panics in one of its methods, ends its goroutine there for requests that the test does
// not make, or returns a _meta that cannot be sent.
type panickingObserver struct {
	inStart, inEnd     bool
	exitStart, exitEnd bool
	meta               string
}

func (o panickingObserver) RequestStarted(_ context.Context, r monitor.RequestStart) (context.Context, []byte) {
	if o.exitStart && r.Method != "tools/call" {
		runtime.Goexit()
	}
	if o.inStart {
		panic("in the observer")
	}
	return nil, []byte(o.meta)
}

func (o panickingObserver) RequestEnded(_ context.Context, r monitor.RequestEnd) {
	if o.exitEnd && r.Method != "tools/call" {
		runtime.Goexit()
	}
	if o.inEnd {
		panic("in the observer")
	}
}

// An observer that fails costs a line in the log and nothing else.
func TestWithObserver_that_fails(t *testing.T) {
	for name, row := range map[string]struct {
		observer panickingObserver
		log      string
	}{
		"panic at the start": {panickingObserver{inStart: true}, "panicked: in the observer"},
		"panic at the end":   {panickingObserver{inEnd: true}, "panicked: in the observer"},
		"exit at the start":  {panickingObserver{exitStart: true}, "ended its goroutine"},
		"exit at the end":    {panickingObserver{exitEnd: true}, "ended its goroutine"},
		"not JSON":           {panickingObserver{meta: `{"a":`}, "is not JSON"},
		"not an object":      {panickingObserver{meta: `[1]`}, "is not a JSON object"},
		"of the protocol":    {panickingObserver{meta: `{"progressToken":1}`}, "progressToken"},
		"reserved":           {panickingObserver{meta: `{"io.modelcontextprotocol/protocolVersion":"x"}`}, "belongs to the protocol"},
		"nothing wrong":      {panickingObserver{meta: "{\n}"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log testutil.LockedBuffer
			c, err := facade.New(facade.WithObserver(row.observer), facade.WithLogger(zerolog.New(&log)))
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(metaServer())}))
			r, err := c.CallTool(t.Context(), "s/meta", nil)
			require.NoError(t, err)
			require.NoError(t, c.Refresh(t.Context(), "s"))
			require.NotContains(t, r.Content[0].(*mcp.TextContent).Text, `"x"`)
			require.Contains(t, r.Content[0].(*mcp.TextContent).Text, "progressToken")
			require.NoError(t, c.Close(t.Context()))
			if row.log == "" {
				require.NotContains(t, log.String(), "observer")
			} else {
				require.Contains(t, log.String(), row.log)
			}
		})
	}
}

// A call whose Progress function panics ends for the observer and for the facts.
func TestWithObserver_panic_of_the_caller(t *testing.T) {
	o := new(recordingObserver)
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithObserver(o))
	require.Panics(t, func() {
		_, _ = c.CallTool(t.Context(), "s/slow_progress", map[string]any{"steps": 2, "ms": 1}, facade.WithProgress(func(mcpvisor.Progress) { panic("mine") }))
	})
	end := o.take(t, "tools/call")[0]
	require.ErrorIs(t, end.Err, mcpvisor.ErrCanceled)
	calls, _ := c.History().Calls(0)
	require.Equal(t, mcpvisor.OutcomeUnknown, calls[0].Outcome)
}

// A request keeps the observer that saw its start, and the next one has the new observer.
func TestUpdateObserver(t *testing.T) {
	first, second := &recordingObserver{}, &recordingObserver{}
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithObserver(first))
	relay.Of(c).UpdateObserver(func(now monitor.Observer) monitor.Observer {
		require.Same(t, first, now)
		return second
	})
	_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.Len(t, second.ends, 1)
	require.Len(t, first.ends, len(first.starts), "each start has an end")

	seen := len(first.starts)
	relay.Of(c).UpdateObserver(func(monitor.Observer) monitor.Observer { return nil })
	_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.Len(t, second.ends, 1)
	require.Len(t, first.starts, seen)
}
