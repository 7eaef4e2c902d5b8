//go:build linux

package integration

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/hostile/hostilehttp"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// httpRow is what a client must do with one misbehaviour over HTTP.
type httpRow struct {
	name  string
	label string // distinguishes rows of one misbehaviour
	eras  []mcpvisor.Era
	// start is the error of Register, and call that of the call of BadTool; nil means
	// success.
	start, call *wantError
	// text is what a successful call must return. Default: the text that it sent.
	text string
	// timeout is that of the call. Default: the one of the specification.
	timeout time.Duration
	// replaced: the session ends with the call, and another one serves afterwards.
	replaced bool
	// spec changes the specification of the server.
	spec func(*mcpvisor.ServerSpec)
	// act replaces the call and the check of the session after it. check runs after
	// either.
	act, check func(*httpRun)
	// memory bounds the bytes that the call may allocate; 0 means no bound.
	memory uint64
}

// wantError describes an error: its sentinel, its outcome, and a text that it contains.
type wantError struct {
	kind     error
	outcome  mcpvisor.Outcome
	contains string
}

// httpRun is one running row: a client with the hostile server and a healthy one.
type httpRun struct {
	*fixture
	row     httpRow
	c       *facade.Client
	events  *history
	server  *hostilehttp.Server
	healthy *hostilehttp.Server
	spec    mcpvisor.ServerSpec
	log     *testutil.LockedBuffer
	shown   []string // texts that a host may show or log
}

const (
	// secretToken is the credential of the client. No log, error, event or status may
	// contain it.
	secretToken = "canary-8c1f0e52d7"
	// httpMaxDelay is added to each bound for delays of the scheduler. It is still
	// shorter than the default timeouts.
	httpMaxDelay = 10 * time.Second
	// httpShutdownTimeout is the shutdown timeout of every server.
	httpShutdownTimeout = 300 * time.Millisecond
	// maxMessage is the message limit of the hostile server's specification.
	maxMessage = 1 << 20
	// maxErrorText is the longest text of an error.
	maxErrorText = 6_000
)

// TestHostileHTTP runs a client against each misbehaviour. Whatever the server does
// affects only itself: calls end within their timeouts, calls of another server
// succeed, and nothing is left at the end.
func TestHostileHTTP(t *testing.T) {
	for i, row := range httpRows() {
		if isLeftOut(i) || row.memory > maxAllocation && !runsAll() { // those take seconds
			continue
		}
		eras := row.eras
		m, ok := hostilehttp.MisbehaviourNamed(row.name)
		require.True(t, ok, "mcptest knows %s", row.name)
		if eras == nil {
			eras = m.Eras()
		}
		if below, _, _ := strings.Cut(row.name, "/"); below == "wire" || below == "head" {
			eras = eras[:1] // these misbehave below MCP, so the era does not matter
		}
		for _, era := range eras {
			name := row.name
			for _, part := range []string{row.label, string(era)} {
				if part != "" {
					name += "/" + part
				}
			}
			t.Run(name, func(t *testing.T) { row.run(t, m, era) })
		}
	}
}

// TestHostileHTTP_every_misbehaviour_has_a_row: a new misbehaviour needs an
// expectation.
func TestHostileHTTP_every_misbehaviour_has_a_row(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range httpRows() {
		rows[row.name] = true
	}
	for _, m := range hostilehttp.Misbehaviours() {
		require.True(t, rows[m.Name], "%s has no row; add one to the table of its place in hostile_http_*_test.go: %s", m.Name, m.About)
	}
	require.GreaterOrEqual(t, len(rows), 60)
}

func httpRows() []httpRow {
	return slices.Concat(httpStartRows, httpListRows, httpListenRows, httpStatusRows, httpBodyRows, httpWireRows, httpEventRows, httpSessionRows, httpProbeRows, sseRows, httpTaskRows)
}

func (r httpRow) run(t *testing.T, m hostilehttp.Misbehaviour, era mcpvisor.Era) {
	s := &httpRun{fixture: newFixture(t), row: r, server: m.Serve(), log: new(testutil.LockedBuffer)}
	t.Cleanup(s.server.Close)
	s.healthy = hostilehttp.Misbehaviours()[0].Serve()
	t.Cleanup(s.healthy.Close)
	s.c, s.events = s.client(append(answeringHandlers(), facade.WithValidation(), facade.WithLogger(zerolog.New(s.log)))...)
	require.NoError(t, s.c.Register(s.within(), mcpvisor.ServerSpec{Name: "near", HTTP: &mcpvisor.HTTP{URL: s.healthy.URL},
		Timeouts: mcpvisor.Timeouts{Shutdown: httpShutdownTimeout}}))
	calls := newNeighbour(s.c, "near")
	t.Cleanup(func() { calls.stop(); calls.done.Wait() })

	s.spec = mcpvisor.ServerSpec{Name: hostileServer, Era: era,
		HTTP: &mcpvisor.HTTP{URL: s.server.URL, Headers: map[string]string{"Authorization": "Bearer " + secretToken}},
		Timeouts: mcpvisor.Timeouts{Start: 30 * time.Second, Negotiate: time.Second, List: 30 * time.Second,
			Call: 20 * time.Second, Shutdown: httpShutdownTimeout},
		Limits: mcpvisor.Limits{MaxMessageBytes: maxMessage, MaxPages: 10},
		Policy: supervisor.Retry(3, 10*time.Millisecond), Probe: mcpvisor.Probe{Interval: -1}}
	if r.spec != nil {
		r.spec(&s.spec)
	}
	if s.register() {
		s.subscribeAll(s.c, hostileServer)
		s.runCall()
	}
	s.requireCleanEnd(calls)
}

