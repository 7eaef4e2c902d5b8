//go:build unix

package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
)

// testOptions are the options of the dialers in this file.
func testOptions() transport.Options {
	return transport.Options{ClientInfo: &mcp.Implementation{Name: "transport-test", Version: "1"}, Logger: zerolog.Nop()}
}

// stdioSession opens a session with a fixture process and ends it with the test.
func stdioSession(t *testing.T, spec mcpvisor.ServerSpec) (transport.Session, error) {
	t.Helper()
	spec.Name = "fixture"
	d := NewDialer(spec, testOptions())
	s := d.NewSession()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test ends"})
		<-s.Released()
	})
	return s, s.Open(ctx)
}

// callTool makes a tools/call request.
func callTool(name, args string) transport.Request {
	return transport.Request{Method: "tools/call", Target: name,
		Params: json.RawMessage(`{"name":"` + name + `","arguments":` + args + `}`)}
}

// TestStdio_all_protocol_versions: a call succeeds in each protocol version.
func TestStdio_all_protocol_versions(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			s, err := stdioSession(t, mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{Versions: []string{version}})})
			require.NoError(t, err)
			require.Equal(t, version, s.Info().ProtocolVersion)
			raw, err := s.Request(t.Context(), callTool("echo", `{"text":"hello"}`))
			require.NoError(t, err)
			require.Contains(t, string(raw), "hello")
			require.NotZero(t, s.Info().PID)
			require.False(t, s.LastReceived().IsZero())
		})
	}
}

// TestStdio_failed_start: the cause says why the server could not be started, and
// whether a retry makes sense.
func TestStdio_failed_start(t *testing.T) {
	for name, tc := range map[string]struct {
		spec mcpvisor.ServerSpec
		kind supervisor.CauseKind
		perm bool
		text string
	}{
		"no such command":   {mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: "no-such-command-here"}}, supervisor.CauseConfig, true, "not found"},
		"no such directory": {mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: os.Args[0], Dir: "/no/such/dir"}}, supervisor.CauseConfig, true, "working directory"},
		"exits at start": {mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{Faults: []mcptest.Fault{
			{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 3}}})}, supervisor.CauseExit, false, "exit status 3"},
		"exits in initialize": {mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{Versions: []string{"2025-11-25"}, Faults: []mcptest.Fault{
			{At: mcptest.StageInitialize, Do: mcptest.ActionExit, Code: 4}}})}, supervisor.CauseExit, false, "exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := stdioSession(t, tc.spec)
			require.Error(t, err)
			var c *supervisor.Cause
			require.True(t, errors.As(err, &c))
			require.Equal(t, tc.kind, c.Kind)
			require.Equal(t, tc.perm, c.Permanent)
			require.Contains(t, c.Error(), tc.text)
			<-s.Released()
		})
	}
}

// TestStdio_grandchildren_die_with_the_server: processes that the server has started end
// with it.
func TestStdio_grandchildren_die_with_the_server(t *testing.T) {
	dir := t.TempDir()
	s, err := stdioSession(t, mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir})})
	require.NoError(t, err)
	_, err = s.Request(t.Context(), callTool("fork", `{}`))
	require.NoError(t, err)
	require.Len(t, mcptest.PIDs(dir), 2)
	require.NoError(t, syscall.Kill(s.Info().PID, syscall.SIGKILL))
	<-s.Released()
	require.Eventually(t, func() bool {
		for _, pid := range mcptest.PIDs(dir) {
			if mcptest.Alive(pid) {
				return false
			}
		}
		return true
	}, 5*time.Second, time.Millisecond)
}

// TestStdio_killed_with_call_in_flight: the calls in flight fail, and the cause names
// the signal and quotes stderr.
func TestStdio_killed_with_call_in_flight(t *testing.T) {
	script := mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAnswer, Tool: "count", Do: mcptest.ActionDelay, Delay: time.Hour}}}
	s, err := stdioSession(t, mcpvisor.ServerSpec{Stdio: mcptest.Stdio(script)})
	require.NoError(t, err)
	_, err = s.Request(t.Context(), callTool("stderr", `{"text":"last line"}`))
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Request(t.Context(), callTool("count", `{"key":"k"}`))
		failed <- err
	}()
	require.Eventually(t, func() bool { return mcptest.Executions(script.StateDir)["k"] == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, syscall.Kill(s.Info().PID, syscall.SIGKILL))
	err = <-failed
	e := testutil.AsError[*mcpvisor.Error](t, err)
	require.Equal(t, mcpvisor.ErrCrashed, e.Kind)
	require.Equal(t, supervisor.CauseSignal, s.Cause().Kind)
	require.Equal(t, "killed", s.Cause().Signal)
	require.Contains(t, s.Cause().Stderr, "last line")
	<-s.Released()
	_, err = s.Request(t.Context(), callTool("echo", `{"text":"x"}`))
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
}
