package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// answeredRequest is a call of a listed tool that took a millisecond.
func answeredRequest(server, tool string) monitor.RequestEnd {
	return monitor.RequestEnd{RequestStart: monitor.RequestStart{Server: server, Method: "tools/call", Target: tool, Listed: true,
		Protocol: "2025-11-25"}, Took: time.Millisecond, Outcome: mcpvisor.OutcomeAnswered}
}

// 5,000 tools of a real server leave 1,000 series and one for the rest.
func TestOperations_many_tools(t *testing.T) {
	const tools = 5000
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}}, ExtraTools: tools}))
	listed := f.client.Tools()
	require.Len(t, listed, tools+1)
	for _, tool := range listed[:tools] {
		_, err := f.client.CallToolRaw(t.Context(), tool.Name, json.RawMessage(`{}`))
		require.NoError(t, err)
	}
	calls := f.series(nameClientOperation, keyMethod.String("tools/call"))
	require.Len(t, calls, maxTools+1)
	require.EqualValues(t, tools, f.sum(nameClientOperation, keyMethod.String("tools/call")), "each call is in a series")
	require.EqualValues(t, tools-maxTools, f.sum(nameClientOperation, keyTool.String(monitor.OtherTools)))
}

// Neither tools that fail in many ways nor servers without number exceed the bound of the
// SDK.
func TestOperations_bounds(t *testing.T) {
	f := newFixture(t)
	for tool := range 300 {
		for _, kind := range mcpvisor.ErrorKinds() {
			r := answeredRequest("s", fmt.Sprint("tool", tool))
			r.Err = &mcpvisor.Error{Kind: kind}
			f.observe(r)
		}
	}
	require.LessOrEqual(t, len(f.series(nameClientOperation)), maxToolSeries+len(mcpvisor.ErrorKinds()))
	for server := range 3000 {
		f.observe(answeredRequest(fmt.Sprint("server", server), "echo"))
	}
	all := f.series(nameClientOperation)
	require.LessOrEqual(t, len(all), 2000)
	require.Greater(t, len(all), maxSeries)
	require.EqualValues(t, 3000+300*len(mcpvisor.ErrorKinds()), f.sum(nameClientOperation), "each request is in a series")
}

// Only names that a server lists are reported: others come from a language model.
func TestOperations_names_that_are_not_listed(t *testing.T) {
	f := newFixture(t)
	r := answeredRequest("s", "invented")
	r.Listed = false
	f.observe(r)
	r = answeredRequest("s", "mcptest://text")
	r.Method = "resources/read"
	f.observe(r)
	r = answeredRequest("s", "")
	r.Method, r.Incoming = "invented/method", true
	f.observe(r)
	for _, p := range append(f.series(nameClientOperation), f.series(nameServerOperation)...) {
		require.Empty(t, p.text(keyTool)+p.text(keyPrompt))
		require.NotContains(t, p.attributes.Encoded(attribute.DefaultEncoder()), "invented")
	}
}

// A request that was refused has no duration: it would pull the median to 0.
func TestOperations_refused(t *testing.T) {
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{}))
	_, err := f.client.CallTool(t.Context(), "s/nothing", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	require.Empty(t, f.series(nameClientOperation, keyMethod.String("tools/call")))
	require.EqualValues(t, 1, f.sum(nameRefused, keyErrorType.String("unknown_tool"), keyServer.String("s")))
}

func TestOperations_error_types(t *testing.T) {
	rpc := func(code int64) *mcpvisor.Error {
		return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Cause: &jsonrpc.Error{Code: code, Message: "secret"}}
	}
	for want, r := range map[string]monitor.RequestEnd{
		"":           {},
		"tool_error": {ToolError: true},
		"-32602":     {Err: rpc(-32602)},
		"_OTHER":     {Err: rpc(-31999)},
		"rpc":        {Err: &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Cause: errors.New("no code")}},
		"crashed":    {Err: &mcpvisor.Error{Kind: mcpvisor.ErrCrashed}},
	} {
		require.Equal(t, want, errorType(&r))
	}
}

// Many goroutines meet new series at a time.
func TestOperations_concurrent(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for tool := range 200 {
				f.observe(answeredRequest("s", fmt.Sprint(tool)))
			}
		})
	}
	wg.Wait()
	require.Len(t, f.series(nameClientOperation), 200)
	require.EqualValues(t, 1600, f.sum(nameClientOperation))
}

