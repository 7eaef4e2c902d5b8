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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// stdioRow is what a client must do with one misbehaviour over stdio. In the zero row
// the server starts, the call succeeds, and the session is kept.
type stdioRow struct {
	// eras are those in which the row runs, one after the other. Default: the
	// initialize era.
	eras []mcpvisor.Era
	// spec changes the specification of the server.
	spec func(*mcpvisor.ServerSpec)
	// start is how Register ends. The zero value means success.
	start ending
	// act is the request to the ready server. Default: one call of the bad tool.
	act func(*stdioRun) (*mcp.CallToolResult, error)
	// limit is the timeout of the call; 0 means the one of the specification.
	limit time.Duration
	// end is how act ends.
	end ending
	// anyResult: a successful call may return anything. Otherwise it must return
	// hostile.FineText.
	anyResult bool
	// fate is what happens to the session.
	fate fate
	// check runs at the end, when the fate of the session is known.
	check func(*stdioRun)
	// memory bounds the bytes that act may allocate, the calls of the other server
	// included; 0 means no bound.
	memory uint64
}

// allocating bounds the bytes that the request may allocate.
func (r stdioRow) allocating(bytes uint64) stdioRow {
	r.memory = bytes
	return r
}

// fate is what happens to a session during a row.
type fate int

const (
	// kept: the session continues and answers calls.
	kept fate = iota
	// replaced: the session has ended, and the next one answers calls.
	replaced
	// unusable: the session continues but answers no call.
	unusable
)

// ending is how a request ends: with a result, or with an error of one of some kinds.
type ending struct {
	// oneOf are the sentinels that the error may match; empty means no error.
	oneOf []error
	// outcome is the Outcome of the error. Default: any.
	outcome mcpvisor.Outcome
	// cause are the kinds that the cause of the error may have. Default: any.
	cause []supervisor.CauseKind
	// orSuccess: the request may also succeed.
	orSuccess bool
}

// Endings that several rows share.
var (
	failsWith = func(kind error, outcome mcpvisor.Outcome) ending {
		return ending{oneOf: []error{kind}, outcome: outcome}
	}
	timesOut      = failsWith(mcpvisor.ErrTimeout, mcpvisor.OutcomeUnknown)
	crashes       = failsWith(mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown)
	protocolError = failsWith(mcpvisor.ErrProtocol, mcpvisor.OutcomeAnswered)
	rpcError      = failsWith(mcpvisor.ErrRPC, mcpvisor.OutcomeAnswered)
	startFails    = func(cause ...supervisor.CauseKind) ending {
		return ending{oneOf: []error{mcpvisor.ErrStart}, cause: cause}
	}
	bothEras = []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern}
	autoEra  = []mcpvisor.Era{mcpvisor.EraAuto}
)

const (
	// shortTimeout is the timeout of calls that are never answered.
	shortTimeout = 100 * time.Millisecond
	// maxDelay is how much later than its bound a request may end, and the timeout of the
	// calls that are answered. It allows for a busy machine, and for the race detector,
	// which reads tens of megabytes in seconds.
	maxDelay = slower * 8 * time.Second
	// shutdownTimeout is the shutdown timeout of the hostile servers.
	shutdownTimeout = 200 * time.Millisecond
)

// stdioRun is one running row.
type stdioRun struct {
	*fixture
	c     *facade.Client
	spec  mcpvisor.ServerSpec
	limit time.Duration
	// before is the status after the start.
	before mcpvisor.ServerStatus
	// failure is the error of Register or of act.
	failure *mcpvisor.Error
}

// answerStages are the stages that concern the content of answers. Their servers run in
// this process, where they start much faster; so do all servers in the second of two
// eras, and without -everything all but those of the stages of processes and pipes.
var (
	answerStages  = map[string]bool{"id": true, "answer": true, "error": true, "result": true, "read": true, "prompt": true, "list": true}
	processStages = map[string]bool{"spawn": true, "process": true, "shutdown": true, "stream": true}
)

var allProcesses = flag.Bool("hostile.processes", false, "run every hostile server as a process")

// hostileServer is the name of the server that misbehaves.
const hostileServer = "hostile"