// register registers the hostile server and reports whether it is ready.
func (s *httpRun) register() bool {
	s.t.Helper()
	began := time.Now()
	slow := time.AfterFunc(20*time.Second, func() { // a row that waits for its timeout ends sooner
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
	})
	err := s.c.Register(s.within(), s.spec)
	slow.Stop()
	s.requireWithin("register", began, s.spec.Timeouts.Start+s.spec.Timeouts.List)
	if s.row.start == nil {
		require.NoError(s.t, err)
		return true
	}
	s.requireError(err, s.row.start)
	require.NotContains(s.t, s.c.Servers(), hostileServer, "a server that failed to start is not registered")
	return false
}

// runCall makes the row's call and checks which session serves afterwards.
func (s *httpRun) runCall() {
	s.t.Helper()
	epoch := s.epoch()
	if s.row.act != nil {
		s.row.act(s)
	} else {
		s.callBadTool()
	}
	if s.row.check != nil {
		s.row.check(s)
	}
	if s.row.act == nil {
		if s.row.replaced {
			epoch++
		}
		s.requireServes(epoch)
	}
}

// callBadTool makes the call of the row and checks how it ends.
func (s *httpRun) callBadTool() {
	s.t.Helper()
	opts := []facade.CallOption{facade.WithProgress(func(mcpvisor.Progress) {})}
	bound := s.spec.Timeouts.Call
	if s.row.timeout > 0 {
		bound, opts = s.row.timeout, append(opts, facade.WithTimeout(s.row.timeout))
	}
	before, began := allocated(), time.Now()
	res, err := s.c.CallTool(s.within(), hostileServer+"/"+hostilehttp.BadTool, map[string]any{"text": "hello"}, opts...)
	s.requireWithin("the call", began, bound)
	if s.row.memory > 0 {
		require.Less(s.t, allocated()-before, s.row.memory, "bytes allocated by one call")
	}
	if s.row.call != nil {
		s.requireError(err, s.row.call)
		return
	}
	require.NoError(s.t, err)
	want := s.row.text
	if want == "" {
		want = "hello"
	}
	require.Equal(s.t, want, textOf(res))
}

// requireServes requires that the server answers a call in the incarnation of this
// epoch.
func (s *httpRun) requireServes(epoch uint64) {
	s.t.Helper()
	began := time.Now()
	res, err := s.c.CallTool(s.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "and again"}, facade.WithWaitReady())
	require.NoError(s.t, err)
	s.requireWithin("the next call", began, s.spec.Timeouts.Call)
	require.Equal(s.t, "and again", textOf(res))
	require.Equal(s.t, epoch, s.epoch(), "the epoch of the serving incarnation")
}

func (s *httpRun) epoch() uint64 {
	st, ok := s.c.ServerStatus(hostileServer)
	require.True(s.t, ok)
	return st.Epoch
}

// requireError compares an error with the expected one. See requirePresentable for what
// holds for every error.
func (s *httpRun) requireError(err error, want *wantError) {
	s.t.Helper()
	require.ErrorIs(s.t, err, want.kind)
	e := s.requirePresentable(err)
	require.Equal(s.t, want.outcome, e.Outcome, "%v", err)
	require.Contains(s.t, err.Error(), want.contains)
}

// requirePresentable requires that an error is an *mcpvisor.Error, short, on one line,
// and without secrets.
func (s *httpRun) requirePresentable(err error) *mcpvisor.Error {
	s.t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(s.t, err, &e)
	require.Less(s.t, len(err.Error()), maxErrorText, "the text of an error is bounded")
	require.NotContains(s.t, e.Op, secretToken)
	requireSmallCause(s.t, err)
	for _, r := range err.Error() {
		require.False(s.t, unicode.IsControl(r), "%q", err.Error())
	}
	for at := error(e); at != nil; at = errors.Unwrap(at) {
		s.shown = append(s.shown, at.Error())
	}
	raw, _ := json.Marshal(e) // some members may not marshal
	s.shown = append(s.shown, string(raw))
	return e
}

func (s *httpRun) requireWithin(what string, began time.Time, bound time.Duration) {
	s.t.Helper()
	require.Less(s.t, time.Since(began), bound+httpMaxDelay, "%s took too long", what)
}

// requireCleanEnd closes the client and requires that nothing is left and no secret was
// shown.
func (s *httpRun) requireCleanEnd(calls *neighbour) {
	s.t.Helper()
	calls.requireUndisturbed(s.t)
	if st, ok := s.c.ServerStatus(hostileServer); ok {
		text, err := json.Marshal(st)
		require.NoError(s.t, err)
		s.shown = append(s.shown, string(text))
	}
	began := time.Now()
	s.close(s.c)
	s.requireWithin("close", began, 2*httpShutdownTimeout)
	<-s.events.ended
	for _, e := range s.events.all() {
		text, err := json.Marshal(e)
		require.NoError(s.t, err)
		s.shown = append(s.shown, string(text))
	}
	for _, text := range append(s.shown, s.log.String()) {
		require.NotContains(s.t, text, secretToken)
	}
	waitUntil(s.within(), s.t, "the connections to the servers are closed", func() bool {
		return s.server.Connections()+s.healthy.Connections() == 0
	})
	require.Zero(s.t, s.server.CrossOriginRequests(), "no redirect to another origin is followed")
	require.Equal(s.t, []string{"Bearer " + secretToken}, s.server.Values("Authorization"))
	require.Empty(s.t, s.healthy.Values("Authorization"), "headers of one server are not sent to another")
	require.Empty(s.t, append(s.healthy.Values("Cookie"), s.server.Values("Cookie")...), "cookies are not returned")
}

// allocated returns the bytes that this process has allocated so far, freed ones
// included.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