// A late answer is counted, and the count outlives the session.
func TestDiscarded_late_answer(t *testing.T) {
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{Faults: []mcptest.Fault{
		{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionMalformed, Text: "duplicate"},
	}}))
	_, err := f.client.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	unmatched := func() int64 { return f.sum(nameDiscarded, keyDiscarded.String("unmatched")) }
	eventually(t, func() bool { return unmatched() == 1 })
	require.NoError(t, f.client.Restart(t.Context(), "s"))
	require.NoError(t, f.client.WaitReady(t.Context(), "s"))
	require.EqualValues(t, 1, unmatched())
	require.EqualValues(t, 1, f.sum(nameDiscarded), "no other series moves")
}

// A client that was attached late, or whose telemetry is closed at once after it, has all
// ends of its sessions.
func TestClose_counts_the_last_events(t *testing.T) {
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{}))
	require.NoError(t, f.client.Close(context.Background()))
	require.NoError(t, f.tel.Close())
	f.requireEnds("requested")
	require.Empty(t, f.series(nameState), "Close ends what is observed")
}

// durationsOf counts the durations that a reader collects, and their exemplars.
func durationsOf(t *testing.T, reader sdkmetric.Reader) (durations, exemplars int) {
	t.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &collected))
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == nameClientOperation {
				for _, point := range h.DataPoints {
					durations += int(point.Count)
					exemplars += len(point.Exemplars)
				}
			}
		}
	}
	return durations, exemplars
}

// newDurations returns a reader, and a function that ends an answered request.
func newDurations(t *testing.T) (*Telemetry, sdkmetric.Reader, func(context.Context)) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	tel, err := newTelemetry(WithoutSpans(), WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	r := answeredRequest("s", "echo")
	return tel, reader, func(ctx context.Context) { tel.observer(nil).RequestEnded(ctx, r) }
}

// A collection has every request that ended before it, and so has one after Close.
func TestDurations_collected(t *testing.T) {
	tel, reader, end := newDurations(t)
	for n := range 10 {
		if n == 5 {
			require.NoError(t, tel.Close())
		}
		end(context.Background())
		got, _ := durationsOf(t, reader)
		require.Equal(t, n+1, got)
	}
	require.NoError(t, tel.Close())
}

func TestDurations_sampled_span_becomes_an_exemplar(t *testing.T) {
	_, reader, end := newDurations(t)
	end(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})))
	end(context.Background())
	got, exemplars := durationsOf(t, reader)
	require.Equal(t, []int{2, 1}, []int{got, exemplars})
}

