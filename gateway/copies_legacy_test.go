package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// dual is a server of the go-sdk in memory, which speaks both eras. Its tools may ask the client before 2026-07-28
// only. The tool who answers with the number of its incarnation, from 1.
type dual struct {
	started, running, most atomic.Int32  // most: that ran at one time
	may                    chan struct{} // not nil: an incarnation starts when it is closed
	refuses                bool          // ends when it gets initialize
}

func (d *dual) spec() mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "a", InMemory: &mcpvisor.InMemory{Serve: d.serve}, StartSupervised: d.may != nil,
		Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
}

func (d *dual) serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
	n := d.started.Add(1)
	d.most.Store(max(d.most.Load(), d.running.Add(1)))
	defer d.running.Add(-1)
	if d.may != nil {
		select {
		case <-d.may:
		case <-ctx.Done():
			return nil
		}
	}
	ctx, crash := context.WithCancel(ctx)
	defer crash()
	s := mcp.NewServer(&mcp.Implementation{Name: "dual", Version: "1"}, nil)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "initialize" && d.refuses {
				crash()
				return nil, ctx.Err()
			}
			return next(call, method, r)
		}
	})
	tool := func(name string, answer func(context.Context, *mcp.CallToolRequest) (string, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			text, err := answer(ctx, r)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	tool("who", func(context.Context, *mcp.CallToolRequest) (string, error) { return strconv.Itoa(int(n)), nil })
	tool("crash", func(context.Context, *mcp.CallToolRequest) (string, error) { crash(); return "", nil })
	tool("ask", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d %s", n, answer.Action), nil
	})
	return s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
}

// askBefore lets a tool ask a host whose call comes before the server is ready.
func (d *dual) askBefore(t *testing.T, host *mcp.ClientSession) {
	t.Helper()
	answered := make(chan string, 1)
	go func() {
		r, err := host.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/ask"})
		if err == nil {
			answered <- textOf(r)
		}
		close(answered)
	}()
	until(t, func() bool { return d.started.Load() >= 1 })
	close(d.may)
	require.Equal(t, "2 accept", receive(t, answered))
}

// asking are the options of a host that answers elicitations.
func asking() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept"}, nil
	}}
}

// silent are the options of a host that answers nothing.
func silent() *mcp.ClientOptions { return &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}} }

// ofDual calls a tool.
func ofDual(t *testing.T, s *mcp.ClientSession, tool string) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__" + tool})
	return text(t, r, err)
}

// hostOf opens a session over HTTP.
func hostOf(t *testing.T, url, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return connect(t, &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}, version, opts)
}

// A server that speaks both eras has one process more for all sessions before 2026-07-28 that answer questions,
// over every transport, and none for others. Without such a session it ends.
func TestLegacy_one_process_for_all_who_are_asked(t *testing.T) {
	d := new(dual)
	c := newClient(t, d.spec())
	var settings SettingsVar
	_, url := serveHTTP(t, c, WithSettings(&settings), WithHTTPLimits(HTTPLimits{SessionIdle: time.Millisecond}))
	in := Transport(c, WithNames(Names{}), WithSettings(&settings), WithHTTPLimits(HTTPLimits{SessionIdle: time.Millisecond}))

	modern, quiet := hostOf(t, url, "2026-07-28", asking()), hostOf(t, url, "2025-11-25", silent())
	require.Equal(t, "1", ofDual(t, modern, "who"))
	require.Equal(t, "1", ofDual(t, quiet, "who"))
	require.EqualValues(t, 1, d.started.Load(), "no client needs a second process")
	shown := func() []int { status, _ := c.ServerStatus("a"); return status.Copies }
	require.Empty(t, shown())

	one := connect(t, in, "2025-11-25", asking())
	require.Equal(t, "2 accept", ofDual(t, one, "ask"))
	require.Equal(t, "2 accept", ofDual(t, hostOf(t, url, "2025-11-25", asking()), "ask"))
	require.Equal(t, "2", ofDual(t, connect(t, in, "2025-06-18", asking()), "who"))
	require.Equal(t, "1", ofDual(t, modern, "who"))
	require.Equal(t, "1", ofDual(t, quiet, "who"))
	require.EqualValues(t, 2, d.started.Load(), "all of them share it")
	status, _ := c.ServerStatus("a")
	require.EqualValues(t, 7, status.Calls.Total, "the calls count for the server")
	require.Equal(t, []string{"a"}, c.Servers())
	require.Equal(t, []int{0}, shown(), "it is in memory")

	require.NoError(t, one.Close())
	require.Equal(t, "2", ofDual(t, connect(t, in, "2025-11-25", asking()), "who"))
}

