package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// localFacade is the facade of node b, with a server "s".
func localFacade(t testing.TB, script mcptest.Script) relay.Relay {
	t.Helper()
	local, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Close(context.Background())) })
	require.NoError(t, local.Register(within(t), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}))
	return relay.Of(local)
}

// TestRoute_as_local: a call over a route has the result, or the error, that it has on the node
// itself.
func TestRoute_as_local(t *testing.T) {
	local := localFacade(t, mcptest.Script{})
	route := pair(t, local).Route("s", 1)
	ctx := within(t)
	for name, do := range map[string]func(c Caller) (json.RawMessage, error){
		"tool": func(c Caller) (json.RawMessage, error) { return c.CallToolRaw(ctx, "s/echo", []byte(`{"text":"x"}`)) },
		"alias": func(c Caller) (json.RawMessage, error) {
			return c.CallToolRaw(ctx, "mcp__s__echo", []byte(`{"text":"x"}`))
		},
		"tool fails":    func(c Caller) (json.RawMessage, error) { return c.CallToolRaw(ctx, "s/fail", []byte(`{"text":"x"}`)) },
		"unknown tool":  func(c Caller) (json.RawMessage, error) { return c.CallToolRaw(ctx, "s/ech", nil) },
		"no arguments":  func(c Caller) (json.RawMessage, error) { return c.CallToolRaw(ctx, "s/echo", nil) },
		"bad arguments": func(c Caller) (json.RawMessage, error) { return c.CallToolRaw(ctx, "s/echo", []byte(`[`)) },
		"read":          func(c Caller) (json.RawMessage, error) { return c.ReadResourceRaw(ctx, "s", "mcptest:///greeting") },
		"read unknown":  func(c Caller) (json.RawMessage, error) { return c.ReadResourceRaw(ctx, "s", "nowhere:///") },
		"prompt": func(c Caller) (json.RawMessage, error) {
			return c.GetPromptRaw(ctx, "s/greet", map[string]string{"name": "x"})
		},
		"prompt unknown": func(c Caller) (json.RawMessage, error) { return c.GetPromptRaw(ctx, "s/none", nil) },
		"complete": func(c Caller) (json.RawMessage, error) {
			return c.CompleteRaw(ctx, "s", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "a"})
		},
		"complete nothing": func(c Caller) (json.RawMessage, error) { return c.CompleteRaw(ctx, "s", facade.CompletionRequest{}) },
		"timeout": func(c Caller) (json.RawMessage, error) {
			return c.CallToolRaw(ctx, "s/hang", nil, facade.WithTimeout(50*time.Millisecond))
		},
		"bad option": func(c Caller) (json.RawMessage, error) {
			return c.CallToolRaw(ctx, "s/echo", nil, facade.WithMeta([]byte(`3`)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, wantErr := do(local)
			got, err := do(route)
			require.Equal(t, string(want), string(got))
			if wantErr == nil {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, wantErr.Error())
			var e, wantE *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.ErrorAs(t, wantErr, &wantE)
			require.Equal(t, []any{wantE.Kind, wantE.Outcome, wantE.Hint, wantE.Server, wantE.RetryAfter}, []any{e.Kind, e.Outcome, e.Hint, e.Server, e.RetryAfter})
			var rpc, wantRPC *jsonrpc.Error
			if errors.As(wantErr, &wantRPC) {
				require.ErrorAs(t, err, &rpc)
				require.Equal(t, wantRPC, rpc)
			}
		})
	}
}

