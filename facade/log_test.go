package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// lines collects what a logger writes.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// records are the lines as JSON objects, by the event that they report.
func (l *lines) records(t *testing.T) map[string]map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]map[string]any{}
	for line := range bytes.Lines(l.all.Bytes()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal(line, &record))
		if event, ok := record["event"].(string); ok {
			all[event] = record
		}
	}
	return all
}

// Records of a crash and of its retry have their facts as fields, with zerolog and slog
// alike.
func TestLog_fields(t *testing.T) {
	for _, kind := range []string{"zerolog", "slog"} {
		t.Run(kind, func(t *testing.T) {
			var out lines
			option := facade.WithLogger(zerolog.New(&out))
			if kind == "slog" {
				option = facade.WithSlog(slog.New(slog.NewJSONHandler(&out, nil)))
			}
			c, err := facade.New(option)
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}),
				Policy: supervisor.Retry(5, 5*time.Millisecond)}))
			first, _ := c.ServerStatus("s")
			_, err = c.CallTool(t.Context(), "s/crash", map[string]any{"code": 3})
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
			require.NoError(t, err)
			second, _ := c.ServerStatus("s")
			require.NoError(t, c.Close(t.Context()))

			all := out.records(t)
			down, retry, ready := all["down"], all["retry"], all["ready"]
			require.NotNil(t, retry)
			require.NotEqual(t, first.Session.PID, second.Session.PID)
			require.EqualValues(t, second.Session.PID, ready["pid"])
			require.EqualValues(t, second.Epoch, ready["epoch"])
			require.Contains(t, ready, "downtime")
			require.EqualValues(t, 1, retry["attempt"])
			require.EqualValues(t, 5, retry["max_attempts"])
			require.InDelta(t, 5, retry["delay"], 5, "milliseconds, with jitter")
			require.Equal(t, "exit", retry["cause"])
			require.EqualValues(t, 3, retry["exit_code"])
			require.Equal(t, "requested", down["cause"], "the last one is that of Close")
		})
	}
}

// The log messages of a call go only to its caller, on every transport.
func TestWithLogMessages_on_every_transport(t *testing.T) {
	onEveryTransportAndSSE(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		if !strings.Contains(t.Name(), "2026") {
			require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "info"))
		}
		events := watch(t, c, mcpvisor.EventLog)
		for i := range 3 {
			var got []mcpvisor.LogMessage
			text := fmt.Sprintf("message %d", i)
			_, err := c.CallToolRaw(t.Context(), "s/log", json.RawMessage(`{"level":"warning","text":"`+text+`"}`),
				facade.WithLogMessages("info", func(m mcpvisor.LogMessage) { got = append(got, m) }))
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, "warning", got[0].Level)
			require.Equal(t, text, got[0].Text)
		}
		if strings.Contains(t.Name(), "2026") {
			_, err := c.CallToolRaw(t.Context(), "s/log", json.RawMessage(`{"level":"info"}`), facade.WithLogMessages("error", func(mcpvisor.LogMessage) {
				t.Error("below the level of the call")
			}))
			require.NoError(t, err)
			require.Empty(t, events)
			return
		}
		call(t, c, "s/log", map[string]any{"text": "to watchers"})
		require.Equal(t, "to watchers", next(t, events).Log.Text)
	})
}

// Many calls at once: over HTTP each caller gets its own messages; on a pipe no caller gets those of
// another call.
func TestWithLogMessages_many_calls_at_once(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := registered(t, spec)
		require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "debug"))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				own := fmt.Sprintf("of caller %d", i)
				for range 10 { // below the rate limit
					got := 0
					_, err := c.CallToolRaw(t.Context(), "s/log", json.RawMessage(`{"text":"`+own+`"}`), facade.WithLogMessages("debug", func(m mcpvisor.LogMessage) {
						if got++; m.Text != own {
							t.Errorf("the caller of %q got %q", own, m.Text)
						}
					}))
					if err != nil || spec.HTTP != nil && got != 1 {
						t.Errorf("%d messages, %v", got, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestWithLogMessages_invalid(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})})
	_, err := c.CallToolRaw(t.Context(), "s/echo", nil, facade.WithLogMessages("loud", func(mcpvisor.LogMessage) {}))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
}

// The logger gets every crash, retry and eviction. All lines are written when Close
// returns.
func TestLogger_gets_supervision_events(t *testing.T) {
	var log testutil.LockedBuffer
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(1, time.Millisecond),
		InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithLogger(zerolog.New(&log)))
	events := c.Watch(t.Context())
	require.NoError(t, c.SetLoggingLevel(t.Context(), "s", "info"))
	_, err := c.CallTool(t.Context(), "s/log", map[string]any{"level": "error", "text": "out of paper"})
	require.NoError(t, err)
	for range 2 {
		_, err := c.CallTool(t.Context(), "s/crash", nil, facade.WithWaitReady())
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	}
	for e := range events {
		if e.Kind == mcpvisor.EventEvicted {
			break
		}
	}
	require.NoError(t, c.Close(t.Context()))

	type line struct{ Level, Server, Event, Message string }
	var got []line
	for text := range strings.Lines(log.String()) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		require.Equal(t, "s", l.Server)
		if l.Event == "" {
			require.Equal(t, line{"error", "s", "", "out of paper"}, l)
			continue
		}
		require.True(t, strings.HasPrefix(l.Message, "s "), l.Message)
		l.Message = ""
		got = append(got, l)
	}
	require.Contains(t, log.String(), "out of paper")
	require.Equal(t, []line{
		{"info", "s", "registered", ""}, {"debug", "s", "connecting", ""}, {"info", "s", "ready", ""},
		{"warn", "s", "down", ""}, {"warn", "s", "retry", ""}, {"debug", "s", "connecting", ""}, {"info", "s", "ready", ""},
		{"warn", "s", "down", ""}, {"error", "s", "evicted", ""}, {"info", "s", "unregistered", ""},
	}, got)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type panickingSampler struct{}