// allStdioRows returns the rows of all tables, by the names of their misbehaviours.
func allStdioRows(t *testing.T) map[string]stdioRow {
	t.Helper()
	rows := map[string]stdioRow{}
	for _, part := range []map[string]stdioRow{stdioSpawnRows, stdioHandshakeRows, stdioListRows, stdioCallRows, stdioAnswerRows, stdioResultRows, stdioTaskRows, stdioTrafficRows, stdioProcessRows} {
		for name, row := range part {
			require.NotContains(t, rows, name, "two rows for one misbehaviour")
			rows[name] = row
		}
	}
	return rows
}

// inEras returns the eras in which the row runs.
func (r stdioRow) inEras() []mcpvisor.Era {
	if r.eras == nil {
		return []mcpvisor.Era{mcpvisor.EraLegacy}
	}
	return r.eras
}

func TestHostileStdio(t *testing.T) {
	rows := allStdioRows(t)
	for i, m := range hostile.Misbehaviours() {
		row, ok := rows[m.Name]
		require.True(t, ok, "%s has no row; add one to the table of its stage in hostile_stdio_*_test.go", m.Name)
		delete(rows, m.Name)
		if isLeftOut(i) {
			continue
		}
		eras := row.inEras()
		for _, era := range eras {
			name := m.Name
			if len(eras) > 1 {
				name += ", " + string(era)
			}
			t.Run(name, func(t *testing.T) { runStdioRow(t, m, row, era) })
		}
	}
	require.Empty(t, rows, "rows without a misbehaviour")
}

// runStdioRow runs one row on a client of its own. Another server, which must not be
// affected, is called meanwhile. Nothing may be left at the end.
func runStdioRow(t *testing.T, m hostile.Misbehaviour, row stdioRow, era mcpvisor.Era) {
	w := newFixture(t)
	c, _ := w.client(append(answeringHandlers(), facade.WithValidation())...)
	t.Cleanup(w.killRemaining)
	v := &stdioRun{fixture: w, c: c, limit: row.limit}
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "other", InMemory: mcptest.InMemory(mcptest.Script{}),
		Timeouts: mcpvisor.Timeouts{Call: maxDelay}}))
	other := newNeighbour(c, "other")
	t.Cleanup(other.stop)

	v.spec = mcpvisor.ServerSpec{Name: hostileServer, Era: era,
		Policy:   supervisor.Retry(3, time.Millisecond),
		Timeouts: mcpvisor.Timeouts{Start: maxWait, Negotiate: maxWait, Call: maxDelay, Shutdown: shutdownTimeout},
		Probe:    mcpvisor.Probe{Interval: -1}}
	inMemory := answerStages[m.Stage()] || era == mcpvisor.EraModern && len(row.eras) == 2 || !*everything && !processStages[m.Stage()]
	if memory, ok := m.InMemory(); ok && !*allProcesses && inMemory {
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
		v.requireWithin(began, shutdownTimeout, "Unregister")
	} else if row.check != nil {
		row.check(v)
	}
	require.Equal(t, []string{"other"}, c.Servers(), "the hostile server is not registered any more")
	w.requireNoProcess()
	other.requireUndisturbed(t)
}

// call makes the request of the row to a ready server, and checks what happened to the
// session.
func (v *stdioRun) call(row stdioRow) {
	t := v.t
	v.before = v.requireReady()
	v.requirePresentable()
	act := row.act
	if act == nil {
		act = func(v *stdioRun) (*mcp.CallToolResult, error) { return v.callBadTool(nil) }
	}
	began, before := time.Now(), allocated()
	res, err := act(v)
	if row.memory > 0 {
		require.Less(t, allocated()-before, row.memory, "bytes allocated by one request")
	}
	v.requireWithin(began, row.limit, "the call")
	v.requireEnding(row.end, err)
	if err == nil && !row.anyResult {
		require.Equal(t, hostile.FineText, textOf(res))
	}
	if row.fate == replaced {
		waitUntil(v.within(), t, "the end of the session is noticed", func() bool {
			st, _ := v.c.ServerStatus(hostileServer)
			return st.Epoch > v.before.Epoch || len(st.History) > 0
		})
	}
	if row.fate != unusable {
		text := t.Name()
		again, err := v.c.CallTool(v.within(), hostileServer+"/"+hostile.EchoTool, map[string]any{"text": text}, facade.WithWaitReady())
		require.NoError(t, err)
		require.Equal(t, text, textOf(again))
		after := v.requireReady()
		require.Equal(t, row.fate == replaced, after.Epoch > v.before.Epoch, "the session was replaced")
		if v.spec.Stdio != nil {
			require.Equal(t, row.fate == replaced, after.Session.PID != v.before.Session.PID, "the process was replaced")
		}
		require.LessOrEqual(t, after.Epoch, v.before.Epoch+1, "the session was replaced at most once")
	}
	if row.check != nil {
		row.check(v)
	}
}