// Each kind of cause, driven by a fault, moves its own series of mcpvisor.server.ends by
// one, and no other.
func TestEnds_of_each_cause(t *testing.T) {
	fault := func(at mcptest.Stage, do mcptest.Action) mcptest.Script {
		return mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{{At: at, Do: do}}}
	}
	process := func(script mcptest.Script) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Era: mcpvisor.EraLegacy}
	}
	inMemory := func(script mcptest.Script) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script), Era: mcpvisor.EraLegacy}
	}
	rows := map[supervisor.CauseKind]struct {
		spec func(t *testing.T) mcpvisor.ServerSpec
		// act leads to the end of a server that is ready. Without it the start fails.
		act func(f *fixture)
	}{
		supervisor.CauseSpawn: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: "http://127.0.0.1:1/mcp"}}
		}},
		supervisor.CauseConfig: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "s", Stdio: &mcpvisor.Stdio{Command: "no-such-command-of-mcpvisor"}}
		}},
		supervisor.CauseHandshake: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return inMemory(fault(mcptest.StageInitialize, mcptest.ActionError))
		}},
		supervisor.CauseVersion: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return inMemory(fault(mcptest.StageInitialize, mcptest.ActionRefuseVersion))
		}},
		supervisor.CauseAuth: {spec: func(t *testing.T) mcpvisor.ServerSpec {
			web := mcptest.NewHTTP(mcptest.Script{})
			t.Cleanup(web.Close)
			web.Refuse(401, 401, 401, 401, 401, 401)
			return mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}}
		}},
		supervisor.CauseProtocol: {spec: func(*testing.T) mcpvisor.ServerSpec {
			return inMemory(fault(mcptest.StageList, mcptest.ActionError)) // all four
		}},
		supervisor.CauseTimeout: {spec: func(*testing.T) mcpvisor.ServerSpec {
			spec := inMemory(fault(mcptest.StageInitialize, mcptest.ActionHang))
			spec.Timeouts.Start = 50 * time.Millisecond
			return spec
		}},
		supervisor.CauseExit: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return process(fault(mcptest.StageCall, mcptest.ActionExit)) },
			act:  func(f *fixture) { f.callFails() },
		},
		supervisor.CauseSignal: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return process(fault(mcptest.StageCall, mcptest.ActionDie)) },
			act:  func(f *fixture) { f.callFails() },
		},
		supervisor.CauseClosed: {
			spec: func(*testing.T) mcpvisor.ServerSpec {
				return process(fault(mcptest.StageCall, mcptest.ActionCloseStdout))
			},
			act: func(f *fixture) { f.callFails() },
		},
		supervisor.CauseProbe: {spec: func(*testing.T) mcpvisor.ServerSpec {
			spec := inMemory(fault(mcptest.StagePing, mcptest.ActionHangAll))
			spec.Probe = mcpvisor.Probe{Interval: 20 * time.Millisecond, Timeout: 50 * time.Millisecond, Failures: 1}
			return spec
		}, act: func(*fixture) {}},
		supervisor.CauseRequested: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act:  func(f *fixture) { require.NoError(f.t, f.client.Unregister(f.t.Context(), "s")) },
		},
		supervisor.CauseRestart: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act:  func(f *fixture) { require.NoError(f.t, f.client.Restart(f.t.Context(), "s")) },
		},
		supervisor.CauseMoved: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act: func(f *fixture) {
				require.NoError(f.t, relay.Of(f.client).RestartFor(f.t.Context(), "s", &supervisor.Cause{Kind: supervisor.CauseMoved}))
			},
		},
		supervisor.CauseFenced: {
			spec: func(*testing.T) mcpvisor.ServerSpec { return inMemory(mcptest.Script{}) },
			act:  func(f *fixture) { require.NoError(f.t, f.client.Fence(f.t.Context(), "s", "")) },
		},
	}
	for _, kind := range causeKinds {
		row, driven := rows[kind]
		if kind == supervisor.CausePanic {
			require.False(t, driven)
			continue // no known fault leads to one; TestEnds_of_a_panic
		}
		require.True(t, driven, "no fault drives cause %s", kind)
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t)
			spec := row.spec(t)
			spec.StartSupervised = row.act == nil
			f.register(spec)
			if row.act != nil {
				row.act(f)
			}
			eventually(t, func() bool { return f.sum(nameEnds) > 0 })
			f.requireEnds(kind)
			// The status counts an incarnation when it is released, which is after the event.
			var ends map[supervisor.CauseKind]int64
			eventually(t, func() bool {
				s, ok := f.client.ServerStatus("s")
				ends = s.Totals.Ends
				return !ok || len(ends) > 0
			})
			if len(ends) > 0 {
				require.Equal(t, map[supervisor.CauseKind]int64{kind: 1}, ends, "the status agrees")
			}
			failed := !(&supervisor.Cause{Kind: kind}).Asked()
			if row.act == nil {
				require.EqualValues(t, 1, f.sum(nameStart, keyErrorType.String(string(kind))))
				require.Zero(t, f.sum(nameSession))
				return
			}
			require.NotZero(t, f.sum(nameStart))
			require.EqualValues(t, 1, f.sum(nameSession))
			require.Equal(t, failed, f.sum(nameSession, keyErrorType.String(string(kind))) == 1)
		})
	}
}

// callFails calls a tool of a server that ends with the call.
func (f *fixture) callFails() {
	_, err := f.client.CallTool(f.t.Context(), "s/echo", map[string]any{"text": "x"})
	require.Error(f.t, err)
}

// requireEnds fails unless one incarnation of server s has ended, by a cause of that kind.
func (f *fixture) requireEnds(kind supervisor.CauseKind) {
	f.t.Helper()
	all := f.series(nameEnds, keyServer.String("s"))
	require.Len(f.t, all, len(causeKinds), "each kind has a series, that it may have a rate")
	for _, p := range all {
		want := int64(0)
		if p.text(keyCause) == string(kind) {
			want = 1
		}
		require.Equal(f.t, want, p.value, "%s", p.text(keyCause))
	}
}

