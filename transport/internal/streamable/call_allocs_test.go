//go:build !race

package streamable

import (
	"bufio"
	"bytes"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// serveQuietly answers tool calls on loopback connections, and any other message as a
// legacy server does. It allocates nothing for a tool call, so that a test can measure the
// allocations of the client in the same process. before and after enclose the answer.
func serveQuietly(t *testing.T, contentType, before, after string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerQuietly(conn, contentType, before, after)
		}
	}()
	return "http://" + l.Addr().String()
}

// answerQuietly serves one connection until it is closed.
func answerQuietly(conn net.Conn, contentType, before, after string) {
	defer conn.Close()
	const maxRequest = 4 << 10
	in := bufio.NewReaderSize(conn, maxRequest)
	var request, body, out []byte
	for {
		request = request[:0]
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			request = append(request, line...)
			if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				for _, c := range bytes.TrimSpace(value) {
					length = 10*length + int(c-'0')
				}
			}
			if len(line) == len("\r\n") {
				break
			}
		}
		start := len(request)
		for range length {
			c, err := in.ReadByte()
			if err != nil {
				return
			}
			request = append(request, c)
		}
		_, id, _ := bytes.Cut(request[start:], []byte(`"id":`))
		id = id[:max(0, bytes.IndexAny(id, ",}"))]
		status, kind := "200 OK", contentType
		switch text := request[start:]; {
		case bytes.Contains(text, []byte(`"tools/call"`)):
			body = append(append(append(body[:0], before...), `{"jsonrpc":"2.0","id":`...), id...)
			body = append(append(body, `,"result":{"content":[{"type":"text","text":"hello"}]}}`...), after...)
		case bytes.Contains(text, []byte(`"initialize"`)):
			kind = "application/json"
			body = append(append(append(body[:0], `{"jsonrpc":"2.0","id":`...), id...),
				`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"quiet","version":"1"}}}`...)
		case bytes.Contains(text, []byte(`"server/discover"`)):
			kind = "application/json"
			body = append(append(append(body[:0], `{"jsonrpc":"2.0","id":`...), id...), `,"error":{"code":-32601,"message":"method not found"}}`...)
		case bytes.HasPrefix(request, []byte("POST")):
			status, body = "202 Accepted", body[:0]
		default:
			status, body = "405 Method Not Allowed", body[:0]
		}
		out = append(append(append(out[:0], "HTTP/1.1 "...), status...), "\r\nContent-Type: "...)
		out = append(append(append(out, kind...), "\r\nMcp-Session-Id: quiet\r\nContent-Length: "...), strconv.Itoa(len(body))...)
		out = append(append(out, "\r\n\r\n"...), body...)
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// The allocations of one call over HTTP/1.1, of net/http and of the session together. All
// but about a dozen are those of net/http. The race detector empties pools at random, so the
// test is not built with it.
func TestRequest_allocations(t *testing.T) {
	for _, row := range []struct {
		name, contentType, before, after string
		allocs, bytes                    float64
	}{
		{"JSON", "application/json", "", "", 60, 4850},
		{"event stream", "text/event-stream", "event: message\ndata: ", "\n\n", 62, 4950},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := openSession(t, specFor(serveQuietly(t, row.contentType, row.before, row.after)))
			ctx := transporttest.Context(t)
			allocs, bytes := testutil.Allocations(2000, func() {
				_, err := s.Request(ctx, transporttest.ToolCall)
				require.NoError(t, err)
			})
			t.Logf("%.1f allocations, %.0f bytes", allocs, bytes)
			require.LessOrEqual(t, allocs, row.allocs, "allocations")
			require.LessOrEqual(t, bytes, row.bytes, "bytes")
		})
	}
}

// The requests of a session share their header, because net/http does not change it.
func TestCallHeader_shared(t *testing.T) {
	s := openSession(t, specFor(newHTTPServer(t).URL))
	a := s.server.agreed.Load()
	allocs := testing.AllocsPerRun(100, func() { _, _ = s.calls.header(a, &transporttest.ToolCall) })
	require.Zero(t, allocs)
}
