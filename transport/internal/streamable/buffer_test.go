package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// Large replies share the buffer of the server: replies that do not fit wait until another
// one is released. A canceled call releases its share, and at the end nothing is reserved.
func TestBuffer(t *testing.T) {
	const size, calls = 1 << 20, 8
	for name, events := range map[string]bool{"bodies": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				if events {
					startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, transporttest.Filler(size))
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, transporttest.Filler(size))
			})
			spec := specFor(web.URL)
			spec.Limits.MaxBufferBytes = size / 2
			s := openSession(t, spec)
			buffer := s.exchanger.table.buffer

			one := new(budget.Share)
			require.NoError(t, (<-transporttest.StartRequest(t.Context(), s, one)).Err)
			require.Greater(t, buffer.Used(), int64(size))
			ctx, cancel := context.WithCancel(t.Context())
			canceled := transporttest.StartRequest(ctx, s, nil)
			require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, transporttest.Patience, transporttest.TimeStep)
			cancel()
			transporttest.RequireFailed(t, canceled, mcpvisor.ErrCanceled)
			require.Eventually(t, func() bool { return buffer.Waiting() == 0 }, transporttest.Patience, transporttest.TimeStep)

			var all []<-chan transporttest.Answered
			for range calls {
				all = append(all, transporttest.StartRequest(t.Context(), s, nil))
			}
			require.Eventually(t, func() bool { return buffer.Waiting() == calls }, transporttest.Patience, transporttest.TimeStep)
			require.Less(t, buffer.Used(), int64(3*size), "waiting replies occupy little memory")
			one.Release()
			for _, done := range all {
				got := <-done
				require.NoError(t, got.Err)
				require.True(t, bytes.Equal(got.Result, []byte(transporttest.Filler(size))), "the result is whole")
			}
			require.Zero(t, buffer.Used(), "everything is released")
		})
	}
}

// Large events on the stream of HTTP+SSE share the buffer of the server, too. The end of the
// session ends the wait for room; the call fails by that end, and not for lack of room.
func TestBuffer_SSE(t *testing.T) {
	for name, ends := range map[string]bool{"room becomes free": false, "the session ends": true} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.WriteHeader(http.StatusAccepted)
				web.send("%s", `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+transporttest.Filler(2<<20)+`}`)
			})
			spec := sseSpec(web)
			spec.Limits.MaxBufferBytes = 1 << 20
			s := openSession(t, spec)
			buffer := s.exchanger.table.buffer
			one := new(budget.Share)
			require.NoError(t, (<-transporttest.StartRequest(t.Context(), s, one)).Err)
			require.Positive(t, buffer.Used())
			two := transporttest.StartRequest(t.Context(), s, nil)
			require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, transporttest.Patience, transporttest.TimeStep)
			if ends {
				s.Abort(transporttest.ErrGivenUp)
				transporttest.RequireFailed(t, two, mcpvisor.ErrClosed)
				one.Release()
			} else {
				one.Release()
				require.NoError(t, (<-two).Err)
			}
			require.Eventually(t, func() bool { return buffer.Used() == 0 }, transporttest.Patience, transporttest.TimeStep)
		})
	}
}

// The memory of an event that a broken stream cut short is released before the stream is
// resumed, because resuming can take minutes.
func TestBuffer_releasedBeforeResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64
		used.Store(-1)
		var s *session
		web, spec, _ := newResumingServer(t, "", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			used.Store(s.exchanger.table.buffer.Used())
			resumeCall(w, r, id)
		})
		opened := web.replies["tools/call"]
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			opened(w, r, id)
			startEvents(w)("id: a\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":\"%s", id, strings.Repeat("x", 300<<10))
			panic(http.ErrAbortHandler)
		})
		s = openSession(t, spec)
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		require.NoError(t, err)
		require.Zero(t, used.Load(), "while the stream is resumed")
		require.Zero(t, s.exchanger.table.buffer.Used())
	})
}
