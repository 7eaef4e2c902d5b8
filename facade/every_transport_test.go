package facade_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// onEveryTransport runs f for servers in memory, behind a transport of the go-sdk, as a
// process and over HTTP, in both eras.
func onEveryTransport(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	retry := supervisor.Retry(supervisor.Unlimited, time.Millisecond)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		script := mcptest.Script{Versions: []string{version}}
		t.Run("memory "+version, func(t *testing.T) {
			t.Parallel()
			f(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script), Policy: retry})
		})
		t.Run("custom "+version, func(t *testing.T) {
			t.Parallel()
			f(t, mcpvisor.ServerSpec{Name: "s", Transport: overTransport(mcptest.InMemory(script)), Policy: retry})
		})
		t.Run("process "+version, func(t *testing.T) {
			t.Parallel()
			f(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(script), Policy: retry})
		})
		t.Run("HTTP "+version, func(t *testing.T) {
			t.Parallel()
			var opts []mcptest.HTTPOption
			if version == "2026-07-28" {
				opts = append(opts, mcptest.WithStateless())
			}
			web := mcptest.NewHTTP(script, opts...)
			t.Cleanup(web.Close)
			webs.Store(t.Name(), web)
			f(t, mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL}, Policy: retry})
		})
	}
}

// overTransport connects to a server in memory over a transport of the go-sdk.
func overTransport(server *mcpvisor.InMemory) *mcpvisor.Transport {
	return &mcpvisor.Transport{Target: "a pair of pipes", New: func(ctx context.Context) (mcp.Transport, error) {
		stdin, toServer := io.Pipe()
		fromServer, stdout := io.Pipe()
		go func() {
			_ = stdout.CloseWithError(server.Serve(ctx, stdin, stdout, io.Discard))
			_ = stdin.Close()
		}()
		return &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil
	}}
}

// countCalls returns a server that counts the tool calls that it has read, over all its
// incarnations. A test waits for the count before it ends the server in the middle of a call:
// a call is in flight before its first byte is sent.
func countCalls(server *mcpvisor.InMemory) (*mcpvisor.InMemory, *atomic.Int64) {
	count := new(atomic.Int64)
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		return server.Serve(ctx, &callCounter{stdin, bufio.NewReader(stdin), nil, count}, stdout, stderr)
	}}, count
}

// callCounter is a stdin that counts the lines with a tool call.
type callCounter struct {
	io.Closer
	from  *bufio.Reader
	line  []byte // the rest of the last line
	count *atomic.Int64
}

func (c *callCounter) Read(p []byte) (int, error) {
	if len(c.line) == 0 {
		var err error
		if c.line, err = c.from.ReadBytes('\n'); err != nil {
			return copy(p, c.line), err
		}
		if bytes.Contains(c.line, []byte(`"tools/call"`)) {
			c.count.Add(1)
		}
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// watch buffers the events of some kinds.
func watch(t *testing.T, c *facade.Client, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event {
	t.Helper()
	out := make(chan mcpvisor.Event, 1000)
	events := c.Watch(t.Context())
	go func() {
		for e := range events {
			for _, kind := range kinds {
				if e.Kind == kind {
					out <- e
				}
			}
		}
	}()
	return out
}

// next returns the next event, or fails the test.
func next(t *testing.T, events <-chan mcpvisor.Event) mcpvisor.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the event never came")
		panic("unreachable")
	}
}

func call(t *testing.T, c *facade.Client, tool string, args map[string]any) {
	t.Helper()
	r, err := c.CallTool(t.Context(), tool, args, facade.WithWaitReady())
	require.NoError(t, err)
	require.False(t, r.IsError, "%v", r.Content)
}

func lists(c *facade.Client, tool string) bool {
	for t := range c.AllTools() {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// until repeats done, which makes its own pauses, until it returns true.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		require.True(t, time.Now().Before(deadline), "it never came true")
	}
}

// crash ends the server. One over HTTP is started again on the same port; there the loss
// of the session is noticed when it is used.
func crash(t *testing.T, c *facade.Client) {
	t.Helper()
	if web, ok := webs.Load(t.Name()); ok {
		web.(*mcptest.HTTPServer).Restart()
		until(t, func() bool {
			_, err := c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
			return err == nil
		})
		return
	}
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
}

// webs are the HTTP servers of onEveryTransport, by the name of their test.
var webs sync.Map

// metaServer is a server of the go-sdk whose tool meta returns the _meta of its call.
func metaServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "meta", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "meta"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		text, err := json.Marshal(r.Params.Meta)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, err
	})
	s.AddPrompt(&mcp.Prompt{Name: "meta"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, err := json.Marshal(r.Params.Meta)
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: string(text)}}}}, err
	})
	return s
}

// metaServerVariable makes the test binary serve metaServer on its standard streams.
const metaServerVariable = "MCPVISOR_TEST_META_SERVER"

func serveMetaOnStdio() {
	if os.Getenv(metaServerVariable) == "" {
		return
	}
	_ = metaServer().Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// onEveryMetaServer runs f with a metaServer over each transport, in each era that it has.
func onEveryMetaServer(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	stdio := &mcpvisor.Stdio{Command: program, Env: map[string]string{metaServerVariable: "1"}}
	serve := func(h http.Handler) string {
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		return web.URL
	}
	one := func(*http.Request) *mcp.Server { return metaServer() }
	legacy, modern := serve(mcp.NewStreamableHTTPHandler(one, nil)), serve(mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true}))
	sse := serve(mcp.NewSSEHandler(one, nil))
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"legacy memory": {Era: mcpvisor.EraLegacy, InMemory: facade.ServeInMemory(metaServer())},
		"modern memory": {Era: mcpvisor.EraModern, InMemory: facade.ServeInMemory(metaServer())},
		"legacy stdio":  {Era: mcpvisor.EraLegacy, Stdio: stdio},
		"modern stdio":  {Era: mcpvisor.EraModern, Stdio: stdio},
		"legacy HTTP":   {Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: legacy}},
		"modern HTTP":   {Era: mcpvisor.EraModern, HTTP: &mcpvisor.HTTP{URL: modern}},
		"HTTP+SSE":      {HTTP: &mcpvisor.HTTP{URL: sse, SSE: true}},
	} {
		spec.Name = "s"
		t.Run(name, func(t *testing.T) { f(t, spec) })
	}
}