// TestRoute_crash: the cause of a crash arrives with its evidence.
func TestRoute_crash(t *testing.T) {
	route := pair(t, localFacade(t, mcptest.Script{})).Route("s", 1)
	_, err := route.CallToolRaw(within(t), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	var cause *supervisor.Cause
	require.ErrorAs(t, err, &cause)
	require.Equal(t, supervisor.CauseExit, cause.Kind)
	_, err = route.CallToolRaw(within(t), "s/echo", []byte(`{"text":"x"}`), facade.WithWaitReady())
	require.NoError(t, err)
}

// TestRoute_progress: all reports come in order, in the goroutine of the call, before it returns;
// log messages, too.
func TestRoute_progress(t *testing.T) {
	route := pair(t, localFacade(t, mcptest.Script{})).Route("s", 1)
	var seen []float64
	_, err := route.CallToolRaw(within(t), "s/slow_progress", []byte(`{"steps":20,"ms":1}`), facade.WithProgress(func(p mcpvisor.Progress) { seen = append(seen, p.Progress) }))
	require.NoError(t, err)
	require.Len(t, seen, 20)
	require.IsIncreasing(t, seen)

	var logged []string
	_, err = route.CallToolRaw(within(t), "s/log", []byte(`{"level":"error","text":"hello"}`), facade.WithLogMessages("info", func(m mcpvisor.LogMessage) { logged = append(logged, m.Text) }))
	require.NoError(t, err)
	require.Equal(t, []string{"hello"}, logged)
}

// TestRoute_panic: a function of the caller that panics costs its call, and the call is cancelled.
func TestRoute_panic(t *testing.T) {
	canceled := make(chan struct{})
	route := pair(t, localFunc(func(ctx context.Context, _ string, _ []byte, opts []facade.CallOption) (json.RawMessage, error) {
		settings, err := relay.SettingsOf(relay.CallSettings{}, opts...)
		if err != nil {
			return nil, err
		}
		settings.Progress(mcpvisor.Progress{Progress: 1})
		<-ctx.Done()
		close(canceled)
		return nil, ctx.Err()
	})).Route("s", 1)
	require.Panics(t, func() {
		_, _ = route.CallToolRaw(within(t), "s/x", nil, facade.WithProgress(func(mcpvisor.Progress) { panic("of the caller") }))
	})
	<-canceled
}

// TestRoute_questions: the handlers of the call answer on the node of the caller, typed ones and
// raw ones; those of other calls are not asked.
func TestRoute_questions(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			local, err := facade.New(facade.WithDeclared(facade.Declared{Sampling: true, Elicitation: true, Roots: true}))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, local.Close(context.Background())) })
			require.NoError(t, local.Register(within(t), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{version}})}))
			client := pair(t, relay.Of(local))
			route := client.Route("s", 1)
			tool, args := "s/ask", `{"method":"roots/list"}`
			if version == "2026-07-28" {
				tool, args = "s/consult", `{"rounds":1,"method":"roots/list"}`
			}
			roots := func(uri string) *facade.CallHandlers {
				return &facade.CallHandlers{Roots: func(_ context.Context, server string) ([]mcp.Root, error) {
					require.Equal(t, "s", server)
					return []mcp.Root{{URI: uri}}, nil
				}}
			}
			result, err := route.CallToolRaw(within(t), tool, []byte(args), facade.WithCallHandlers(roots("file:///one")))
			require.NoError(t, err)
			require.Contains(t, string(result), "file:///one")

			raw := &relay.Handlers{Raw: func(_ context.Context, r relay.ServerRequest) (json.RawMessage, error) {
				require.Equal(t, []string{"s", "roots/list"}, []string{r.Server, r.Method})
				return json.RawMessage(`{"roots":[{"uri":"file:///raw"}]}`), nil
			}}
			var wg sync.WaitGroup
			for range 5 { // with one *CallHandlers they are one caller
				wg.Go(func() {
					result, err := route.CallToolRaw(within(t), tool, []byte(args), relay.WithHandlers(raw))
					if err != nil || !strings.Contains(string(result), "file:///raw") {
						t.Errorf("%s, %v", result, err)
					}
				})
			}
			wg.Wait()

			refusing := &relay.Handlers{Raw: func(context.Context, relay.ServerRequest) (json.RawMessage, error) {
				return nil, &jsonrpc.Error{Code: -32099, Message: "not today"}
			}}
			result, err = route.CallToolRaw(within(t), tool, []byte(args), relay.WithHandlers(refusing))
			require.Contains(t, fmt.Sprint(string(result), err), "not today")
			for _, l := range []*link{client.link.Load()} {
				require.Empty(t, l.answerers)
			}
		})
	}
}

// TestRoute_relay: the rounds of a call pass as they are.
func TestRoute_relay(t *testing.T) {
	local, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Close(context.Background())) })
	require.NoError(t, local.Register(within(t), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{Versions: []string{"2026-07-28"}})}))
	route := pair(t, relay.Of(local)).Route("s", 1)
	meta := facade.WithMeta([]byte(`{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`))
	result, err := route.CallToolRaw(within(t), "s/consult", []byte(`{"rounds":1,"method":"roots/list"}`), relay.WithRelay(relay.Continuation{}), meta)
	require.NoError(t, err)
	required, ok := relay.ReadInputRequired(result)
	require.True(t, ok, "%s", result)
	var requests map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(required.InputRequests, &requests))
	responses := map[string]any{}
	for key := range requests {
		responses[key] = map[string]any{"roots": []any{map[string]any{"uri": "file:///relayed"}}}
	}
	answers, err := json.Marshal(responses)
	require.NoError(t, err)
	result, err = route.CallToolRaw(within(t), "s/consult", []byte(`{"rounds":1,"method":"roots/list"}`), meta,
		relay.WithRelay(relay.Continuation{InputResponses: answers, RequestState: required.RequestState}))
	require.NoError(t, err)
	require.Contains(t, string(result), "file:///relayed")
}

