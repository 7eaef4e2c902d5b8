package streamable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// writeAndHold writes text in pieces without a length, and keeps the body open
// until the client leaves.
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

// TestBody_answerBeforeItsEnd checks that an answer is delivered when its value is
// complete, although the body goes on.
func TestBody_answerBeforeItsEnd(t *testing.T) {
	const result = `{"content":[{"type":"text","text":"}]\\\"{hello"}]}`
	rows := map[string]struct {
		code int
		text string
		kind mcpvisor.ErrorKind // empty: a result
	}{
		"object":              {200, `{"jsonrpc":"2.0","id":$id,"result":` + result + `}`, ""},
		"object, line end":    {200, "\r\n " + `{"jsonrpc":"2.0","id":$id,"result":` + result + "}\n", ""},
		"pretty":              {200, "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": $id,\n  \"result\": " + result + "\n}\n", ""},
		"batch":               {200, `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":$id,"result":` + result + `}]`, ""},
		"error":               {200, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
		"error status":        {400, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
		"error status, no id": {500, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`, mcpvisor.KindRPC},
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

// TestBody_otherValueBeforeItsEnd: a complete value that answers something
// else does not end the exchange.
func TestBody_otherValueBeforeItsEnd(t *testing.T) {
	web := newHTTPServer(t)
	s := openSession(t, specFor(web.URL))
	web.handle("tools/call", writeAndHold(web, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`))
	r := transporttest.ToolCall
	r.Timeout = 50 * time.Millisecond
	_, err := s.Request(transporttest.Context(t), r)
	require.ErrorIs(t, err, mcpvisor.ErrTimeout)
}

// TestBody_connectionReusedAfterEarlyAnswer: a body that ends a moment after the
// answer leaves its connection for the next call.
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
		require.Eventually(t, func() bool { return s.exchanges.size() == 0 }, transporttest.Patience, transporttest.TimeStep)
	}
	require.Len(t, conns, 1)
}

// TestBody_breaksAfterAnswer: what happens to a body behind its answer costs nothing.
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

// TestValueEnd checks that the end of a JSON object or array is found at its last
// byte, however it is cut into parts.
func TestValueEnd(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		value := rapid.OneOf(
			rapid.Map(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())), func(m map[string][]string) any { return m }),
			rapid.Map(rapid.SliceOf(rapid.StringMatching(`[\[\]{}"\\a]{0,8}`)), func(l []string) any { return l }),
		).Draw(t, "value")
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return rapid.StringMatching(`[ \n]{0,3}`).Draw(t, "before") + string(b)
	})
	rapid.Check(t, func(t *rapid.T) {
		whole := []byte(text.Draw(t, "text"))
		var end valueEnd
		for at := 0; at < len(whole); {
			if end.reached(whole[:at]) {
				t.Fatalf("ended at %d of %q", at, whole)
			}
			at += min(rapid.IntRange(1, 9).Draw(t, "part"), len(whole)-at)
		}
		if !end.reached(whole) || !end.reached(append(whole, " \n"...)) {
			t.Fatalf("no end of %q", whole)
		}
		if end.reached(append(whole, '{')) {
			t.Fatalf("an end with more behind it")
		}
	})
	for _, text := range []string{"", " ", "42", `"{}"`, "null", "x{}", "]"} {
		var end valueEnd
		require.False(t, end.reached([]byte(text)), text)
	}
}

// TestDetachPart_releasesBody checks that what is kept of an answer does not keep a body
// that is much longer.
func TestDetachPart_releasesBody(t *testing.T) {
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
			var lists []json.RawMessage // discovery keeps them: schemas share their memory
			for range calls {
				got, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
				require.NoError(t, err)
				results = append(results, got)
				list, err := s.Request(transporttest.Context(t), transport.Request{Method: "tools/list"})
				require.NoError(t, err)
				lists = append(lists, list)
			}
			kept := int64(heap()) - int64(before)
			require.Less(t, kept, int64(2*size), "%d calls and lists keep their bodies", calls)
			require.Len(t, results, calls)
			require.Contains(t, string(lists[0]), "inputSchema")
			runtime.KeepAlive(results)
			runtime.KeepAlive(lists)
		})
	}
}

// TestReadUpTo checks how much of a body is read, and what remains of it.
func TestReadUpTo(t *testing.T) {
	long := strings.Repeat("x", 5000)
	got, ended, err := (&BodyReader{Body: iotest.OneByteReader(strings.NewReader(long))}).ReadUpTo(5000, -1, nil)
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, long, string(got))
	_, _, err = (&BodyReader{Body: strings.NewReader(long)}).ReadUpTo(4999, -1, nil)
	require.ErrorIs(t, err, ErrTooLong)
	_, _, err = (&BodyReader{Body: strings.NewReader(long)}).ReadUpTo(math.MaxInt, 6000, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	broken := errors.New("reset")
	_, _, err = (&BodyReader{Body: io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken))}).ReadUpTo(100, -1, nil)
	require.ErrorIs(t, err, broken)
	_, ended, err = (&BodyReader{Body: io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(broken))}).ReadUpTo(100, -1, func(b []byte) bool { return bytes.Equal(b, []byte("{}")) })
	require.NoError(t, err)
	require.False(t, ended)
}

// TestBody_whiteSpaceBehindOtherValue checks that a complete value that is not the
// answer is looked at once, however much white space follows it.
func TestBody_whiteSpaceBehindOtherValue(t *testing.T) {
	for name, read := range map[string]func(b *BodyReader, enough func([]byte) bool) error{
		"answer": func(b *BodyReader, enough func([]byte) bool) error {
			_, _, err := b.ReadUpTo(1<<20, -1, enough)
			return err
		},
		"error status": func(b *BodyReader, enough func([]byte) bool) error {
			if _, err := b.Read(40, enough); err != nil {
				return err
			}
			_, err := b.Read(1<<20, enough)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			body := BodyReader{Body: iotest.OneByteReader(strings.NewReader(" \n{\"a\": {}} " + strings.Repeat(" \r\n\t", 100)))}
			require.NoError(t, read(&body, func([]byte) bool { asked++; return false }))
			require.Equal(t, 1, asked)
			require.Len(t, body.Text, 412, "all of it is kept")
		})
	}
}
