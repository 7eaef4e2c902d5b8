package streamable

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A JSON-RPC error in the body of an error status is read whole, up to
// Limits.MaxMessageBytes.
func TestErrorStatus_longBody(t *testing.T) {
	data := strings.Repeat("x", 2*endpoint.MaxErrorBody)
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no","data":%q}}`, id, data)
	})
	rpc := testutil.AsError[*sdkrpc.Error](t, requireCallFails(t, openSession(t, specFor(web.URL))))
	require.Len(t, rpc.Data, len(data)+2)
}

// writeAndHold makes a handler that writes a body in pieces and without a length, and
// keeps the body open until the client leaves. $id in format is the id of the request.
func writeAndHold(web *httpServer, code int, format string) handler {
	return func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		text := strings.ReplaceAll(format, "$id", string(id))
		for len(text) > 0 {
			n := min(7, len(text))
			_, _ = io.WriteString(w, text[:n])
			w.(http.Flusher).Flush()
			text = text[n:]
		}
		web.hang(r)
	}
}

// An answer is delivered when its value is complete, although the body continues.
func TestBody_answerBeforeItsEnd(t *testing.T) {
	const result = `{"content":[{"type":"text","text":"}]\\\"{hello"}]}`
	rows := map[string]struct {
		code int
		text string
		kind mcpvisor.ErrorKind // empty: a result
	}{
		"object":                        {200, `{"jsonrpc":"2.0","id":$id,"result":` + result + `}`, ""},
		"object, line end":              {200, "\r\n " + `{"jsonrpc":"2.0","id":$id,"result":` + result + "}\n", ""},
		"pretty":                        {200, "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": $id,\n  \"result\": " + result + "\n}\n", ""},
		"byte order mark":               {200, "\ufeff" + `{"jsonrpc":"2.0","id":$id,"result":` + result + `}`, ""},
		"byte order mark, error status": {400, "\ufeff" + `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.ErrRPC},
		"batch":                         {200, `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":$id,"result":` + result + `}]`, ""},
		"error":                         {200, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.ErrRPC},
		"error status":                  {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.ErrRPC},
		"error status, no id":           {500, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`, mcpvisor.ErrRPC},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			s := openSession(t, specFor(web.URL))
			web.handle("tools/call", writeAndHold(web, row.code, row.text))
			got, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
			if row.kind == "" {
				require.NoError(t, err)
				require.JSONEq(t, result, string(got))
				return
			}
			e := testutil.AsError[*mcpvisor.Error](t, err)
			require.Equal(t, row.kind, e.Kind, e.Error())
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		})
	}
}

// A complete value that answers another request does not end the exchange.
func TestBody_otherValueBeforeItsEnd(t *testing.T) {
	web := newHTTPServer(t)
	s := openSession(t, specFor(web.URL))
	web.handle("tools/call", writeAndHold(web, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`))
	r := transporttest.ToolCall
	r.Timeout = 50 * time.Millisecond
	_, err := s.Request(transporttest.Context(t), r)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
}

// If the body ends shortly after the answer, the next call reuses its connection.
func TestBody_connectionReusedAfterEarlyAnswer(t *testing.T) {
	web := newHTTPServer(t)
	conns := map[string]bool{}
	end := make(chan struct{})
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		conns[r.RemoteAddr] = true
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"a":"hello"}}`, id)
		w.(http.Flusher).Flush()
		<-end
	})
	s := openSession(t, specFor(web.URL))
	for range 3 {
		requireServing(t, s)
		end <- struct{}{}
		require.Eventually(t, func() bool { return s.exchanger.table.size() == 0 }, transporttest.Patience, transporttest.TimeStep)
	}
	require.Len(t, conns, 1)
}

// A body that breaks after the answer does not affect the call.
func TestBody_breaksAfterAnswer(t *testing.T) {
	web := newHTTPServer(t)
	s := openSession(t, specFor(web.URL))
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"a":"hello"}}`, id)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	requireServing(t, s)
}