// callBadTool calls the bad tool with the timeout of the row.
func (v *stdioRun) callBadTool(args any) (*mcp.CallToolResult, error) {
	return v.c.CallTool(v.within(), hostileServer+"/"+hostile.BadTool, args, v.callOptions()...)
}

func (v *stdioRun) callOptions() (opts []facade.CallOption) {
	opts = []facade.CallOption{facade.WithProgress(func(mcpvisor.Progress) {})}
	if v.limit > 0 {
		opts = append(opts, facade.WithTimeout(v.limit))
	}
	return opts
}

func (v *stdioRun) requireReady() mcpvisor.ServerStatus {
	st, ok := v.c.ServerStatus(hostileServer)
	require.True(v.t, ok)
	require.Equal(v.t, supervisor.StateReady, st.State)
	require.NotNil(v.t, st.Session)
	return st
}

// discarded returns the counts of messages that the session has discarded so far.
func (v *stdioRun) discarded() mcpvisor.Discarded { return v.requireReady().Session.Discarded }

func (v *stdioRun) requireWithin(began time.Time, bound time.Duration, what string) {
	v.t.Helper()
	require.Less(v.t, time.Since(began), bound+maxDelay, "%s took too long", what)
}

func (v *stdioRun) requireEnding(want ending, err error) {
	t := v.t
	t.Helper()
	if err == nil && want.orSuccess {
		return
	}
	if len(want.oneOf) == 0 {
		require.NoError(t, err)
		return
	}
	require.Error(t, err)
	require.True(t, isAny(err, want.oneOf...), "%v is not one of %v", err, want.oneOf)
	require.ErrorAs(t, err, &v.failure)
	require.NotContains(t, err.Error(), "\x1b", "an error has no control characters")
	require.Less(t, len(err.Error()), 64<<10, "an error is short")
	requireSmallCause(t, err)
	if want.outcome != "" {
		require.Equal(t, want.outcome, v.failure.Outcome, err)
	}
	if want.cause != nil {
		var cause *supervisor.Cause
		require.True(t, errors.As(err, &cause), "%v has a cause", err)
		require.Contains(t, want.cause, cause.Kind, err)
	}
}

// requireSmallCause requires that the cause in an error, if there is one, holds little of
// what the server sent: statuses and events keep it.
func requireSmallCause(t *testing.T, err error) {
	t.Helper()
	var cause *supervisor.Cause
	var rpc *jsonrpc.Error
	if errors.As(err, &cause) && errors.As(cause, &rpc) {
		require.LessOrEqual(t, len(rpc.Data), 1<<10, "the data of a server is not kept")
	}
}

// killRemaining kills the processes that a failed row has left, so that they do not
// disturb the next row.
func (w *fixture) killRemaining() {
	if !w.t.Failed() {
		return
	}
	for _, pid := range processes(w.mark) {
		signalMarked(pid, w.mark, syscall.SIGKILL)
	}
	waitUntil(w.within(), w.t, "the children have ended", func() bool { return len(children()) == 0 })
}

// marked returns a copy of the specification whose process carries the mark.
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

// concurrentCalls calls the bad tool n times concurrently, each call with its own text.
func concurrentCalls(n int) func(*stdioRun) (*mcp.CallToolResult, error) {
	return func(v *stdioRun) (*mcp.CallToolResult, error) {
		ends := make(chan error, n)
		for i := range n {
			go func() {
				text := fmt.Sprint("call ", i)
				res, err := v.callBadTool(map[string]any{"text": text})
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

// canceledCall calls the bad tool and cancels the call after shortTimeout.
func canceledCall(args any) func(*stdioRun) (*mcp.CallToolResult, error) {
	return func(v *stdioRun) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithTimeout(context.Background(), shortTimeout)
		defer cancel()
		return v.c.CallTool(ctx, hostileServer+"/"+hostile.BadTool, args)
	}
}