// TestRoute_sizes: arguments and results of any size arrive as they were, at the edges of a chunk,
// too, and many at once.
func TestRoute_sizes(t *testing.T) {
	route := pair(t, echo).Route("s", 1)
	random := rand.NewChaCha8([32]byte{})
	sizes := []int{0, 1, 100, framing.MaxChunk - 100, framing.MaxChunk - 1, framing.MaxChunk, framing.MaxChunk + 1, 2 * framing.MaxChunk, 3*framing.MaxChunk + 1, 1 << 20, 20 << 20}
	var wg sync.WaitGroup
	for round := range 3 {
		for _, size := range sizes {
			if size > 10<<20 && round > 0 {
				continue // under the race detector it takes seconds
			}
			body := make([]byte, size)
			_, _ = random.Read(body)
			wg.Go(func() {
				got, err := route.CallToolRaw(within(t), "s/x", body)
				if err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes: %d, %v", size, len(got), err)
				}
			})
		}
	}
	wg.Wait()
}

// TestRoute_epoch: the node that executes decides about the epoch and its lease.
func TestRoute_epoch(t *testing.T) {
	a := newAuthority(t)
	var lease atomic.Bool
	lease.Store(true)
	executed := atomic.Int64{}
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Check: func(server string, epoch uint64) error {
		switch {
		case server != "s" || epoch != 7:
			return ErrMoved
		case !lease.Load():
			return ErrLeaseOver
		}
		return nil
	}, Local: localFunc(func(context.Context, string, []byte, []facade.CallOption) (json.RawMessage, error) {
		executed.Add(1)
		return json.RawMessage("{}"), nil
	})})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	check := func(route Route, want error) {
		t.Helper()
		_, err := route.CallToolRaw(within(t), "s/x", nil)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.Positive(t, e.RetryAfter)
	}
	_, err := c.Route("s", 7).CallToolRaw(within(t), "s/x", nil)
	require.NoError(t, err)
	check(c.Route("s", 6), ErrMoved)
	check(c.Route("other", 7), ErrMoved)
	lease.Store(false)
	check(c.Route("s", 7), ErrLeaseOver)
	require.EqualValues(t, 1, executed.Load())
}

// TestRoute_deadline: the deadline of the caller holds on the other node, and its cancellation
// reaches it.
func TestRoute_deadline(t *testing.T) {
	began, ended := make(chan time.Time, 1), make(chan error, 1)
	route := pair(t, localFunc(func(ctx context.Context, _ string, _ []byte, _ []facade.CallOption) (json.RawMessage, error) {
		deadline, _ := ctx.Deadline()
		began <- deadline
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})).Route("s", 1)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		_, err := route.CallToolRaw(ctx, "s/x", nil)
		result <- err
	}()
	require.Zero(t, <-began)
	cancel()
	err := <-result
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.ErrorIs(t, err, context.Canceled)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.ErrorIs(t, <-ended, context.Canceled)

	short, cancelShort := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancelShort()
	_, err = route.CallToolRaw(short, "s/x", nil)
	require.Error(t, err)
	require.WithinDuration(t, time.Now(), <-began, 10*time.Second)
	require.Error(t, <-ended)

	over, cancelOver := context.WithCancel(context.Background())
	cancelOver()
	_, err = route.CallToolRaw(over, "s/x", nil)
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
}

// TestRoute_late_answer: a call whose answer has begun to arrive when it is over still gets it.
func TestRoute_late_answer(t *testing.T) {
	a := newAuthority(t)
	send := make(chan struct{})
	chunk := make([]byte, framing.MaxChunk)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
		s.send(welcome("b"))
		if f, err := s.receive(messageCall); err == nil {
			s.send(begins(1, messageResult, f.call, 2*framing.MaxChunk, chunk))
			<-send
			s.send(more(1, chunk))
		}
	})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	over := make(chan struct{})
	type answer struct {
		result json.RawMessage
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		result, err := c.Route("s", 1).Within(over, time.Time{}).CallToolRaw(within(t), "s/x", nil)
		got <- answer{result, err}
	}()
	require.Eventually(t, func() bool { return answering(c) }, time.Minute, time.Millisecond)
	close(over)
	select {
	case early := <-got:
		t.Fatal("the call did not wait: ", early.err)
	case <-time.After(50 * time.Millisecond):
	}
	close(send)
	last := <-got
	require.NoError(t, last.err)
	require.Len(t, last.result, 2*framing.MaxChunk)
}