// The supervision of a server panics: the manager removes it.
func TestEnds_of_a_panic(t *testing.T) {
	f := newFixture(t)
	l := newLifecycle(f.tel.instruments)
	at := time.Now()
	for i, e := range []mcpvisor.Event{
		{Kind: mcpvisor.EventRegistered}, {Kind: mcpvisor.EventConnecting, Epoch: 1}, {Kind: mcpvisor.EventReady, Epoch: 1},
		{Kind: mcpvisor.EventUnregistered, Cause: &supervisor.Cause{Kind: supervisor.CausePanic}},
	} {
		e.Server, e.Gen, e.Time = "s", 1, at.Add(time.Duration(i)*time.Second)
		l.record(t.Context(), &e)
	}
	f.requireEnds(supervisor.CausePanic)
	require.EqualValues(t, 1, f.sum(nameSession, keyErrorType.String("panic")))
	require.Empty(t, l.servers)
}

// A restart that ends a start, a standby that is lost, and a removal without a session.
func TestEnds_without_events_of_their_own(t *testing.T) {
	f := newFixture(t)
	l := newLifecycle(f.tel.instruments)
	record := func(events ...mcpvisor.Event) {
		for _, e := range events {
			e.Server, e.Gen, e.Time = "s", 1, time.Now()
			l.record(t.Context(), &e)
		}
	}
	ends := func(kind supervisor.CauseKind) int64 { return f.sum(nameEnds, keyCause.String(string(kind))) }
	record(mcpvisor.Event{Kind: mcpvisor.EventConnecting}, mcpvisor.Event{Kind: mcpvisor.EventConnecting})
	require.EqualValues(t, 1, ends(supervisor.CauseRestart))
	record(mcpvisor.Event{Kind: mcpvisor.EventStandbyLost, Cause: &supervisor.Cause{Kind: supervisor.CauseExit}})
	require.EqualValues(t, 1, ends(supervisor.CauseExit))
	record(mcpvisor.Event{Kind: mcpvisor.EventStartFailed, Cause: &supervisor.Cause{Kind: supervisor.CauseSpawn}},
		mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Cause: &supervisor.Cause{Kind: supervisor.CauseRequested}})
	require.Zero(t, ends(supervisor.CauseRequested), "nothing ran when the server was removed")
	record(mcpvisor.Event{Kind: mcpvisor.EventConnecting}, mcpvisor.Event{Kind: mcpvisor.EventMissed}, mcpvisor.Event{Kind: mcpvisor.EventReady})
	require.Zero(t, f.sum(nameStart)-f.sum(nameStart, keyErrorType.String("spawn")), "a start of which events were missed has no duration")
}

// A rest, a stop and an end by a failed group end one incarnation each, as planned. The group itself is no server.
func TestEnds_as_planned(t *testing.T) {
	f := newFixture(t)
	l := newLifecycle(f.tel.instruments)
	planned := &supervisor.Cause{Kind: supervisor.CauseRequested}
	record := func(kinds ...mcpvisor.EventKind) {
		for _, kind := range kinds {
			e := mcpvisor.Event{Kind: kind, Server: "s", Gen: 1, Time: time.Now(), Cause: planned}
			l.record(t.Context(), &e)
		}
	}
	for i, kinds := range [][]mcpvisor.EventKind{
		{mcpvisor.EventConnecting, mcpvisor.EventReady, mcpvisor.EventAsleep},
		{mcpvisor.EventConnecting, mcpvisor.EventReady, mcpvisor.EventDown, mcpvisor.EventStopped},
		{mcpvisor.EventConnecting, mcpvisor.EventStopped},
		{mcpvisor.EventConnecting, mcpvisor.EventEvicted},
	} {
		record(kinds...)
		require.EqualValues(t, i+1, f.sum(nameEnds), kinds)
		require.EqualValues(t, i+1, f.sum(nameEnds, keyCause.String("requested")), kinds)
	}
	require.EqualValues(t, 2, f.sum(nameSession))
	before := len(f.series(nameEnds))
	l.record(t.Context(), &mcpvisor.Event{Kind: mcpvisor.EventGroupFailed, Server: "web", Cause: planned})
	require.Len(t, f.series(nameEnds), before)
	require.NotContains(t, l.servers, "web")
}

