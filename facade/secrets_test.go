package facade_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/testutil"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A secret of a server's environment or arguments is redacted wherever the server repeats
// it: on stderr, in errors, in log messages, at the start and at the end.
func TestSecrets_are_redacted_everywhere(t *testing.T) {
	const inEnv, inArgs = "secret-in-the-environment", "secret-in-an-argument"
	repeat := inEnv + " and " + inArgs
	var log testutil.LockedBuffer
	c, err := facade.New(facade.WithLogger(zerolog.New(&log)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(t.Context())) })
	var shown strings.Builder
	events := c.Watch(t.Context())
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for e := range events {
			raw, _ := json.Marshal(e)
			fmt.Fprintf(&shown, "%s\n%s\n%v\n", e, raw, e.Cause)
		}
	}()
	spec := func(name string, faults ...mcptest.Fault) mcpvisor.ServerSpec {
		s := mcpvisor.ServerSpec{Name: name, Policy: supervisor.Retry(1, time.Millisecond), Stdio: mcptest.Stdio(mcptest.Script{Name: "server of " + repeat, Faults: faults})}
		env := s.Stdio.Env
		env["SERVICE_API_KEY"] = inEnv
		s.Stdio.Args = []string{"--token", inArgs}
		return s
	}
	printed := &testutil.LockedBuffer{}
	show := func(err error) {
		require.Error(t, err)
		fmt.Fprintf(printed, "%v\n%+v\n%#v\n", err, err, err)
	}
	complains := mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "cannot use " + repeat}
	show(c.Register(t.Context(), spec("exits", complains, mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionExit, Code: 1},
		mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionExit, Code: 1})))
	show(c.Register(t.Context(), spec("refuses", mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionError, Text: "refused: " + repeat},
		mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionError, Text: "refused: " + repeat})))
	require.NoError(t, c.Register(t.Context(), spec("serves", complains,
		mcptest.Fault{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionError, Text: "no: " + repeat})))
	_, err = c.CallTool(t.Context(), "serves/echo", nil)
	show(err)
	require.NoError(t, c.SetLoggingLevel(t.Context(), "serves", "debug"))
	call(t, c, "serves/log", map[string]any{"level": "error", "text": repeat})
	_, err = c.CallTool(t.Context(), "serves/crash", nil)
	show(err)
	require.NoError(t, c.WaitReady(t.Context(), "serves"))
	status, err := json.Marshal(c.Status())
	require.NoError(t, err)
	fmt.Fprintf(printed, "%s\n%+v\n", status, c.Status())
	require.NoError(t, c.Close(t.Context()))
	<-seen
	for what, text := range map[string]string{"an error or the status": printed.String(), "an event": shown.String(), "the log": log.String()} {
		require.NotContains(t, text, inEnv, what)
		require.NotContains(t, text, inArgs, what)
		require.Contains(t, text, "***", what)
	}
}
