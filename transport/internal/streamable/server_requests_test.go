package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// Over HTTP a request in the stream of one call stops the clock of that call and
// of no other.
func TestServerRequests_pauseOwnCall(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		var calls atomic.Int64
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			say := startEvents(w)
			if calls.Add(1) == 1 {
				say("data: " + fmt.Sprintf(transporttest.ElicitRequest, 1) + "\n\n")
			}
			<-r.Context().Done()
		})
		s := NewDialer(web.spec().WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Handlers: transport.Handlers{
			ElicitForm: transporttest.AcceptAfter(func(context.Context) { time.Sleep(3 * time.Minute) })}}).NewSession()
		transporttest.ReleaseAtEnd(t, s)
		require.NoError(t, s.Open(transporttest.Context(t)))
		r := transporttest.ToolCall
		r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
		ended := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				began := time.Now()
				if _, err := s.Request(t.Context(), r); !errors.Is(err, mcpvisor.ErrTimeout) {
					t.Errorf("not a timeout: %v", err)
				}
				ended <- time.Since(began)
			}()
		}
		require.InDelta(t, time.Minute, <-ended, float64(time.Second))
		require.InDelta(t, 4*time.Minute, <-ended, float64(time.Second))
	})
}

// A server gets its id back as it has written it, whatever a decoder would make
// of it.
func TestServerRequests_idsVerbatim(t *testing.T) {
	ids := []string{"0", "-1", "9007199254740993", "18446744073709551617", "123456789012345678901234567890", "1.50", "1e3", `"a\u0062\/"`, `""`}
	t.Run("over_HTTP", func(t *testing.T) {
		web := newHTTPServer(t)
		replies := make(chan string, 1)
		web.handle("", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			sent := web.requests("")
			replies <- sent[len(sent)-1].body
		})
		web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			say := startEvents(w)
			for _, id := range ids {
				say("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}\n\n", id)
			}
			web.hang(r)
		})
		openSession(t, specFor(web.URL))
		var want, got []string
		for _, id := range ids {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
			got = append(got, <-replies)
		}
		require.ElementsMatch(t, want, got)
	})
}
