package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/raw"
	"github.com/mcpvisor/mcpvisor/test/testutil"
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

// A server in memory and a transport of the host may return errors, and panic, with a secret
// in them. A secret of several lines is masked line by line.
func TestSecrets_in_memory(t *testing.T) {
	const secret, keyLine = `se"cret/0815`, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
	secrets := []string{secret, "-----BEGIN PRIVATE KEY-----\n" + keyLine + "\n-----END PRIVATE KEY-----\n"}
	quoted := `se\"cret/0815`
	serve := func(end func() error) func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error {
		server := &raw.Server{Answer: func(m *raw.Message) string {
			switch {
			case m.ID == nil:
				return ""
			case end != nil && m.Method == "tools/call":
				return m.End(end())
			case end == nil && m.Method == "initialize":
				return fmt.Sprintf(`"error":{"code":-32000,"message":"no %s","data":{"key":"%s"}}`, quoted, quoted)
			}
			m.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","logger":"%s","data":"%s"}}`, quoted, quoted, quoted)
			return rawMembers(m)
		}}
		return func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
			for _, part := range []string{"loading " + keyLine[:10], keyLine[10:] + "\nand " + quoted[:5], quoted[5:] + "\n"} { // split over writes
				if _, err := io.WriteString(stderr, part); err != nil {
					return err
				}
			}
			return server.Serve(ctx, in, out, stderr)
		}
	}
	failed := errors.New("cannot use " + secret + " nor " + keyLine)
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"error":                 {InMemory: &mcpvisor.InMemory{Serve: serve(func() error { return failed })}},
		"panic":                 {InMemory: &mcpvisor.InMemory{Serve: serve(func() error { panic(failed) })}},
		"refusal":               {InMemory: &mcpvisor.InMemory{Serve: serve(nil)}},
		"transport":             {Transport: &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return nil, failed }}},
		"transport that panics": {Transport: &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { panic(failed) }}},
		"transport with a cause": {Transport: &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) {
			return nil, &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: failed.Error(), Err: failed, Stderr: []string{failed.Error()}}
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			var log testutil.LockedBuffer
			c := newClient(t, facade.WithLogger(zerolog.New(&log)))
			spec.Name, spec.Secrets, spec.Era, spec.Policy = "s", secrets, mcpvisor.EraLegacy, supervisor.NoRetry()
			err := c.Register(t.Context(), spec)
			if err == nil {
				_, err = c.CallTool(t.Context(), "s/x", nil)
				require.ErrorIs(t, c.WaitReady(t.Context(), "s"), mcpvisor.ErrEvicted)
			}
			require.Error(t, err)
			var shown strings.Builder
			for at := err; at != nil; at = errors.Unwrap(at) {
				fmt.Fprintf(&shown, "%v\n%+v\n%#v\n", at, at, at)
			}
			var rpc *jsonrpc.Error
			if errors.As(err, &rpc) {
				fmt.Fprintf(&shown, "%s\n", rpc.Data)
			}
			status, _ := json.Marshal(c.Status())
			fmt.Fprintf(&shown, "%s\n%+v\n", status, c.Status())
			events, _ := c.History().Events(0)
			for _, e := range events {
				raw, _ := json.Marshal(e)
				fmt.Fprintf(&shown, "%s\n%v\n%s\n", e, e.Cause.Describe(), raw)
			}
			shown.WriteString(log.String())
			text := shown.String()
			require.Contains(t, text, "***")
			require.NotContains(t, text, secret)
			require.NotContains(t, text, "cret/0815")
			require.NotContains(t, text, keyLine)
		})
	}
}
