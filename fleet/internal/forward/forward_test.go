package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const legacy, modern = "2025-11-25", "2026-07-28"

// fleet is an owner's node with server "s", and the means to reach it.
type fleet struct {
	t         testing.TB
	authority *certs.Authority
	local     *facade.Client
	owner     *Owner
	address   string
	moved     atomic.Bool
}

func identity(t testing.TB, a *certs.Authority, node string) peer.Identity {
	t.Helper()
	cert, err := a.IssueTLS(node)
	require.NoError(t, err)
	return peer.Identity{Certificate: cert, Authorities: a.Pool()}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Second, errors.New("the test takes too long"))
	t.Cleanup(cancel)
	return ctx
}

func newFleet(t testing.TB, script mcptest.Script) *fleet {
	t.Helper()
	a, err := certs.NewAuthority("test")
	require.NoError(t, err)
	local, err := facade.New(facade.WithDeclared(facade.Declared{Elicitation: true}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Close(context.Background())) })
	require.NoError(t, local.Register(within(t), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script)}))
	f := &fleet{t: t, authority: a, local: local, owner: NewOwner(relay.Of(local))}
	server, err := peer.NewServer(peer.ServerConfig{Identity: identity(t, a, "owner"), Local: relay.Of(local), Request: f.owner.Request, Notices: f.owner.Notices,
		Check: func(_ string, epoch uint64) error {
			if epoch != 1 || f.moved.Load() {
				return peer.ErrMoved
			}
			return nil
		}})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, <-served)
		f.owner.mu.Lock()
		defer f.owner.mu.Unlock()
		require.Empty(t, f.owner.servers)
		require.Zero(t, f.owner.listeners)
	})
	f.address = l.Addr().String()
	return f
}

// client connects a node to the owner.
func (f *fleet) client(node string) *peer.Client {
	f.t.Helper()
	c, err := peer.NewClient(peer.ClientConfig{Identity: identity(f.t, f.authority, node), Node: "owner", Address: f.address})
	require.NoError(f.t, err)
	f.t.Cleanup(c.Close)
	require.NoError(f.t, c.WaitReachable(within(f.t)))
	return c
}

// reading is a reader that follows, and what it gets.
type reading struct {
	*Reader
	notices chan transport.Notice
	leave   context.CancelFunc
	left    chan error
}

func (f *fleet) read(node string) *reading {
	f.t.Helper()
	r := &reading{notices: make(chan transport.Notice, 1000), left: make(chan error, 1)}
	r.Reader = NewReader(f.client(node), "s", 1, nil, func(n transport.Notice) { r.notices <- n })
	var ctx context.Context
	ctx, r.leave = context.WithCancel(context.Background())
	f.t.Cleanup(r.leave)
	go func() { r.left <- r.Follow(ctx) }()
	require.NoError(f.t, r.awaitNotices(within(f.t)))
	return r
}

func (r *reading) request(t testing.TB, method, target, params string) error {
	t.Helper()
	_, err := r.Request(within(t), transport.Request{Method: method, Target: target, Params: json.RawMessage(params)})
	return err
}

// touch has the server report a change of a resource, and then send a log message, which comes
// after it.
func (f *fleet) touch(uri, mark string) {
	f.t.Helper()
	_, err := f.local.CallToolRaw(within(f.t), "s/touch", []byte(fmt.Sprintf(`{"uri":%q}`, uri)))
	require.NoError(f.t, err)
	f.log("emergency", mark)
}

func (f *fleet) log(level, text string) {
	f.t.Helper()
	_, err := f.local.CallToolRaw(within(f.t), "s/log", []byte(fmt.Sprintf(`{"level":%q,"text":%q}`, level, text)))
	require.NoError(f.t, err)
}

// until returns what has come before a log message.
func (r *reading) until(t testing.TB, mark string) (before []string) {
	t.Helper()
	for ctx := within(t); ; {
		select {
		case n := <-r.notices:
			switch {
			case n.Kind == transport.LogMessage && n.Log.Text == mark:
				return before
			case n.Kind == transport.LogMessage:
				before = append(before, n.Log.Level+" "+n.Log.Text)
			default:
				before = append(before, n.URI)
			}
		case <-ctx.Done():
			t.Fatalf("%q does not come after %q", mark, before)
		}
	}
}