func (panickingSampler) Sample(zerolog.Level) bool { panic("in the logger") }

// A logger that panics costs its line, and ends neither a server nor the process.
func TestLogger_that_panics(t *testing.T) {
	panicking := zerolog.New(writerFunc(func([]byte) (int, error) { panic("in the logger") }))
	for name, logger := range map[string]zerolog.Logger{
		"writer":  panicking,
		"hook":    zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(*zerolog.Event, zerolog.Level, string) { panic("in the logger") })),
		"sampler": zerolog.New(io.Discard).Sample(panickingSampler{}),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := facade.New(facade.WithLogger(logger))
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "mem", InMemory: mcptest.InMemory(mcptest.Script{})}))
			require.NoError(t, c.Restart(t.Context(), "mem"))
			require.NoError(t, c.WaitReady(t.Context(), "mem"))
			_, err = c.CallTool(t.Context(), "mem/echo", map[string]any{"text": "hello"})
			require.NoError(t, err)
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// The host's logger adds, filters and writes as if the library wrote to it directly.
func TestLogger_of_host(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	base := zerolog.New(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}))
	hooked := zerolog.HookFunc(func(e *zerolog.Event, l zerolog.Level, text string) { e.Str("hook", l.String()+" "+text) })
	c, err := facade.New(facade.WithLogger(base.Level(zerolog.InfoLevel).With().Str("app", "host").Logger().Hook(hooked)))
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "mem", InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, c.Close(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Regexp(t, `\{"level":"info","app":"host","server":"mem","event":"ready","epoch":1,"start":[0-9.]+,"tools":\d+,"hook":"info [^"]*ready[^"]*","message":"[^"]*ready[^"]*"\}\n`, out.String())
	require.NotContains(t, out.String(), `"debug"`)
}

// saying are the lines of a log with that message.
func (l *lines) saying(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.all.Bytes()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal(line, &record))
		if record["message"] == message {
			found = append(found, record)
		}
	}
	return found
}

// A call that takes long is logged once, while it runs, and a timeout when it ends the call.
func TestLog_of_long_calls_and_timeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		c, err := facade.New(facade.WithLogger(zerolog.New(&out)))
		require.NoError(t, err)
		for _, name := range []string{"a", "b"} {
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: name, Era: mcpvisor.EraLegacy, Limits: mcpvisor.Limits{MaxInFlight: 1}, InMemory: rawServer(func(method, _ string) string {
				if method == "tools/call" || method == "resources/read" {
					return silence
				}
				return ""
			})}))
		}
		const long, timedOut = "a call takes long", "a call has timed out"
		ended := make(chan error, 4)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // is canceled in time
			_, err := c.CallTool(ctx, "a/x", nil)
			ended <- err
		}()
		time.Sleep(4 * time.Second)
		cancel()
		require.ErrorIs(t, <-ended, mcpvisor.ErrCanceled)
		go func() {
			_, err := c.CallTool(t.Context(), "a/x", nil, facade.WithTimeout(30*time.Second))
			ended <- err
		}()
		time.Sleep(2 * time.Second)
		go func() { // waits in the queue
			_, err := c.CallTool(t.Context(), "a/x", nil, facade.WithTimeout(7*time.Second))
			ended <- err
		}()
		go func() {
			_, err := c.ReadResource(t.Context(), "b", "x:a?token=secret", facade.WithTimeout(20*time.Second))
			ended <- err
		}()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, out.saying(t, long))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		require.Len(t, out.saying(t, long), 1, "while it runs")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, out.saying(t, long), 3)
		for range 3 {
			require.ErrorIs(t, <-ended, mcpvisor.ErrTimeout)
		}
		synctest.Wait()
		found := out.saying(t, long)
		require.Len(t, found, 3, "once each")
		first := found[0]
		for field, want := range map[string]any{"level": "warn", "server": "a", "method": "tools/call", "target": "x", "queued": false, "age": 5000.0} {
			require.Equal(t, want, first[field], field)
		}
		require.NotEqual(t, found[1]["queued"], found[2]["queued"])
		require.NotContains(t, out.all.String(), "secret")
		timeouts := out.saying(t, timedOut)
		require.Len(t, timeouts, 3)
		require.Equal(t, "not_sent", timeouts[0]["outcome"])
		require.Equal(t, "unknown", timeouts[1]["outcome"])
		require.InEpsilon(t, 7000.0, timeouts[0]["took"], 1e-9)
		require.NoError(t, c.Close(t.Context()))
	})
}

// However many calls take long, one look at them writes few lines.
func TestLog_of_many_long_calls_is_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		c, err := facade.New(facade.WithLogger(zerolog.New(&out)))
		require.NoError(t, err)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawAnswer("tools/call", silence)}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 40)
		for range cap(ended) {
			go func() {
				_, err := c.CallTool(ctx, "s/x", nil)
				ended <- err
			}()
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Len(t, out.saying(t, "a call takes long"), 10)
		more := out.saying(t, "further calls take long")
		require.Len(t, more, 1)
		require.EqualValues(t, 30, more[0]["calls"])
		cancel()
		for range cap(ended) {
			<-ended
		}
		require.NoError(t, c.Close(t.Context()))
	})
}
