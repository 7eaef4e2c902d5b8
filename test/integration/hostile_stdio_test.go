//go:build linux

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// stdioRow says what must happen when a host uses one of the misbehaving
// servers: the zero row is one that starts, is called, and answers well.
type stdioRow struct {
	// eras are tried one after the other; none means the initialize era.
	eras []mcpvisor.Era
	// spec changes how the server is registered.
	spec func(*mcpvisor.ServerSpec)
	// start is what becomes of Register; the zero value is that it succeeds.
	start ending
	// act is what is done with the server; nil is one call of the bad tool.
	act func(*stdioRun) (*mcp.CallToolResult, error)
	// limit bounds the call where it is to run into it.
	limit time.Duration
	// end is what becomes of act.
	end ending
	// any: what a call that succeeds returns is not looked at. Otherwise it is
	// hostile.FineText.
	any bool
	// fate is what becomes of the session.
	fate fate
	// check looks at what else there is to see, when the fate of the session is
	// known.
	check func(*stdioRun)
}

// fate is what becomes of a session.
type fate int

const (
	// kept: it goes on and answers.
	kept fate = iota
	// replaced: it has ended, and the next one answers.
	replaced
	// useless: it goes on and answers no more; only its end is checked.
	useless
)

// ending is how something ends: well, or with one of the kinds of errors.
type ending struct {
	// is are the sentinels, of which the error is one; empty means no error.
	is []error
	// outcome, if set, is the error's.
	outcome mcpvisor.Outcome
	// cause, if set, is the kind of the cause behind it.
	cause []supervisor.CauseKind
	// orNone: it may also end well.
	orNone bool
}

// The endings that rows have in common.
var (
	fails    = func(kind error, outcome mcpvisor.Outcome) ending { return ending{is: []error{kind}, outcome: outcome} }
	timesOut = fails(mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown)
	crashes  = fails(mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown)
	broken   = fails(mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered)
	refused  = fails(mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered)
	noStart  = func(cause ...supervisor.CauseKind) ending {
		return ending{is: []error{mcpvisor.ErrStart}, cause: cause}
	}
	bothEras = []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern}
	auto     = []mcpvisor.Era{mcpvisor.EraAuto}
)

const (
	// soon is the limit of calls that are to run into it.
	soon = 100 * time.Millisecond
	// slack is how much later than its bound something may end: far more than
	// this machine is ever busy, far less than forever.
	slack = 8 * time.Second
	// grace is the shutdown timeout of the hostile servers.
	grace = 200 * time.Millisecond
)

// stdioRun is a row under way.
type stdioRun struct {
	*fixture
	c     *facade.Client
	spec  mcpvisor.ServerSpec
	limit time.Duration
	// before is the status when the server had started.
	before mcpvisor.ServerStatus
	// failure is what Register or act returned.
	failure *mcpvisor.Error
}

// contents are the stages that are about what an answer holds, and not about
// how it comes: they are as true of a server in this process, which starts
// faster by far. So is the second of two eras.
var contents = map[string]bool{"id": true, "answer": true, "error": true, "result": true, "read": true, "prompt": true, "list": true}

var allProcesses = flag.Bool("hostile.processes", false, "run every hostile server as a process")

// hostileServer is the name of the server that misbehaves.
const hostileServer = "hostile"

func TestHostileStdio(t *testing.T) {
	rows := map[string]stdioRow{}
	for _, part := range []map[string]stdioRow{stdioSpawnRows, stdioOpeningRows, stdioListRows, stdioCallRows, stdioIDRows, stdioResultRows, stdioTrafficRows, stdioProcessRows} {
		for name, row := range part {
			require.NotContains(t, rows, name, "one row for each")
			rows[name] = row
		}
	}
	for _, m := range hostile.Misbehaviours() {
		row, ok := rows[m.Name]
		require.True(t, ok, "%s has no row", m.Name)
		delete(rows, m.Name)
		eras := row.eras
		if eras == nil {
			eras = []mcpvisor.Era{mcpvisor.EraLegacy}
		}
		for _, era := range eras {
			name := m.Name
			if len(eras) > 1 {
				name += ", " + string(era)
			}
			t.Run(name, func(t *testing.T) { runStdioRow(t, m, row, era) })
		}
	}
	require.Empty(t, rows, "rows about nothing")
}

// runStdioRow is one row: a client of its own, with a good neighbour that is called
// all the while, and at the end nothing left.
func runStdioRow(t *testing.T, m hostile.Misbehaviour, row stdioRow, era mcpvisor.Era) {
	w := newFixture(t)
	c, _ := w.client(answeringHandlers()...)
	t.Cleanup(w.clear)
	v := &stdioRun{fixture: w, c: c, limit: row.limit}
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "other", InMemory: mcptest.InMemory(mcptest.Script{}),
		Timeouts: mcpvisor.Timeouts{Call: slack}}))
	other := newNeighbour(c, "other")
	t.Cleanup(other.stop)

	v.spec = mcpvisor.ServerSpec{Name: hostileServer, Era: era,
		Policy:   supervisor.Retry(3, time.Millisecond),
		Timeouts: mcpvisor.Timeouts{Start: patience, Negotiate: patience, Call: slack, Shutdown: grace},
		Probe:    mcpvisor.Probe{Interval: -1}}
	if memory, ok := m.InMemory(); ok && !*allProcesses && (contents[m.Stage()] || era == mcpvisor.EraModern && len(row.eras) == 2) {
		v.spec.InMemory = memory
	} else {
		v.spec.Stdio = w.marked(m.Stdio(t.TempDir()))
	}
	if row.spec != nil {
		row.spec(&v.spec)
	}
	began := time.Now()
	err := c.Register(w.within(), v.spec)
	v.requireWithin(began, v.spec.Timeouts.Start+v.spec.Timeouts.List, "Register")
	if v.requireEnding(row.start, err); err == nil {
		w.subscribeAll(c, hostileServer)
		v.call(row)
		began = time.Now()
		require.NoError(t, c.Unregister(w.within(), hostileServer))
		v.requireWithin(began, grace, "Unregister")
	} else if row.check != nil {
		row.check(v)
	}
	require.Equal(t, []string{"other"}, c.Servers(), "nothing of it is registered")
	w.requireNoProcess()
	other.requireUndisturbed(t)
}