// TestReader_subscriptions: a node hears of resources while it is subscribed to one, whatever others
// do; the server stays subscribed until the last one leaves.
func TestReader_subscriptions(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{legacy}})
	a, b := f.read("a"), f.read("b")
	const text = "mcptest://text"
	f.touch(text, "0")
	require.Empty(t, a.until(t, "0"))
	require.NoError(t, a.request(t, "resources/subscribe", text, `{}`))
	f.touch(text, "1")
	require.Equal(t, []string{text}, a.until(t, "1"))
	require.Equal(t, []string{"emergency 0"}, b.until(t, "1"))
	require.NoError(t, b.request(t, "resources/subscribe", text, `{}`))
	require.NoError(t, a.request(t, "resources/unsubscribe", text, `{}`))
	f.touch(text, "2")
	require.Empty(t, a.until(t, "2"))
	require.Equal(t, []string{text}, b.until(t, "2"))
	b.leave()
	require.ErrorIs(t, <-b.left, mcpvisor.ErrCanceled)
	require.NoError(t, a.request(t, "resources/subscribe", "mcptest://other", `{}`)) // so that it would hear of text
	require.Eventually(t, func() bool {
		f.touch(text, "3")
		return len(a.until(t, "3")) == 0
	}, 20*time.Second, 10*time.Millisecond, "no node is subscribed")
	err := b.request(t, "resources/subscribe", text, `{}`)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable, "it has left")
	require.ErrorContains(t, err, "have ended")
}

// TestOwner_refuses: what a node may not ask for is an error, and costs the server nothing.
func TestOwner_refuses(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{legacy}})
	c := f.client("a")
	ask := func(method, target, params string) error {
		_, err := c.Request(within(t), peer.Request{Server: "s", Epoch: 1, Method: method, Target: target, Params: json.RawMessage(params)})
		return err
	}
	require.ErrorContains(t, ask("resources/subscribe", "x", ""), "does not listen")
	require.ErrorContains(t, ask("resources/unsubscribe", "x", ""), "does not listen")
	require.ErrorContains(t, ask("logging/setLevel", "", `{"level":"info"}`), "does not listen")
	a := f.read("a")
	require.ErrorIs(t, ask("resources/subscribe", "", ""), mcpvisor.ErrInvalid)
	require.ErrorContains(t, ask("resources/subscribe", strings.Repeat("x", maxURI+1), ""), "8192 at most")
	require.ErrorContains(t, ask("logging/setLevel", "", `{"level":"loud"}`), "no log level")
	require.ErrorIs(t, ask("logging/setLevel", "", `[`), mcpvisor.ErrInvalid)
	require.ErrorIs(t, ask("tasks/get", "", ""), mcpvisor.ErrInvalid)
	require.ErrorIs(t, ask("tasks/update", "x", `[`), mcpvisor.ErrInvalid)
	err := ask("server/explode", "", "")
	require.ErrorIs(t, err, peer.ErrUnsupported)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	for i := range maxSubscriptions {
		f.owner.mu.Lock()
		f.owner.servers["s"].nodes["a"].uris[fmt.Sprint(i)] = true
		f.owner.mu.Unlock()
	}
	require.ErrorContains(t, ask("resources/subscribe", "one more", ""), "is subscribed to 1000")
	_, err = c.Request(within(t), peer.Request{Server: "s", Epoch: 2, Method: "ping"})
	require.ErrorIs(t, err, peer.ErrMoved)
	require.NoError(t, ask("ping", "", ""))
	require.NotNil(t, a)
}

// TestReader_log_level: the server sends what one of the nodes wants, and each node gets its own.
func TestReader_log_level(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{legacy}})
	a, b := f.read("a"), f.read("b")
	require.NoError(t, a.request(t, "logging/setLevel", "", `{"level":"error"}`))
	require.NoError(t, b.request(t, "logging/setLevel", "", `{"level":"info"}`))
	for i := range 50 {
		require.NoError(t, a.request(t, "logging/setLevel", "", `{"level":"warning"}`))
		f.log("info", fmt.Sprint(i))
		require.Empty(t, b.until(t, fmt.Sprint(i)))
	}
	f.log("debug", "d")
	f.log("info", "i")
	f.log("warning", "w")
	f.log("emergency", "end")
	require.Equal(t, []string{"warning w"}, a.until(t, "end"))
	require.Equal(t, []string{"info i", "warning w"}, b.until(t, "end"))
}

// TestReader_SetLevel: the level of a session since 2026-07-28 is that of the requests of the owner,
// and is said once.
func TestReader_SetLevel(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{modern}})
	a := f.read("a")
	require.NoError(t, a.SetLevel(within(t), "info"))
	f.log("debug", "d")
	f.log("info", "i")
	require.Empty(t, a.until(t, "i"))
	require.ErrorIs(t, a.SetLevel(within(t), "loud"), mcpvisor.ErrInvalid)
	a.leave()
	<-a.left
	require.NoError(t, a.SetLevel(within(t), "info"), "nothing is sent")
	require.ErrorIs(t, a.SetLevel(within(t), "error"), mcpvisor.ErrUnavailable)
}

