//go:build linux

package integration

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/testutil"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile/hostilehttp"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// httpRow is what a client must do with one misbehaviour over HTTP.
type httpRow struct {
	name  string
	label string // tells two rows of one misbehaviour apart
	eras  []mcpvisor.Era
	// start is how Register must end, and call how a call of the tool that
	// misbehaves must; nil if they succeed.
	start, call *wantError
	// text is what a call that succeeds must bring; by default what it sent.
	text string
	// timeout is the call's own; by default far off.
	timeout time.Duration
	// replaced: the session ends with the call, and the next one is as good as new.
	replaced bool
	// spec changes the specification.
	spec func(*mcpvisor.ServerSpec)
	// act replaces the call, and also follows it.
	act, check func(*httpRun)
	// memory bounds what the call may allocate, in bytes; 0 means no bound.
	memory uint64
}

// wantError is what an error must be.
type wantError struct {
	kind     error
	outcome  mcpvisor.Outcome
	contains string
}

// httpRun is the stage of one row: a client with the server that misbehaves
// and a neighbour.
type httpRun struct {
	*fixture
	row     httpRow
	c       *facade.Client
	events  *history
	server  *hostilehttp.Server
	healthy *hostilehttp.Server
	spec    mcpvisor.ServerSpec
	log     *testutil.LockedBuffer
	shown   []string // texts that a host would show to people
}

const (
	// secretToken is what no log, no error and no status may hold.
	secretToken = "canary-8c1f0e52d7"
	// httpMaxDelay is what may come on top of a clock: a scheduler's hiccup, not a
	// minute of a default.
	httpMaxDelay = 10 * time.Second
	// httpShutdownTimeout is the clock of the end.
	httpShutdownTimeout = 300 * time.Millisecond
	// maxMessage is the longest message that is accepted.
	maxMessage = 1 << 20
	// maxErrorText is how long the text of an error may be.
	maxErrorText = 6_000
)

// TestHostileHTTP serves each misbehaviour of mcptest to a client. Whatever the
// server does hurts only itself: calls end within their clock, a neighbour
// does not notice, and nothing is left behind.
func TestHostileHTTP(t *testing.T) {
	for _, row := range httpRows() {
		eras := row.eras
		m, ok := hostilehttp.MisbehaviourNamed(row.name)
		require.True(t, ok, "mcptest knows %s", row.name)
		if eras == nil {
			eras = m.Eras()
		}
		if below, _, _ := strings.Cut(row.name, "/"); below == "wire" || below == "head" {
			eras = eras[:1] // below HTTP all eras are one
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

// Every misbehaviour has its row.
func TestHostileHTTP_every_misbehaviour_has_a_row(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range httpRows() {
		rows[row.name] = true
	}
	for _, m := range hostilehttp.Misbehaviours() {
		require.True(t, rows[m.Name], "%s has no row: %s", m.Name, m.About)
	}
	require.GreaterOrEqual(t, len(rows), 60)
}

func httpRows() []httpRow {
	return slices.Concat(httpStartRows, httpListRows, httpStatusRows, httpBodyRows, httpWireRows, httpEventRows, httpSessionRows, sseRows)
}

func (r httpRow) run(t *testing.T, m hostilehttp.Misbehaviour, era mcpvisor.Era) {
	s := &httpRun{fixture: newFixture(t), row: r, server: m.Serve(), log: new(testutil.LockedBuffer)}
	t.Cleanup(s.server.Close)
	s.healthy = hostilehttp.Misbehaviours()[0].Serve()
	t.Cleanup(s.healthy.Close)
	s.c, s.events = s.client(append(answeringHandlers(), facade.WithLogger(zerolog.New(s.log)))...)
	require.NoError(t, s.c.Register(s.within(), mcpvisor.ServerSpec{Name: "near", HTTP: &mcpvisor.HTTP{URL: s.healthy.URL},
		Timeouts: mcpvisor.Timeouts{Shutdown: httpShutdownTimeout}}))
	calls := newNeighbour(s.c, "near")
	t.Cleanup(func() { calls.stop(); calls.done.Wait() })

	s.spec = mcpvisor.ServerSpec{Name: hostileServer, Era: era,
		HTTP: &mcpvisor.HTTP{URL: s.server.URL, Headers: map[string]string{"Authorization": "Bearer " + secretToken}},
		Timeouts: mcpvisor.Timeouts{Start: 5 * time.Second, Negotiate: 300 * time.Millisecond, List: 5 * time.Second,
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

// register reports whether the server is there to be called.
func (s *httpRun) register() bool {
	s.t.Helper()
	began := time.Now()
	err := s.c.Register(s.within(), s.spec)
	s.requireWithin("register", began, s.spec.Timeouts.Start+s.spec.Timeouts.List)
	if s.row.start == nil {
		require.NoError(s.t, err)
		return true
	}
	s.requireError(err, s.row.start)
	require.NotContains(s.t, s.c.Servers(), hostileServer, "a failed start leaves nothing behind")
	return false
}

// runCall calls the tool that misbehaves and checks which session serves afterwards.
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

// callBadTool makes the call that the row is about.
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
		require.Less(s.t, allocated()-before, s.row.memory, "bytes were allocated for one call")
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

// requireServes asserts that the server is ready, in this incarnation.
func (s *httpRun) requireServes(epoch uint64) {
	s.t.Helper()
	began := time.Now()
	res, err := s.c.CallTool(s.within(), hostileServer+"/"+hostilehttp.EchoTool, map[string]any{"text": "and again"}, facade.WithWaitReady())
	require.NoError(s.t, err)
	s.requireWithin("the next call", began, s.spec.Timeouts.Call)
	require.Equal(s.t, "and again", textOf(res))
	require.Equal(s.t, epoch, s.epoch(), "which incarnation serves")
}

func (s *httpRun) epoch() uint64 {
	st, ok := s.c.ServerStatus(hostileServer)
	require.True(s.t, ok)
	return st.Epoch
}

// requireError compares an error with what it must be; see lawful for what every error must be.
func (s *httpRun) requireError(err error, want *wantError) {
	s.t.Helper()
	require.ErrorIs(s.t, err, want.kind)
	e := s.requirePresentable(err)
	require.Equal(s.t, want.outcome, e.Outcome, "%v", err)
	require.Contains(s.t, err.Error(), want.contains)
}

// requirePresentable requires that an error is an *mcpvisor.Error, short, on one line, and without
// secrets.
func (s *httpRun) requirePresentable(err error) *mcpvisor.Error {
	s.t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(s.t, err, &e)
	require.Less(s.t, len(err.Error()), maxErrorText, "an error that people read")
	require.NotContains(s.t, e.Op, secretToken)
	for _, r := range err.Error() {
		require.False(s.t, unicode.IsControl(r), "%q", err.Error())
	}
	for at := error(e); at != nil; at = errors.Unwrap(at) {
		s.shown = append(s.shown, at.Error())
	}
	raw, _ := json.Marshal(e) // whatever of it can be marshalled
	s.shown = append(s.shown, string(raw))
	return e
}

func (s *httpRun) requireWithin(what string, began time.Time, clock time.Duration) {
	s.t.Helper()
	require.Less(s.t, time.Since(began), clock+httpMaxDelay, "%s took too long", what)
}

// requireCleanEnd closes the client and checks that nothing is left and no secret was shown.
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
	require.Empty(s.t, s.healthy.Values("Authorization"), "one server's headers are not another's")
	require.Empty(s.t, append(s.healthy.Values("Cookie"), s.server.Values("Cookie")...), "cookies are not kept")
}

// allocated is how many bytes this process has ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
