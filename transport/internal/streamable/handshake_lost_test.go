package streamable

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// restartableServer is a legacy server that can lose its handshake, as one does that a
// wrapper has restarted on the same pipes.
type restartableServer struct {
	refusal   string // an error member, said instead of every answer but that to ping
	restarted atomic.Bool
	lists     atomic.Int32
	calls     atomic.Int32
	listWorks bool
}

func (f *restartableServer) answer(method string) string {
	refused := f.restarted.Load()
	switch method {
	case "tools/list":
		f.lists.Add(1)
		if !refused || f.listWorks {
			return `"result":{"tools":[]}`
		}
	case "tools/call":
		f.calls.Add(1)
		if !refused {
			return `"result":{"content":[{"type":"text","text":"hello"}]}`
		}
	case "initialize":
		f.restarted.Store(false)
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"forgetful","version":"1"}}`
	case "ping":
		return `"result":{}`
	default:
		return `"error":{"code":-32601,"message":"no such method"}`
	}
	return `"error":` + f.refusal
}

func (f *restartableServer) serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		var m transporttest.ClientMessage
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, f.answer(m.Method))
	}
	return lines.Err()
}

func (f *restartableServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m transporttest.ClientMessage
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		if m.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "s")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, f.answer(m.Method))
	}
}

// eachTransport runs a test over a pair of pipes and over HTTP.
func (f *restartableServer) eachTransport(t *testing.T, test func(t *testing.T, f *restartableServer, s transport.Session)) {
	t.Helper()
	fresh := func() *restartableServer { return &restartableServer{refusal: f.refusal, listWorks: f.listWorks} }
	t.Run("pipes", func(t *testing.T) {
		f := fresh()
		test(t, f, openPipes(t, f.serve))
	})
	t.Run("HTTP", func(t *testing.T) {
		f := fresh()
		_, addr := newClosableServer(t, "127.0.0.1:0", f)
		test(t, f, openSession(t, specFor("http://"+addr)))
	})
}

// TestHandshakeLost checks that a server which answers that it was never
// initialized ends its session, so that it is started again.
func TestHandshakeLost(t *testing.T) {
	for name, refusal := range map[string]string{
		"usual":       `{"code":-32002,"message":"Server not initialized"}`,
		"with advice": `{"code":-32002,"message":"Server not initialized. Send 'initialize' first."}`,
		"been":        `{"code":-32600,"message":"Server has not been initialized."}`,
		"go-sdk":      `{"code":0,"message":"method \"tools/call\" is invalid during session initialization"}`,
		"Python":      `{"code":-32602,"message":"Invalid request parameters","data":""}`,
		"Python, old": `{"code":-32600,"message":"Received request before initialization was complete"}`,
	} {
		t.Run(name, func(t *testing.T) {
			(&restartableServer{refusal: refusal}).eachTransport(t, func(t *testing.T, f *restartableServer, s transport.Session) {
				_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				requireServing(t, s)
				f.restarted.Store(true)
				e := requireCallFails(t, s)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome, "an answer is an answer")
				transporttest.RequireClosed(t, s.Dead(), "the session goes on without a handshake")
				require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
				require.Contains(t, s.Cause().Message, "restarted behind")
				require.EqualValues(t, 2, f.calls.Load(), "the call was repeated")
				transporttest.RequireClosed(t, s.Released(), "session is not released")
			})
		})
	}
}

// TestHandshakeLost_falseAlarm: an error of one tool that reads like it costs one list
// request, and then none for a while.
func TestHandshakeLost_falseAlarm(t *testing.T) {
	rows := map[string]struct {
		refusal string
		lists   int32
	}{
		"a tool's own words":    {`{"code":-32000,"message":"database not initialized"}`, 2},
		"wrong parameters":      {`{"code":-32602,"message":"Invalid request parameters"}`, 2},
		"another error":         {`{"code":-32000,"message":"no"}`, 1},
		"wrong parameters, why": {`{"code":-32602,"message":"Invalid request parameters: path is missing"}`, 1},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				f := &restartableServer{refusal: row.refusal, listWorks: true}
				s := openPipes(t, f.serve)
				_, err := s.Request(t.Context(), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				f.restarted.Store(true)
				for range 20 {
					requireCallFails(t, s)
					synctest.Wait()
				}
				require.Equal(t, row.lists, f.lists.Load())
				time.Sleep(time.Hour)
				requireCallFails(t, s)
				synctest.Wait()
				require.Equal(t, 2*row.lists-1, f.lists.Load(), "it may have changed since")
				require.Nil(t, s.Cause())
				f.restarted.Store(false)
				requireServing(t, s)
			})
		})
	}
}

// TestHandshakeLost_noListBefore: a server without a list that has worked is not asked.
func TestHandshakeLost_noListBefore(t *testing.T) {
	(&restartableServer{refusal: `{"code":-32002,"message":"Server not initialized"}`}).eachTransport(t, func(t *testing.T, f *restartableServer, s transport.Session) {
		f.restarted.Store(true)
		for range 3 {
			requireCallFails(t, s)
		}
		_, err := s.Request(transporttest.Context(t), transport.Request{Method: "ping"})
		require.NoError(t, err)
		require.Zero(t, f.lists.Load())
		require.Nil(t, s.Cause())
	})
}