// The second process ends when no session that needs it is left, and starts again for the next one.
func TestLegacy_ends_when_idle(t *testing.T) {
	d := new(dual)
	c := newClient(t, d.spec())
	s, url := serveHTTP(t, c, WithHTTPLimits(HTTPLimits{SessionIdle: time.Millisecond}))
	for _, who := range []string{"2", "3"} {
		host := hostOf(t, url, "2025-11-25", asking())
		r, err := host.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__who"})
		if got := text(t, r, err); got != who { // the session is not active between its requests
			require.Equal(t, "2", who)
		}
		require.NoError(t, host.Close())
		until(t, func() bool { return d.running.Load() == 1 })
		until(t, func() bool { status, _ := c.ServerStatus("a"); return len(status.Copies) == 0 })
	}
	settings := s.gateway.opts.settings
	settings.legacyMu.Lock()
	defer settings.legacyMu.Unlock()
	require.Zero(t, settings.legacy[c].use.users)
}

// A request that comes before the server has been ready waits, as does its copy: nothing is known of the versions that the server speaks.
func TestLegacy_before_the_server_is_ready(t *testing.T) {
	for _, share := range []Share{ShareAll, ShareClient} {
		d := &dual{may: make(chan struct{})}
		host := connect(t, Transport(newClient(t, d.spec()), WithNames(Names{}), withShare(share), WithMaxWait(patience)), "2025-11-25", asking())
		d.askBefore(t, host)
	}
}

// The policy of the server starts a second process that has crashed; the first one does not notice.
func TestLegacy_crash(t *testing.T) {
	d := new(dual)
	c := newClient(t, d.spec())
	g := Transport(c, WithNames(Names{}))
	host := connect(t, g, "2025-11-25", asking())
	require.Equal(t, "2", ofDual(t, host, "who"))
	_, _ = host.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__crash"})
	until(t, func() bool { return d.started.Load() == 3 })
	require.Equal(t, "3 accept", ofDual(t, host, "ask"))
	status, _ := c.ServerStatus("a")
	require.Zero(t, status.Restarts)
	require.EqualValues(t, 2, d.running.Load())
}

// A server that is replaced or restarted has a new second process.
func TestLegacy_reload_and_restart(t *testing.T) {
	d := new(dual)
	c := newClient(t, d.spec())
	host := connect(t, Transport(c, WithNames(Names{}), WithMaxWait(patience)), "2025-11-25", asking())
	require.Equal(t, "2 accept", ofDual(t, host, "ask"))
	spec := d.spec()
	spec.Origin, spec.Secrets = "changed", []string{"some-secret"}
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	require.Equal(t, "4 accept", ofDual(t, host, "ask"), "3 is the server that is registered")
	until(t, func() bool { return d.running.Load() == 2 })

	require.NoError(t, c.Restart(t.Context(), "a"))
	until(t, func() bool { return d.started.Load() >= 5 })
	until(t, func() bool {
		r, err := host.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__who"})
		return err == nil && !r.IsError && textOf(r) == "6"
	})
	until(t, func() bool { return d.running.Load() == 2 })

	spec.Era = mcpvisor.EraModern
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	require.Equal(t, "7", ofDual(t, host, "who"), "now the configuration allows one era only")
	until(t, func() bool { return d.running.Load() == 1 })
}

// A server of one era, or one that may not have a second process, gets no copy.
func TestLegacy_none_for(t *testing.T) {
	for name, change := range map[string]func(*mcpvisor.ServerSpec){
		"a pinned version": func(s *mcpvisor.ServerSpec) { s.Era = mcpvisor.EraModern },
		"a pinned old one": func(s *mcpvisor.ServerSpec) { s.Era = mcpvisor.EraLegacy },
	} {
		t.Run(name, func(t *testing.T) {
			d := new(dual)
			spec := d.spec()
			change(&spec)
			host := connect(t, Transport(newClient(t, spec), WithNames(Names{})), "2025-11-25", asking())
			require.Equal(t, "1", ofDual(t, host, "who"))
			require.EqualValues(t, 1, d.started.Load())
		})
	}
}