// call does what the row is about with a server that is ready, and finds out
// what has become of the session.
func (v *stdioRun) call(row stdioRow) {
	t := v.t
	v.before = v.inspect()
	v.requireFit()
	act := row.act
	if act == nil {
		act = func(v *stdioRun) (*mcp.CallToolResult, error) { return v.bad(nil) }
	}
	began := time.Now()
	res, err := act(v)
	v.requireWithin(began, row.limit, "the call")
	v.requireEnding(row.end, err)
	if err == nil && !row.any {
		require.Equal(t, hostile.FineText, textOf(res))
	}
	if row.fate == replaced {
		until(v.within(), t, "the end of the session is noticed", func() bool {
			st, _ := v.c.ServerStatus(hostileServer)
			return st.Epoch > v.before.Epoch || len(st.History) > 0
		})
	}
	if row.fate != useless {
		text := t.Name()
		again, err := v.c.CallTool(v.within(), hostileServer+"/"+hostile.EchoTool, map[string]any{"text": text}, facade.WithWaitReady())
		require.NoError(t, err)
		require.Equal(t, text, textOf(again))
		after := v.inspect()
		require.Equal(t, row.fate == replaced, after.Epoch > v.before.Epoch, "whether there is a new session")
		if v.spec.Stdio != nil {
			require.Equal(t, row.fate == replaced, after.Session.PID != v.before.Session.PID, "whether there is a new process")
		}
		require.LessOrEqual(t, after.Epoch, v.before.Epoch+1, "replaced once")
	}
	if row.check != nil {
		row.check(v)
	}
}

// bad calls the tool that misbehaves, with the row's limit.
func (v *stdioRun) bad(args any) (*mcp.CallToolResult, error) {
	return v.c.CallTool(v.within(), hostileServer+"/"+hostile.BadTool, args, v.opts()...)
}

func (v *stdioRun) opts() (opts []facade.CallOption) {
	opts = []facade.CallOption{facade.WithProgress(func(mcpvisor.Progress) {})}
	if v.limit > 0 {
		opts = append(opts, facade.WithTimeout(v.limit))
	}
	return opts
}

func (v *stdioRun) inspect() mcpvisor.ServerStatus {
	st, ok := v.c.ServerStatus(hostileServer)
	require.True(v.t, ok)
	require.Equal(v.t, supervisor.StateReady, st.State)
	require.NotNil(v.t, st.Session)
	return st
}

// noise is what the session of the server has skipped so far.
func (v *stdioRun) noise() mcpvisor.Discarded { return v.inspect().Session.Discarded }

func (v *stdioRun) requireWithin(began time.Time, bound time.Duration, what string) {
	v.t.Helper()
	require.Less(v.t, time.Since(began), bound+slack, "%s took too long", what)
}

func (v *stdioRun) requireEnding(want ending, err error) {
	t := v.t
	t.Helper()
	if err == nil && want.orNone {
		return
	}
	if len(want.is) == 0 {
		require.NoError(t, err)
		return
	}
	require.Error(t, err)
	require.True(t, isOne(err, want.is...), "%v is not one of %v", err, want.is)
	require.ErrorAs(t, err, &v.failure)
	require.NotContains(t, err.Error(), "\x1b", "an error is fit to be shown")
	require.Less(t, len(err.Error()), 64<<10, "an error is fit to be shown")
	if want.outcome != "" {
		require.Equal(t, want.outcome, v.failure.Outcome, err)
	}
	if want.cause != nil {
		var cause *supervisor.Cause
		require.True(t, errors.As(err, &cause), "%v has a cause", err)
		require.Contains(t, want.cause, cause.Kind, err)
	}
}

// clear ends what a row that has failed left behind, so that the next one is
// not blamed for it.
func (w *fixture) clear() {
	if !w.t.Failed() {
		return
	}
	for _, pid := range processes(w.mark) {
		send(pid, w.mark, syscall.SIGKILL)
	}
	until(w.within(), w.t, "the children are gone", func() bool { return len(children()) == 0 })
}

// marked is the spec with the mark of the fixture.
func (w *fixture) marked(spec *mcpvisor.Stdio) *mcpvisor.Stdio {
	env := maps.Clone(spec.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[markVar] = w.mark
	marked := *spec
	marked.Env = env
	return &marked
}

// several calls the bad tool so many times at once, each with its own text.
func several(n int) func(*stdioRun) (*mcp.CallToolResult, error) {
	return func(v *stdioRun) (*mcp.CallToolResult, error) {
		ends := make(chan error, n)
		for i := range n {
			go func() {
				text := fmt.Sprint("call ", i)
				res, err := v.bad(map[string]any{"text": text})
				if err == nil && textOf(res) != text {
					err = fmt.Errorf("%q was answered with %q", text, textOf(res))
				}
				ends <- err
			}()
		}
		var errs []error
		for range n {
			errs = append(errs, <-ends)
		}
		return nil, errors.Join(errs...)
	}
}

// canceled calls the bad tool and leaves after a while.
func canceled(args any) func(*stdioRun) (*mcp.CallToolResult, error) {
	return func(v *stdioRun) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		return v.c.CallTool(ctx, hostileServer+"/"+hostile.BadTool, args)
	}
}