// TestReader_route_ends: notices end when the server moves, and the subscriptions with them.
func TestReader_route_ends(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{legacy}})
	a := f.read("a")
	require.NoError(t, a.request(t, "resources/subscribe", "mcptest://text", `{}`))
	f.moved.Store(true)
	err := <-a.left
	require.ErrorIs(t, err, peer.ErrMoved)
	require.ErrorIs(t, err, peer.ErrMoved)
	require.ErrorIs(t, a.request(t, "resources/subscribe", "mcptest://text", `{}`), peer.ErrMoved)
	require.Eventually(t, func() bool {
		f.owner.mu.Lock()
		defer f.owner.mu.Unlock()
		return len(f.owner.servers) == 0
	}, 20*time.Second, time.Millisecond)
}

// TestReader_client_closed: notices end when the client of the owner's node is closed.
func TestReader_client_closed(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{legacy}})
	a := f.read("a")
	require.NoError(t, f.local.Close(within(t)))
	require.ErrorIs(t, <-a.left, mcpvisor.ErrClosed)
}

// TestReader_Listen: a session since 2026-07-28 subscribes by a stream, which ends its subscriptions
// when it ends, and with the route.
func TestReader_Listen(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{modern}})
	a := f.read("a")
	const text = "mcptest://text"
	listen := func(ctx context.Context, uris ...string) (int64, chan error, *atomic.Bool) {
		params, err := json.Marshal(map[string]any{"notifications": map[string]any{"resourceSubscriptions": uris, "toolsListChanged": true}})
		require.NoError(t, err)
		ended, sent, cancelled := make(chan error, 1), make(chan int64, 1), new(atomic.Bool)
		go func() {
			ended <- a.Listen(ctx, transport.Request{Method: "subscriptions/listen", Params: params,
				Stream: &transport.Stream{Sent: func(id int64) { sent <- id }, Cancelled: func() { cancelled.Store(true) }}})
		}()
		return <-sent, ended, cancelled
	}
	ctx, stop := context.WithCancel(within(t))
	id, ended, cancelled := listen(ctx, text)
	ack := <-a.notices
	require.Equal(t, transport.Notice{Kind: transport.Acknowledged, Stream: id, Honored: []string{text}}, ack)
	_, err := f.local.CallToolRaw(within(t), "s/touch", []byte(`{"uri":"`+text+`"}`))
	require.NoError(t, err)
	require.Equal(t, transport.Notice{Kind: transport.ResourceUpdated, URI: text}, <-a.notices)
	stop()
	require.ErrorIs(t, <-ended, mcpvisor.ErrCanceled)
	require.True(t, cancelled.Load())
	f.owner.mu.Lock()
	require.Empty(t, f.owner.servers["s"].nodes["a"].uris)
	f.owner.mu.Unlock()

	lists, stopLists := context.WithCancel(within(t))
	_, listsEnded, _ := listen(lists)
	require.Empty(t, (<-a.notices).Honored)
	_, ended, cancelled = listen(within(t), text)
	require.NotEmpty(t, (<-a.notices).Honored)
	f.moved.Store(true)
	require.ErrorIs(t, <-ended, peer.ErrMoved)
	require.False(t, cancelled.Load())
	require.Empty(t, listsEnded, "no subscription was lost")
	stopLists()
	require.ErrorIs(t, <-listsEnded, mcpvisor.ErrCanceled)
	_, ended, _ = listen(within(t), text)
	require.ErrorIs(t, <-ended, peer.ErrMoved)
}

// TestReader_tasks: a call becomes a task on the owner's node, and what is asked about the task later
// goes to its server.
func TestReader_tasks(t *testing.T) {
	const ask = `{"ok":{"method":"elicitation/create","params":{"message":"Go on?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}}}}}}`
	for _, version := range []string{legacy, modern} {
		for _, failing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s failing %t", version, failing), func(t *testing.T) {
				def := &mcptest.TaskDef{Poll: time.Millisecond, Optional: true}
				if failing {
					def.Fail = "the disk is full"
				}
				f := newFleet(t, mcptest.Script{Versions: []string{version}, Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "job", As: "count", Task: def},
					mcptest.ToolDef{Name: "asks", As: "count", Task: &mcptest.TaskDef{Optional: true, Input: json.RawMessage(ask)}})})
				client := f.client("a")
				r := NewReader(client, "s", 1, nil, nil)
				route := client.Route("s", 1)
				call := func(tool string, q transport.Request, opts ...facade.CallOption) (*relay.TaskRelay, json.RawMessage, error) {
					taken := TaskRelay(q, version == modern)
					if taken != nil {
						opts = append(opts, relay.WithTaskRelay(taken))
					}
					result, err := route.CallToolRaw(within(t), tool, []byte(`{"key":"order"}`), opts...)
					result, err = Result(taken, result, err)
					return taken, result, err
				}
				taken, result, err := call("s/job", transport.Request{AsTask: true, Params: json.RawMessage(`{"task":{"ttl":60000}}`)})
				require.Equal(t, transport.ErrTask, err)
				require.Contains(t, string(result), taken.ID)
				require.Equal(t, []any{"s", version == modern}, []any{taken.Server, taken.Modern})
				about := func(method string) (json.RawMessage, error) {
					return r.Request(within(t), transport.Request{Method: method, Target: taken.ID})
				}
				answer, err := about("tasks/get")
				require.Contains(t, string(answer), taken.ID)
				if version == legacy {
					require.NoError(t, err)
					answer, err = about("tasks/result")
				}
				var failure *transport.TaskFailure
				switch {
				case !failing:
					require.NoError(t, err)
					require.Contains(t, string(answer), `"executions":1`)
				case version == modern:
					require.ErrorAs(t, err, &failure)
					require.ErrorContains(t, err, "the disk is full")
				default:
					require.ErrorIs(t, err, mcpvisor.ErrRPC)
					require.ErrorContains(t, err, "the disk is full")
				}
				_, err = r.Request(within(t), transport.Request{Method: "tasks/get", Target: "unknown"})
				require.ErrorIs(t, err, mcpvisor.ErrRPC)

				quick, result, err := call("s/echo", transport.Request{AsTask: true}) // this tool makes no task
				require.NoError(t, err)
				require.Empty(t, quick.ID, "%s", result)
				none, _, _ := call("s/echo", transport.Request{Caller: &transport.Caller{NoTasks: true}})
				require.Nil(t, none)

				f.answerTask(t, version, r, call)
			})
		}
	}
}