// TestRoute_node_gone: calls in flight have an unknown outcome, new ones are not sent, and the
// client finds the node again.
func TestRoute_node_gone(t *testing.T) {
	a := newAuthority(t)
	began := make(chan struct{})
	config := ServerConfig{Identity: identity(t, a, "b"), Check: always, Local: localFunc(func(ctx context.Context, _ string, args []byte, _ []facade.CallOption) (json.RawMessage, error) {
		if len(args) > 0 {
			return args, nil
		}
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	})}
	first, err := NewServer(config)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 2)
	go func() { served <- first.Serve(l) }()
	changes := make(chan bool, 10)
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: l.Addr().String(), OnChange: func(up bool, _ error) { changes <- up }})
	route := c.Route("s", 1)
	result := make(chan error, 1)
	go func() {
		_, err := route.CallToolRaw(context.Background(), "s/x", nil)
		result <- err
	}()
	<-began
	require.True(t, <-changes)
	first.Close()
	require.NoError(t, <-served)
	err = <-result
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.False(t, <-changes)
	_, err = route.CallToolRaw(context.Background(), "s/x", []byte("1"))
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorAs(t, err, &e)
	require.True(t, e.Retryable())

	second, err := NewServer(config)
	require.NoError(t, err)
	l, err = net.Listen("tcp", l.Addr().String())
	require.NoError(t, err)
	go func() { served <- second.Serve(l) }()
	require.NoError(t, c.WaitReachable(within(t)))
	_, err = route.CallToolRaw(context.Background(), "s/x", []byte("1"))
	require.NoError(t, err)
	c.Close()
	second.Close()
	require.NoError(t, <-served)
	_, err = route.CallToolRaw(context.Background(), "s/x", []byte("1"))
	require.ErrorContains(t, err, "closed")
}

// TestRoute_result_room: a large result holds its room in the buffers of the facade until it is
// sent, and not longer.
func TestRoute_result_room(t *testing.T) {
	const size = 200 << 10
	local, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Close(context.Background())) })
	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	require.NoError(t, local.Register(within(t), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}, Limits: mcpvisor.Limits{MaxBufferBytes: 3 * size / 2}}))
	args := []byte(fmt.Sprintf(`{"bytes":%d}`, size))
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: relay.Of(local)})
	route := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address}).Route("s", 1)
	for range 5 {
		_, err := route.CallToolRaw(within(t), "s/big", args)
		require.NoError(t, err)
	}

	slow := dialRaw(t, identity(t, a, "a"), address)
	big := call{method: methodTool, server: "s", target: "s/big", args: args}
	slow.send(greeting("a"))
	for number := range uint64(2) { // one after the other, since only one that is half read may exceed the room
		slow.send(whole(messageCall, number+1, big.append(nil)))
		_, err := slow.receive(messageResult) // it begins, and gets no credit
		require.NoError(t, err)
	}
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = local.CallToolRaw(short, "s/big", args)
	require.ErrorIs(t, err, mcpvisor.ErrCanceled, "there is room for a third result")
	slow.send([]byte{0}) // the stream ends
	_, err = local.CallToolRaw(within(t), "s/big", args)
	require.NoError(t, err)
}

// TestCall: a call is the same after its travel; a field that is forgotten fails.
func TestCall(t *testing.T) {
	settings, err := relay.SettingsOf(relay.CallSettings{}, facade.WithTimeout(-time.Second), facade.WithWaitReady(), facade.WithoutValidation(), facade.WithMeta([]byte(`{"a":1}`)),
		facade.WithLogMessages("info", nil), relay.WithRelay(relay.Continuation{InputResponses: []byte("{}"), RequestState: []byte(`"s"`)}), relay.WithKeyOf("alice", "k"), relay.WithPrincipal("bob"), relay.WithClientName("c"),
		relay.WithTaskRelay(&relay.TaskRelay{TTL: time.Minute}), relay.WithoutTasks())
	require.NoError(t, err)
	v := reflect.ValueOf(settings)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Progress", "LogMessages", "Handlers": // travel as flags
		default:
			require.False(t, v.Field(i).IsZero(), "%s is not tested", name)
		}
	}
	want := call{method: methodPrompt, server: "s", epoch: 7, left: time.Second, target: "s/p", args: []byte("{}"), settings: settings, progress: true, logs: true,
		answerer: 9, answers: transport.Offer{Sample: true, SampleTools: true, ElicitForm: true, ElicitURL: true, Roots: true}, all: true}
	got, err := readCall(want.append(nil))
	require.NoError(t, err)
	require.Equal(t, want, got)

	// A call without tasks is as in version 1, which reads what follows as arguments.
	want = call{method: methodTool, server: "s", target: "s/x", args: []byte("{}")}
	require.Equal(t, append([]byte{1, 1, 's', 0, 0, 3, 's', '/', 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0}, "{}"...), want.append(nil))
}
