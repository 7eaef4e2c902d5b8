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

// restartableServer is a legacy server that can lose its handshake, as a server does that
// a wrapper has restarted on the same pipes.
type restartableServer struct {
	refusal   string // the error member of all answers after a restart, except to ping
	restarted atomic.Bool
	lists     atomic.Int32
	calls     atomic.Int32
	listWorks bool
}

func (s *restartableServer) answer(method string) string {
	refused := s.restarted.Load()
	switch method {
	case "tools/list":
		s.lists.Add(1)
		if !refused || s.listWorks {
			return `"result":{"tools":[]}`
		}
	case "tools/call":
		s.calls.Add(1)
		if !refused {
			return `"result":{"content":[{"type":"text","text":"hello"}]}`
		}
	case "initialize":
		s.restarted.Store(false)
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"forgetful","version":"1"}}`
	case "ping":
		return `"result":{}`
	default:
		return `"error":{"code":-32601,"message":"no such method"}`
	}
	return `"error":` + s.refusal
}

func (s *restartableServer) serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		var m transporttest.ClientMessage
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, s.answer(m.Method))
	}
	return lines.Err()
}

func (s *restartableServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, s.answer(m.Method))
	}
}

// eachTransport runs a test over a pair of pipes and over HTTP.
func (s *restartableServer) eachTransport(t *testing.T, test func(t *testing.T, server *restartableServer, s transport.Session)) {
	t.Helper()
	newServer := func() *restartableServer { return &restartableServer{refusal: s.refusal, listWorks: s.listWorks} }
	t.Run("pipes", func(t *testing.T) {
		server := newServer()
		test(t, server, openPipes(t, server.serve))
	})
	t.Run("HTTP", func(t *testing.T) {
		server := newServer()
		_, addr := newClosableServer(t, "127.0.0.1:0", server)
		test(t, server, openSession(t, specFor("http://"+addr)))
	})
}

// A server that answers that it was never initialized ends its session, so that the server
// is started again.
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
			(&restartableServer{refusal: refusal}).eachTransport(t, func(t *testing.T, server *restartableServer, s transport.Session) {
				_, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				requireServing(t, s)
				server.restarted.Store(true)
				e := requireCallFails(t, s)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome, "the error is the answer to the call")
				transporttest.RequireClosed(t, s.Dead(), "the session is alive without a handshake")
				require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
				require.Contains(t, s.Cause().Message, "restarted behind")
				require.EqualValues(t, 2, server.calls.Load(), "the call was repeated")
				transporttest.RequireClosed(t, s.Released(), "session is not released")
			})
		})
	}
}

// An error of a tool that reads like a lost handshake causes one tools/list, and no further
// one for some time.
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
			synctest.Test(t, func(t *testing.T) {
				server := &restartableServer{refusal: row.refusal, listWorks: true}
				s := openPipes(t, server.serve)
				_, err := s.Request(t.Context(), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				server.restarted.Store(true)
				for range 20 {
					requireCallFails(t, s)
					synctest.Wait()
				}
				require.Equal(t, row.lists, server.lists.Load())
				time.Sleep(time.Hour)
				requireCallFails(t, s)
				synctest.Wait()
				require.Equal(t, 2*row.lists-1, server.lists.Load(), "after some time the server is checked again")
				require.Nil(t, s.Cause())
				server.restarted.Store(false)
				requireServing(t, s)
			})
		})
	}
}

// If no list request has ever succeeded, a failing list would prove nothing, so the server
// is not checked.
func TestHandshakeLost_noListBefore(t *testing.T) {
	(&restartableServer{refusal: `{"code":-32002,"message":"Server not initialized"}`}).eachTransport(t, func(t *testing.T, server *restartableServer, s transport.Session) {
		server.restarted.Store(true)
		for range 3 {
			requireCallFails(t, s)
		}
		_, err := s.Request(transporttest.Context(t), transport.Request{Method: "ping"})
		require.NoError(t, err)
		require.Zero(t, server.lists.Load())
		require.Nil(t, s.Cause())
	})
}
