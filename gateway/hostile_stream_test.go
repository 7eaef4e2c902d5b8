package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
)

// hostileStream is a host on a stream that misbehaves.
type hostileStream struct {
	t      *testing.T
	client *facade.Client
	conn   net.Conn
	*gatewaytest.LineHost
	ended <-chan error // of Serve
}

var hostileStreamRows = map[string]func(h *hostileStream){
	"frame/malformed": func(h *hostileStream) {
		h.SendWhileReading(func(send func(string)) {
			for _, frame := range gatewaytest.Frames(*hostileFrames, 2) {
				send(string(frame))
			}
		}, func(gatewaytest.Answer) {})
	},
	"frame/64-mib": func(h *hostileStream) {
		h.SendWhileReading(func(send func(string)) {
			send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", sized(64, 24)<<20) + `"}}`)
		}, func(a gatewaytest.Answer) { require.NotNil(h.t, a.Error) })
	},
	"frame/nested": func(h *hostileStream) {
		h.SendWhileReading(func(send func(string)) {
			send(gatewaytest.Nested(100_000))
			send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + gatewaytest.Nested(100_000) + `}`)
			send(strings.Repeat("[", 15<<20))
		}, func(a gatewaytest.Answer) { require.NotNil(h.t, a.Error) })
	},
	"frame/cut": func(h *hostileStream) {
		require.NoError(h.t, h.Write(toolCallOf(1, "fixture__echo", `{"text":"x"}`)[:20]))
		require.NoError(h.t, h.conn.Close())
		receive(h.t, h.ended)
	},
	"batch/where-none-are": func(h *hostileStream) { // its messages are answered one by one in every version
		calls := make([]string, 200)
		for i := range calls {
			calls[i] = toolCallOf(i, "fixture__echo", `{"text":"x"}`)
		}
		ids := map[string]bool{}
		h.SendWhileReading(func(send func(string)) { send("[" + strings.Join(calls, ",") + "]") }, func(a gatewaytest.Answer) {
			require.Nil(h.t, a.Error)
			ids[string(a.ID)] = true
		})
		until(h.t, func() bool {
			for len(ids) < len(calls) {
				ids[string(h.Next().ID)] = true
			}
			return true
		})
	},
	"batch/nothing": func(h *hostileStream) {
		h.SendWhileReading(func(send func(string)) {
			for _, line := range []string{"[]", "[[]]", "[1,2]", "[null]", `["x"]`, "[{}]"} {
				send(line)
			}
		}, func(a gatewaytest.Answer) { require.NotNil(h.t, a.Error) })
	},
	"batch/too-many": func(h *hostileStream) {
		h.SendWhileReading(func(send func(string)) {
			send("[" + strings.Repeat(pingRequest+",", 99_999) + pingRequest + "]")
		}, func(gatewaytest.Answer) {})
	},
	"batch/one-id": func(h *hostileStream) {
		hang := toolCallOf(1, "fixture__hang", `{}`)
		h.Send("[" + hang + "," + hang + "]")
		require.Contains(h.t, h.Next().Error.Message, "a request with this id is in flight")
	},
	"id/duplicate": func(h *hostileStream) {
		h.Send(toolCallOf(7, "fixture__hang", `{}`))
		until(h.t, func() bool { return hanging(h.client) == 1 })
		h.Send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
		require.Contains(h.t, h.Next().Error.Message, "a request with this id is in flight")
		require.Equal(h.t, 1, hanging(h.client))
	},
	"id/reused": func(h *hostileStream) {
		for range 500 {
			h.Send(pingRequest)
			require.Nil(h.t, h.Next().Error)
		}
	},
	"id/strange": func(h *hostileStream) {
		for id, bad := range gatewaytest.StrangeIDs() {
			h.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			a := h.Next()
			require.Equal(h.t, bad, a.Error != nil, "%.100s", id)
			if !bad {
				require.Equal(h.t, id, string(a.ID))
			}
		}
	},
	"answer/never-asked": func(h *hostileStream) {
		for i := range 500 {
			h.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept"}}`, i))
		}
	},
	"cancel/never-asked": func(h *hostileStream) {
		for i := range 500 {
			h.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		}
	},
	"flood/calls": func(h *hostileStream) {
		go func() { // nothing further is read of it
			for i := range 20_000 {
				if h.Write(toolCallOf(i, "fixture__hang", `{}`)+"\n") != nil {
					return
				}
			}
		}()
		until(h.t, func() bool { return hanging(h.client) == hostileLimits.MaxRequests })
		require.NoError(h.t, h.conn.Close())
		receive(h.t, h.ended)
	},
	"deaf/answer": func(h *hostileStream) {
		h.Send(toolCallOf(1, "fixture__big", `{"bytes":10000000}`))
		until(h.t, func() bool { return h.client.Stats().Calls > 0 && len(h.client.CallsInFlight()) == 0 })
	},
	"deaf/queue": func(h *hostileStream) {
		go func() {
			for i := range 14 { // hostileLimits.MaxUnreadBytes would take more
				if h.Write(toolCallOf(i, "fixture__big", `{"bytes":100000}`)+"\n") != nil {
					return
				}
			}
		}()
		require.ErrorIs(h.t, receive(h.t, h.ended), ErrPeerDoesNotRead)
	},
	"deaf/stream": func(h *hostileStream) {
		h.Send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)
		require.Nil(h.t, h.Next().Error)
		text, _ := json.Marshal(map[string]any{"text": strings.Repeat("x", 60_000)})
		for range 100 {
			_, err := h.client.CallTool(h.t.Context(), "fixture/log", json.RawMessage(text))
			require.NoError(h.t, err)
		}
	},
	"slow/frame": func(h *hostileStream) {
		for _, b := range []byte(pingRequest + "\n") {
			require.NoError(h.t, h.Write(string(b)))
		}
		require.Equal(h.t, "1", string(h.Next().ID))
	},
	"gone/in-a-call": func(h *hostileStream) {
		h.Send(toolCallOf(1, "fixture__hang", `{}`))
		until(h.t, func() bool { return hanging(h.client) == 1 })
		require.NoError(h.t, h.conn.Close())
		receive(h.t, h.ended)
		until(h.t, func() bool { return hanging(h.client) == 0 })
	},
	"task/of-another": func(h *hostileStream) {
		methods := []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"}
		ids := []string{"1", "the-task-of-another", strings.Repeat("x", 1<<16)}
		ask := func(method, id string) (code int, message string) {
			h.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q}}`, method, id))
			a := h.Next()
			require.NotNil(h.t, a.Error, "%s %.20s", method, id)
			return a.Error.Code, a.Error.Message
		}
		for _, method := range methods { // before it has declared tasks
			code, message := ask(method, ids[0])
			require.Equal(h.t, -32601, code)
			require.Equal(h.t, "method not found: "+method, message)
		}
		h.Send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"clientInfo":{"name":"x","version":"1"}}}`)
		require.Nil(h.t, h.Next().Error)
		for _, method := range methods[:3] {
			for _, id := range ids {
				code, message := ask(method, id)
				require.Equal(h.t, -32602, code, "%s %.20s", method, id)
				require.Equal(h.t, errUnknownTask.Message, message, "%s %.20s", method, id)
			}
		}
	},
	"end/idle": func(h *hostileStream) {
		require.NoError(h.t, h.conn.Close())
		require.NoError(h.t, receive(h.t, h.ended))
	},
	"end/in-a-frame": func(h *hostileStream) {
		h.Send(toolCallOf(1, "fixture__hang", `{}`))
		until(h.t, func() bool { return hanging(h.client) == 1 })
		require.NoError(h.t, h.Write(`{"jsonrpc":"2.0"`))
		require.NoError(h.t, h.conn.Close())
		receive(h.t, h.ended)
	},
}

