package streamable

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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
		"byte order mark, error status": {400, "\ufeff" + `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
		"batch":                         {200, `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":$id,"result":` + result + `}]`, ""},
		"error":                         {200, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
		"error status":                  {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
		"error status, no id":           {500, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
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
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
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
