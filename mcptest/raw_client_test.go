package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// rawClient exchanges lines with an in-memory server inside a synctest bubble. Waiting
// for a line that never comes is a deadlock there, which fails the test at once.
type rawClient struct {
	t      *testing.T
	stdin  *io.PipeWriter
	lines  chan string
	cancel context.CancelCauseFunc
	ended  chan error
	stderr *testutil.LockedBuffer
}

// startRaw starts the next incarnation of a server.
func startRaw(t *testing.T, serve func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error) *rawClient {
	serverIn, stdin := io.Pipe()
	stdout, serverOut := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &rawClient{
		t: t, stdin: stdin, cancel: cancel, stderr: &testutil.LockedBuffer{},
		lines: make(chan string, 100_000), ended: make(chan error, 1),
	}
	go func() { c.ended <- serve(ctx, serverIn, serverOut, c.stderr) }()
	go func() {
		defer close(c.lines)
		r := bufio.NewReader(stdout)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				c.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// withRawClient runs a test against one incarnation of the script.
func withRawClient(t *testing.T, s Script, test func(c *rawClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := startRaw(t, InMemory(s).Serve)
		// A failed test must also leave the bubble without goroutines.
		defer func() {
			c.cancel(nil)
			_ = c.stdin.Close()
			for range c.lines {
			}
		}()
		test(c)
	})
}

// withSession is withRawClient after initialize.
func withSession(t *testing.T, s Script, test func(c *rawClient)) {
	t.Helper()
	withRawClient(t, s, func(c *rawClient) {
		c.initialize()
		test(c)
	})
}

func (c *rawClient) send(format string, args ...any) {
	_, err := fmt.Fprintf(c.stdin, format+"\n", args...)
	require.NoError(c.t, err)
}

func (c *rawClient) request(id int, method, params string) {
	c.send(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func (c *rawClient) call(id int, tool, args string) {
	c.request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// initialize performs the handshake of 2025-11-25.
func (c *rawClient) initialize() {
	c.request(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`)
	require.Equal(c.t, version20251125, c.result().ProtocolVersion)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// line returns the next line unchanged, with its line feed; "" at the end of stdout.
func (c *rawClient) line() string { return <-c.lines }

// testAnswer holds the members of an answer that tests check.
type testAnswer struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Error  *jsonrpc.Error
	Result json.RawMessage

	ProtocolVersion string
	Text            string
	IsError         bool
}

// answer returns the next line, which must be JSON-RPC.
func (c *rawClient) answer() testAnswer {
	c.t.Helper()
	line := c.line()
	require.NotEmpty(c.t, line, "stdout has ended")
	var a testAnswer
	require.NoError(c.t, json.Unmarshal([]byte(line), &a), line)
	var known struct {
		ProtocolVersion string
		IsError         bool
		Content         []struct{ Text string }
	}
	if json.Unmarshal(a.Result, &known) == nil {
		a.ProtocolVersion, a.IsError = known.ProtocolVersion, known.IsError
		if len(known.Content) > 0 {
			a.Text = known.Content[0].Text
		}
	}
	return a
}

// result returns the next line, which must be a result.
func (c *rawClient) result() testAnswer {
	c.t.Helper()
	a := c.answer()
	require.Nil(c.t, a.Error)
	require.NotEmpty(c.t, a.Result)
	return a
}

// requireNoOutput requires that the server writes nothing until all its goroutines are blocked.
func (c *rawClient) requireNoOutput() {
	c.t.Helper()
	synctest.Wait()
	require.Empty(c.t, c.lines)
}

// requireExit requires that the incarnation has ended, and returns its cause.
func (c *rawClient) requireExit() error {
	c.t.Helper()
	synctest.Wait()
	select {
	case err := <-c.ended:
		return err
	default:
		require.Fail(c.t, "the server still runs")
		return nil
	}
}

// requireRunning requires that the incarnation has not ended.
func (c *rawClient) requireRunning() {
	c.t.Helper()
	synctest.Wait()
	require.Empty(c.t, c.ended)
}

// requirePing requires that the server answers ping.
func (c *rawClient) requirePing(id int) {
	c.t.Helper()
	c.request(id, "ping", "{}")
	require.JSONEq(c.t, fmt.Sprint(id), string(c.result().ID))
}

// drain returns everything that is on stdout at present.
func (c *rawClient) drain() string {
	synctest.Wait()
	var b strings.Builder
	for len(c.lines) > 0 {
		b.WriteString(<-c.lines)
	}
	return b.String()
}