var hostileStreamReasons = map[string]string{
	"frame/64-mib-unnamed":  "no length is said",
	"flood/streams":         "there is one stream",
	"slow/head":             "there is no head",
	"access/host":           "a stream is reached by no name",
	"access/origin":         "a stream is reached by no page",
	"access/token":          "who may use a stream is decided by who connects it",
	"access/audience":       "who may use a stream is decided by who connects it",
	"session/forged":        "a stream is its session",
	"session/of-another":    "a stream is its session",
	"session/expired":       "a stream is its session",
	"session/ended":         "a stream is its session",
	"end/before-initialize": "it is end/idle: these sessions are used without initialize",
}

func TestHostileStream_every_misbehaviour_has_a_row(t *testing.T) {
	gatewaytest.RequireRows(t, hostileStreamRows, hostileStreamReasons)
}

// What one host does on a stream, as that of mcpvisor wrap, costs a bounded amount of memory, has a clear error, and does
// not delay the others. Unless it ends the stream, or does not read, its session continues.
func TestHostileStream(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hostileStreamRows)) {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, fixture("fixture", mcptest.Script{}))
			transport := Transport(c, WithLimits(hostileLimits), WithNames(Names{}))
			other := openRaw(t, transport)
			require.NoError(t, other.callWith(1, "tools/call", `{"name":"fixture__echo","arguments":{"text":"x"}}`).Error)
			before, heap := runtime.NumGoroutine(), heapBytes()

			var served atomic.Int64
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := c.CallTool(context.Background(), "fixture/echo", map[string]any{"text": "x"}); err != nil {
						t.Error(err)
						return
					}
					served.Add(1)
				}
			}()
			near, far := net.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- Serve(t.Context(), transport, &mcp.IOTransport{Reader: near, Writer: near}) }()
			h := &hostileStream{t: t, client: c, conn: far, LineHost: &gatewaytest.LineHost{T: t, In: far, Out: bufio.NewReader(far)}, ended: ended}
			hostileStreamRows[name](h)
			require.Less(t, heapBytes()-heap, hostileHeap)
			seen := served.Load()
			until(t, func() bool { return served.Load() >= seen+20 })
			if !slices.Contains([]string{"frame/cut", "flood/calls", "deaf/answer", "deaf/queue", "gone/in-a-call", "end/idle", "end/in-a-frame"}, name) {
				h.SendWhileReading(func(func(string)) {}, func(gatewaytest.Answer) {})
			}
			_ = far.Close()
			close(stop)
			<-stopped
			require.NoError(t, other.callWith(2, "tools/call", `{"name":"fixture__echo","arguments":{"text":"x"}}`).Error)
			until(t, func() bool { return len(c.CallsInFlight()) == 0 && runtime.NumGoroutine() <= before+idleGoroutines })
			until(t, func() bool { return heapBytes()-heap < 16<<20 }) // buffers of encoders live until the next collection
		})
	}
}