// A standby that is withdrawn with its server is an end of its own. One that takes over is
// not.
func TestEnds_withdrawnStandby(t *testing.T) {
	for name, row := range map[string]struct {
		act  func(f *fixture)
		want map[supervisor.CauseKind]int64
	}{
		"unregister": {func(f *fixture) { require.NoError(f.t, f.client.Unregister(f.t.Context(), "s")) }, map[supervisor.CauseKind]int64{supervisor.CauseRequested: 2}},
		"restart":    {func(f *fixture) { require.NoError(f.t, f.client.Restart(f.t.Context(), "s")) }, map[supervisor.CauseKind]int64{supervisor.CauseRestart: 2}},
		"crash":      {func(f *fixture) { f.callFails() }, map[supervisor.CauseKind]int64{supervisor.CauseExit: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			script := mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionExit}}}
			f.register(mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Era: mcpvisor.EraLegacy, Standby: true,
				Policy: supervisor.Retry(5, time.Millisecond)})
			eventually(t, func() bool {
				s, ok := f.client.ServerStatus("s")
				return ok && s.Standby != nil
			})
			row.act(f)
			for kind, n := range row.want {
				eventually(t, func() bool { return f.sum(nameEnds, keyCause.String(string(kind))) >= n })
				require.Equal(t, n, f.sum(nameEnds, keyCause.String(string(kind))))
			}
			if s, ok := f.client.ServerStatus("s"); ok {
				require.Equal(t, row.want, s.Totals.Ends, "the status agrees")
			}
		})
	}
}

// Two clients on one provider, with servers of the same name, have series of their own.
// Every metric has the attributes.
func TestWithAttributes(t *testing.T) {
	ctx := t.Context()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	const keyClient = attribute.Key("client")
	open := func(name string, policy supervisor.Policy) (*facade.Client, *Telemetry) {
		tel, err := newTelemetry(WithMeterProvider(provider), WithAttributes(keyClient.String(name)), WithAttributes(keyServer.String("not the server"), attribute.Int("shard", 7)))
		require.NoError(t, err)
		c, err := facade.New(facade.WithRoots(), facade.WithObserver(tel.observer(nil)))
		require.NoError(t, err)
		require.NoError(t, tel.attach(c))
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: policy}))
		return c, tel
	}
	one, telOne := open("one", supervisor.NoRetry())
	two, telTwo := open("two", supervisor.Retry(supervisor.Unlimited, time.Millisecond))
	events := one.Watch(ctx, mcpvisor.EventEvicted)
	for _, c := range []*facade.Client{one, two} {
		for _, call := range []struct{ tool, args string }{{"s/echo", `{}`}, {"s/ask", `{"method":"roots/list"}`}, {"s/add_tool", `{"name":"x"}`}, {"s/crash", `{}`}, {"none/x", `{}`}} {
			_, _ = c.CallToolRaw(ctx, call.tool, []byte(call.args))
		}
	}
	<-events
	require.NoError(t, two.WaitReady(ctx, "s"))
	f := &fixture{t: t, reader: reader}
	require.Equal(t, string(supervisor.StateEvicted), stateOf(t, f, keyClient.String("one")))
	require.Equal(t, string(supervisor.StateReady), stateOf(t, f, keyClient.String("two")))
	requireAttributes := func() {
		t.Helper()
		for name, metric := range f.metrics() {
			for _, p := range points(metric) {
				require.Contains(t, []string{"one", "two"}, p.text(keyClient), "%s %v", name, p.attributes)
				shard, _ := p.attributes.Value("shard")
				require.EqualValues(t, 7, shard.AsInt64(), name)
			}
		}
	}
	requireAttributes()
	for _, c := range []*facade.Client{one, two} {
		require.NoError(t, c.Close(ctx))
	}
	require.NoError(t, telOne.Close())
	require.NoError(t, telTwo.Close())
	requireAttributes() // and what is recorded at the end
	for name, ends := range map[string]int{"one": 1, "two": 2} {
		require.EqualValues(t, 1, f.sum(nameClientOperation, keyClient.String(name), keyTool.String("echo"), keyServer.String("s")))
		require.EqualValues(t, 1, f.sum(nameServerOperation, keyClient.String(name)))
		require.EqualValues(t, ends, f.sum(nameEnds, keyClient.String(name)))
	}
}

// stateOf returns the state of the only server with an attribute.
func stateOf(t *testing.T, f *fixture, of attribute.KeyValue) (state string) {
	t.Helper()
	for _, p := range f.series(nameState, of) {
		if p.value == 1 {
			require.Empty(t, state)
			state = p.text(keyState)
		}
	}
	return state
}