// A small result does not keep a much longer body in memory.
func TestCloneSmallPart_releasesBody(t *testing.T) {
	const size, calls = 1 << 20, 8
	pad := strings.Repeat("x", size)
	shapes := map[string]string{
		"object": `{"jsonrpc":"2.0","pad":"` + pad + `","id":$id,"result":$result}`,
		"batch":  `[{"jsonrpc":"2.0","id":"other","result":{"pad":"` + pad + `"}},{"jsonrpc":"2.0","id":$id,"result":$result}]`,
		"event":  "data: " + `{"jsonrpc":"2.0","pad":"` + pad + `","id":$id,"result":$result}` + "\n\n",
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			reply := func(result string) handler {
				return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
					w.Header().Set("Content-Type", "application/json")
					if name == "event" {
						w.Header().Set("Content-Type", "text/event-stream")
					}
					_, _ = io.WriteString(w, strings.NewReplacer("$id", string(id), "$result", result).Replace(shape))
				}
			}
			web.handle("tools/call", reply(`{"a":"hello"}`))
			web.handle("tools/list", reply(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`))
			s := openSession(t, specFor(web.URL))
			before := heap()
			var results []json.RawMessage
			var lists []json.RawMessage // kept, as discovery does
			for range calls {
				got, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
				require.NoError(t, err)
				results = append(results, got)
				list, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				lists = append(lists, list)
			}
			kept := int64(heap()) - int64(before)
			require.Less(t, kept, int64(2*size), "%d calls and lists keep their bodies in memory", calls)
			require.Len(t, results, calls)
			require.Contains(t, string(lists[0]), "inputSchema")
			runtime.KeepAlive(results)
			runtime.KeepAlive(lists)
		})
	}
}

// stallBody makes a handler that sends an error status and the beginning of its body, and
// then nothing more until the client leaves.
func stallBody(code int, text string) handler {
	return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
		<-r.Context().Done()
	}
}

// The body of an error status may stall: its status is the error, after BodyTimeout. A body
// that only arrives slowly is read to its end.
func TestErrorStatus_bodyStalls(t *testing.T) {
	slow := func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.WriteHeader(http.StatusBadRequest)
		for _, c := range fmt.Sprintf(`{"id":%s,"error":{"code":1,"message":"no"}}`, id) {
			time.Sleep(endpoint.BodyTimeout / 2)
			_, _ = w.Write([]byte(string(c)))
		}
	}
	rows := map[string]struct {
		reply handler
		kind  mcpvisor.ErrorKind
		after time.Duration // at least this, and less than the next second
	}{
		"no authorization":  {stallBody(401, ""), mcpvisor.ErrAuthRequired, endpoint.BodyTimeout},
		"too many requests": {stallBody(429, "slow down"), mcpvisor.ErrUnavailable, endpoint.BodyTimeout},
		"a cut answer":      {stallBody(500, `{"jsonrpc":"2.0","error":{"code":`), mcpvisor.ErrProtocol, endpoint.BodyTimeout},
		"a slow answer":     {slow, mcpvisor.ErrRPC, 10 * endpoint.BodyTimeout},
	}
	for name, row := range rows {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web := newMemoryTransport(t)
			s := openSession(t, web.spec())
			web.handle("tools/call", row.reply)
			began := time.Now()
			call := transporttest.ToolCall
			call.Timeout = time.Minute
			_, err := s.Request(t.Context(), call)
			e := testutil.AsError[*mcpvisor.Error](t, err)
			require.Equal(t, row.kind, e.Kind, e.Error())
			require.GreaterOrEqual(t, time.Since(began), row.after)
			require.Less(t, time.Since(began), 3*row.after)
			synctest.Wait() // the body is closed after its answer
			require.Empty(t, web.unclosed())
		})
	}
}

// A notification that the server refuses with a body that stalls does not delay the start.
func TestErrorStatus_bodyOfNotificationStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("notifications/initialized", stallBody(400, ""))
		began := time.Now()
		s := openSession(t, web.spec())
		require.LessOrEqual(t, time.Since(began), 2*endpoint.BodyTimeout)
		requireServing(t, s)
	})
}

// The empty body of a 404 proves that a request was not carried out only if it is known to
// be empty.
func TestErrorStatus_brokenBodyProvesNothing(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusNotFound)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	e := requireCallFails(t, openSession(t, specFor(web.URL)))
	require.Equal(t, mcpvisor.ErrCrashed, e.Kind, e.Error())
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
}

// Escape sequences and line breaks of a server do not appear in the error of a failed start.
func TestErrorText_failedOpen(t *testing.T) {
	const control = "[\x1b\r\n]"
	refusal := &sdkrpc.Error{Code: -32000, Message: "\x1b[2J no\r\nforged"}
	for _, err := range []error{refusal, fmt.Errorf("calling initialize: %w", refusal), fmt.Errorf("unsupported protocol version: %w", refusal), fmt.Errorf("odd\nend")} { //nolint:err113,perfsprint // a test
		require.NotRegexp(t, control, jsonrpc.OpenCause(t.Context(), err, nil).Message)
	}
	for _, text := range []string{"unsupported\x1b[2J", "text/plain"} {
		web := newHTTPServer(t)
		web.handle("initialize", replyStatus(400, "text/plain", "\x1b[2J"+text+"\rmore"))
		cause := requireOpenFails(t, specFor(web.URL))
		require.NotRegexp(t, control, cause.Message)
		require.NotContains(t, allTexts(cause), "\x1b")
	}
}