// A copy of a server with ShareClient speaks the era of its client.
func TestShare_era_of_the_client(t *testing.T) {
	d := new(dual)
	c := newClient(t, d.spec())
	_, url := serveHTTP(t, c, withShare(ShareClient))
	p := openUser(t, url, "")
	p.do(t.Context(), http.MethodDelete, "")
	host := hostOf(t, url, "2025-11-25", asking())
	require.Equal(t, "2 accept", ofDual(t, host, "ask"))
	require.Equal(t, "3 accept", ofDual(t, hostOf(t, url, "2025-11-25", asking()), "ask"))
}

// An exclusive server takes the era of the first host that uses it. It never has a second process.
func TestExclusive_era_of_the_first_host(t *testing.T) {
	exclusive := func(t *testing.T, d *dual) (*facade.Client, mcp.Transport, string) {
		spec := d.spec()
		spec.Exclusive = true
		c := newAskingClient(t, nil, spec)
		s, url := serveHTTP(t, c, WithMaxWait(patience))
		return c, Transport(c, WithNames(Names{}), WithSettings(s.gateway.opts.settings), WithMaxWait(patience)), url
	}
	t.Run("one before 2026-07-28 that is asked", func(t *testing.T) {
		d := new(dual)
		c, in, url := exclusive(t, d)
		modern := hostOf(t, url, "2026-07-28", asking())
		host := connect(t, in, "2025-11-25", asking())
		require.Equal(t, "2 accept", ofDual(t, host, "ask"))
		require.Equal(t, "2 accept", ofDual(t, modern, "ask"), "a session of the legacy era serves hosts of both")
		require.Equal(t, "2 accept", ofDual(t, hostOf(t, url, "2025-11-25", asking()), "ask"))
		status, _ := c.ServerStatus("a")
		require.True(t, status.LastCause.Asked())
		require.EqualValues(t, 3, status.Calls.Total)
		_, _ = host.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__crash"})
		until(t, func() bool { return d.started.Load() == 3 })
		require.Equal(t, "3 accept", ofDual(t, host, "ask"), "the next process keeps the era")
		require.EqualValues(t, 1, d.most.Load())
	})
	t.Run("one whose call wakes the server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := new(dual)
			spec := d.spec()
			spec.Exclusive, spec.Start, spec.IdleStop = true, mcpvisor.StartLazy, idle
			c := newAskingClient(t, nil, spec)
			require.Equal(t, supervisor.StateAsleep, stateOf(t, c, "a"))
			host := connect(t, Transport(c, WithNames(Names{})), "2025-11-25", asking())
			require.Equal(t, "2 accept", ofDual(t, host, "ask"))
			fallAsleep(t, c, "a")
			require.Equal(t, "3 accept", ofDual(t, host, "ask"), "the next process keeps the era")
		})
	})
	for name, first := range map[string]struct {
		version string
		opts    *mcp.ClientOptions
	}{"one of 2026-07-28": {"2026-07-28", asking()}, "one that is not asked": {"2025-11-25", silent()}} {
		t.Run(name, func(t *testing.T) {
			d := new(dual)
			_, in, url := exclusive(t, d)
			require.Equal(t, "1", ofDual(t, hostOf(t, url, first.version, first.opts), "who"))
			require.Equal(t, "1", ofDual(t, connect(t, in, "2025-11-25", asking()), "who"))
			require.EqualValues(t, 1, d.started.Load())
		})
	}
	t.Run("one that comes before the server is ready", func(t *testing.T) {
		d := &dual{may: make(chan struct{})}
		_, in, _ := exclusive(t, d)
		host := connect(t, in, "2025-11-25", asking())
		d.askBefore(t, host)
		require.EqualValues(t, 1, d.most.Load())
	})
	t.Run("a server that refuses the legacy era", func(t *testing.T) { // it is asked once
		d := &dual{refuses: true}
		_, in, _ := exclusive(t, d)
		host := connect(t, in, "2025-11-25", asking())
		require.Equal(t, "3", ofDual(t, host, "who"))
		require.Equal(t, "3", ofDual(t, host, "who"))
		require.EqualValues(t, 3, d.started.Load())
	})
}
