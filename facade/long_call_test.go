package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

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
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
			if method == "tools/call" {
				return silence
			}
			return ""
		})}))
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
