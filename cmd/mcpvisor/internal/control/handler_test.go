package control

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withHandler runs a test in a bubble, with the handler of one server.
func withHandler(t *testing.T, script mcptest.Script, test func(t *testing.T, h *Handler)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(script)}))
		h, err := New(c, Served{}, Info{})
		require.NoError(t, err)
		defer h.Close()
		test(t, h)
	})
}

// stoppedReader is a command that does not read an answer of status 200.
type stoppedReader struct {
	http.ResponseWriter
	status  int
	release <-chan struct{}
}

func (s *stoppedReader) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *stoppedReader) Write(p []byte) (int, error) {
	if s.status == 0 || s.status == http.StatusOK {
		<-s.release
		return 0, http.ErrHandlerTimeout
	}
	return s.ResponseWriter.Write(p)
}

// Commands that were stopped while they read hold no more than the room of the handler.
func TestAnswers_that_are_not_read(t *testing.T) {
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "large", Text: strings.Repeat("x", 2<<20)}}}
	for range 240 {
		script.Tools = append(script.Tools, mcptest.ToolDef{Name: "t" + strings.Repeat("x", len(script.Tools)%60) + string(rune('a'+len(script.Tools)/60)), Description: strings.Repeat("x", 8_000)})
	}
	for _, line := range []string{"GET /run/tools", "POST /run/call?tool=s/large"} {
		withHandler(t, script, func(t *testing.T, h *Handler) {
			const roomMB = 12
			h.answers = jsonanswer.NewRoom(roomMB << 20)
			release := make(chan struct{})
			var serving sync.WaitGroup
			recorders := make([]*httptest.ResponseRecorder, 24)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range recorders {
				recorders[i] = httptest.NewRecorder()
				method, path, _ := strings.Cut(line, " ")
				r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
				serving.Go(func() { h.ServeHTTP(&stoppedReader{ResponseWriter: recorders[i], release: release}, r) })
			}
			synctest.Wait()
			runtime.GC()
			runtime.GC() // what a pool has kept is free after the second
			runtime.ReadMemStats(&after)
			held := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20
			close(release)
			serving.Wait()
			require.LessOrEqual(t, held, int64(roomMB+8), "MB are held, of 48")
			require.Zero(t, h.answers.Held())
			require.Zero(t, h.bodies.Held())
			if method, _, _ := strings.Cut(line, " "); method == http.MethodGet {
				refused := 0
				for _, w := range recorders {
					if w.Code != http.StatusOK {
						refused++
						require.Contains(t, w.Body.String(), `"kind":"overloaded"`)
					}
				}
				require.Positive(t, refused)
				require.Less(t, refused, len(recorders))
			}
		})
	}
}

// The record of a call that came over the socket names the command.
func TestCall_names_its_client(t *testing.T) {
	withHandler(t, mcptest.Script{}, func(t *testing.T, h *Handler) {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/run/call?tool=s/echo", bytes.NewBufferString(`{"text":"x"}`)))
		calls, _ := h.client.History().Calls(0)
		require.Len(t, calls, 1)
		require.Equal(t, "mcpvisor call", calls[0].Client)
	})
}

func TestBodies_that_are_not_one_object(t *testing.T) {
	withHandler(t, mcptest.Script{}, func(t *testing.T, h *Handler) {
		post := func(path, body string) api.ErrorDetail {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewBufferString(body)))
			var answer api.ErrorAnswer
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
			return answer.Error
		}
		for _, body := range []string{"", "null", "[]", `{"server":"s"} x`, `{"server":"s"}{}`, `{"sever":"s"}`, `{"server":5}`, "{"} {
			for _, path := range []string{"/run/read", "/run/prompt"} {
				detail := post(path, body)
				require.Equal(t, mcpvisor.ErrInvalid, detail.Kind, "%s %s: %s", path, body, detail.Message)
				require.Equal(t, mcpvisor.OutcomeNotSent, detail.Outcome, "%s %s: %s", path, body, detail.Message)
			}
		}
		for _, path := range []string{"/run/call?tool=s/echo&timeout=9223372036855s", "/run/call?tool=s/echo&timeout=5", "/run/call?tool=s/echo&timeout=x"} {
			require.Equal(t, mcpvisor.ErrInvalid, post(path, "{}").Kind, path)
		}
		for _, body := range []string{"{} x", "{}{}", "[]", "null x", "5"} {
			require.Equal(t, mcpvisor.ErrInvalid, post("/run/call?tool=s/echo", body).Kind, body)
		}
		require.Zero(t, h.bodies.Held())
	})
}

// A restart with drain ends no call of a server that is in use all the time: calls that come meanwhile wait.
func TestHandler_restart_with_drain(t *testing.T) {
	script := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageAnswer, Tool: "echo", Do: mcptest.ActionDelay, Delay: 400 * time.Millisecond}}}
	withHandler(t, script, func(t *testing.T, h *Handler) {
		var stop atomic.Bool
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 130 * time.Millisecond)
				for !stop.Load() {
					if _, err := h.client.CallTool(t.Context(), "s/echo", nil, facade.WithWaitReady()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(time.Second)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/servers/s/restart?drain=true", nil)
		r.Header.Set("Content-Type", "application/json")
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusAccepted, w.Code, w.Body.String())
		time.Sleep(2 * time.Second)
		stop.Store(true)
		callers.Wait()
		got, _ := h.client.ServerStatus("s")
		require.Equal(t, uint64(2), got.Epoch)
	})
}