// answerTask has a task ask, and answers it: since 2026-07-28 by tasks/update, before by the handlers
// of the caller that waits for its result.
func (f *fleet) answerTask(t *testing.T, version string, r *Reader, call func(string, transport.Request, ...facade.CallOption) (*relay.TaskRelay, json.RawMessage, error)) {
	t.Helper()
	taken, _, err := call("s/asks", transport.Request{AsTask: true})
	require.Equal(t, transport.ErrTask, err)
	if version == legacy {
		handlers := &relay.Handlers{Raw: func(_ context.Context, q relay.ServerRequest) (json.RawMessage, error) {
			require.Equal(t, "elicitation/create", q.Method)
			return json.RawMessage(`{"action":"accept","content":{"yes":true}}`), nil
		}}
		result, err := r.Request(within(t), transport.Request{Method: "tasks/result", Target: taken.ID}, relay.WithHandlers(handlers))
		require.NoError(t, err)
		require.Contains(t, string(result), "executions")
	} else {
		answer, err := r.Request(within(t), transport.Request{Method: "tasks/get", Target: taken.ID})
		require.NoError(t, err)
		require.Contains(t, string(answer), "input_required")
		_, err = r.Request(within(t), transport.Request{Method: "tasks/update", Target: taken.ID,
			Params: json.RawMessage(`{"taskId":"x","inputResponses":{"ok":{"action":"accept","content":{"yes":true}}}}`)})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			answer, err = r.Request(within(t), transport.Request{Method: "tasks/get", Target: taken.ID})
			return err == nil && strings.Contains(string(answer), "completed")
		}, 20*time.Second, time.Millisecond)
	}
	taken, _, err = call("s/asks", transport.Request{AsTask: true})
	require.Equal(t, transport.ErrTask, err)
	_, err = r.Request(within(t), transport.Request{Method: "tasks/cancel", Target: taken.ID})
	require.NoError(t, err)
	answer, err := r.Request(within(t), transport.Request{Method: "tasks/get", Target: taken.ID})
	require.NoError(t, err)
	require.Contains(t, string(answer), "cancelled")
}

// TestOwner_many: nodes that come and go leave nothing behind, and no node loses a subscription.
func TestOwner_many(t *testing.T) {
	f := newFleet(t, mcptest.Script{Versions: []string{legacy}})
	stays := f.read("stays")
	const text = "mcptest://text"
	require.NoError(t, stays.request(t, "resources/subscribe", text, `{}`))
	var wg sync.WaitGroup
	for i := range 8 {
		c := f.client(fmt.Sprint("n", i))
		wg.Go(func() {
			for range 10 {
				r := NewReader(c, "s", 1, nil, func(transport.Notice) {})
				ctx, leave := context.WithCancel(within(t))
				left := make(chan error, 1)
				go func() { left <- r.Follow(ctx) }()
				if _, err := r.Request(within(t), transport.Request{Method: "resources/subscribe", Target: text}); err != nil {
					t.Error(err)
				}
				leave()
				<-left
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		f.owner.mu.Lock()
		defer f.owner.mu.Unlock()
		at := f.owner.servers["s"]
		return len(at.nodes) == 1 && at.leaving == 0
	}, 20*time.Second, time.Millisecond)
	f.touch(text, "end")
	require.Equal(t, []string{text}, stays.until(t, "end"))
}
