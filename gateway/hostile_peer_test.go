package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// hostileLimits are those of the rows of TestHostilePeer.
var hostileLimits = Limits{MaxRequests: 16, MaxWaiting: 64, MaxRequestBytes: 4 << 20, MaxUnreadBytes: 4 << 20, MaxSubscriptions: 50, MaxListens: 4, StallTimeout: time.Second}

// idleGoroutines may begin after a server has become ready, without any peer. TestMain finds
// what stays for good.
const idleGoroutines = 5

// What one hostile peer may cost, whatever it does, with these limits.
const (
	hostileGoroutines = 400
	hostileHeap       = 48 << 20
)

// hostilePeer is a peer that misbehaves. Its session is on the transport of others.
type hostilePeer struct {
	raw
	client *facade.Client
	ctx    context.Context // ends at the end of the row
}

// flood writes n requests, from another goroutine, until the session ends or the row does. It
// returns when all are written, or one waits for room.
func (p hostilePeer) flood(n int, message func(i int) *jsonrpc.Request) {
	p.t.Helper()
	written := p.floodOn(n, message)
	q := &p.session().session.requests
	until(p.t, func() bool {
		select {
		case <-written:
			return true
		default:
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.outside.Len() > 0
	})
}

// floodOn is flood that does not wait. The channel is closed at the end, after the error of a
// Write that failed.
func (p hostilePeer) floodOn(n int, message func(i int) *jsonrpc.Request) <-chan error {
	written := make(chan error, 1)
	go func() {
		defer close(written)
		for i := range n {
			if err := p.conn.Write(p.ctx, message(i)); err != nil {
				written <- err
				return
			}
		}
	}()
	return written
}

func (p hostilePeer) session() *connection { return p.conn.(*connection) }

// readAll reads everything, from another goroutine, until the session or the row ends, and
// passes the answers to f.
func (p hostilePeer) readAll(f func(*jsonrpc.Response)) {
	go func() {
		for {
			m, err := p.conn.Read(p.ctx)
			if err != nil {
				return
			}
			if answer, ok := m.(*jsonrpc.Response); ok {
				f(answer)
			}
		}
	}()
}

// requireEnd reads until the session ends, with that error.
func (p hostilePeer) requireEnd(want error) {
	p.t.Helper()
	for {
		m, err := p.conn.Read(p.ctx)
		if m == nil {
			require.ErrorIs(p.t, err, want)
			return
		}
	}
}

func number(i int) jsonrpc.ID {
	id, _ := jsonrpc.MakeID(float64(i + 1))
	return id
}

func text1(id, method, params string) *jsonrpc.Request {
	made, _ := jsonrpc.MakeID(id)
	return &jsonrpc.Request{ID: made, Method: method, Params: json.RawMessage(params)}
}

// numbered returns a function that makes requests with the same params and other ids.
func numbered(method, params string) func(i int) *jsonrpc.Request {
	return func(i int) *jsonrpc.Request {
		return &jsonrpc.Request{ID: number(i), Method: method, Params: json.RawMessage(params)}
	}
}

const megabyte = 1 << 20

// A peer that misbehaves costs a bounded number of goroutines and a bounded amount of memory,
// the others are served meanwhile, and nothing of it is left at the end.
func TestHostilePeer(t *testing.T) {
	quoted := strings.Repeat("x", megabyte)
	for name, misbehave := range map[string]func(p hostilePeer){
		"pings, and reads nothing": func(p hostilePeer) {
			p.flood(20_000, numbered("ping", "{}"))
			q := &p.session().session.requests
			q.mu.Lock()
			defer q.mu.Unlock()
			require.Equal(p.t, hostileLimits.MaxRequests, q.inFlight)
			require.Len(p.t, q.line, hostileLimits.MaxWaiting)
		},
		"lists, and reads nothing": func(p hostilePeer) {
			p.flood(20_000, numbered("tools/list", "{}"))
			out := p.session().exchange.out
			until(p.t, func() bool { return len(p.session().session.slotsOf().listing) == 1 && len(out.wake) == 1 })
			out.mu.Lock()
			defer out.mu.Unlock()
			require.LessOrEqual(p.t, len(out.queue), 1, "lists are made one at a time")
		},
		"calls that hang": func(p hostilePeer) {
			p.flood(20_000, numbered("tools/call", `{"name":"a/hang"}`))
			until(p.t, func() bool { return len(p.client.CallsInFlight()) == hostileLimits.MaxRequests })
		},
		"calls that hang, and cancels them": func(p hostilePeer) {
			for i := range sized(2_000, 400) {
				p.send(float64(i), "tools/call", `{"name":"a/hang"}`)
				p.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, i))
			}
		},
		"cancels what it never asked": func(p hostilePeer) {
			for i := range sized(50_000, 5_000) {
				p.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, i))
			}
			p.notify("notifications/cancelled", `{"requestId":`+strings.Repeat("[", megabyte)+strings.Repeat("]", megabyte)+`}`)
			require.NoError(p.t, p.call("ping", "").Error, "and it is served")
		},
		"one id for all requests": func(p hostilePeer) {
			refused := make(chan *jsonrpc.Response, 20_000)
			p.readAll(func(a *jsonrpc.Response) { refused <- a })
			p.flood(5_000, func(int) *jsonrpc.Request { return numbered("tools/call", `{"name":"a/hang"}`)(0) })
			require.ErrorContains(p.t, receive(p.t, refused).Error, "a request with this id is in flight")
			require.LessOrEqual(p.t, len(p.client.CallsInFlight()), 1)
		},
		"the same id after each answer": func(p hostilePeer) {
			for range sized(2_000, 400) {
				require.NoError(p.t, p.call("ping", "").Error)
			}
		},
		"does not read large results": func(p hostilePeer) {
			ended := p.floodOn(1_000, numbered("tools/call", `{"name":"a/big","arguments":{"bytes":1000000}}`))
			until(p.t, func() bool { return p.session().session.ctx.Err() != nil })
			require.ErrorIs(p.t, receive(p.t, ended), ErrPeerDoesNotRead)
			until(p.t, func() bool { return p.session().exchange.out.held() == 0 })
			p.requireEnd(ErrPeerDoesNotRead)
			require.ErrorIs(p.t, p.conn.Write(p.ctx, nil), ErrPeerDoesNotRead)
		},
		"subscribes to more than it may": func(p hostilePeer) {
			for i := range sized(3_000, 300) {
				p.send(1, "resources/subscribe", fmt.Sprintf(`{"uri":"mcptest://echo/%d"}`, i))
				answer := p.answer()
				if i >= hostileLimits.MaxSubscriptions {
					require.ErrorContains(p.t, answer.Error, "the session has 50 subscriptions, which is the most")
				} else {
					require.NoError(p.t, answer.Error)
				}
			}
		},
		"subscribes and unsubscribes": func(p hostilePeer) {
			p.readAll(func(*jsonrpc.Response) {})
			<-p.floodOn(200, func(i int) *jsonrpc.Request {
				return numbered("resources/"+[]string{"subscribe", "unsubscribe"}[i%2], fmt.Sprintf(`{"uri":"mcptest://echo/%d"}`, i/2))(i)
			})
			until(p.t, func() bool { return len(p.session().session.requests.byIDs()) == 0 })
		},
		"listens to a million resources": func(p hostilePeer) {
			uris := strings.Repeat(`"mcptest://echo/x",`, 60)
			require.ErrorContains(p.t, p.call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":[`+uris[:len(uris)-1]+`]}}`).Error, "have 60 URIs; use at most 50")
			uris = strings.Repeat(`"x",`, 1_000_000)
			require.ErrorContains(p.t, p.call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":[`+uris[:len(uris)-1]+`]}}`).Error, "more than 10000 values")
		},
		"listens a thousand times": func(p hostilePeer) {
			refused := make(chan *jsonrpc.Response, 2_000)
			p.readAll(func(a *jsonrpc.Response) { refused <- a })
			<-p.floodOn(1_000, func(i int) *jsonrpc.Request {
				return numbered("subscriptions/listen", fmt.Sprintf(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mcptest://echo/%d"]}}`, i))(i)
			})
			for range 1_000 - hostileLimits.MaxListens {
				require.ErrorContains(p.t, receive(p.t, refused).Error, "4 requests subscriptions/listen are in flight, which is the most")
			}
			until(p.t, func() bool { return p.session().session.notify.Count().Listeners == hostileLimits.MaxListens })
		},
		"listens and cancels": func(p hostilePeer) {
			p.readAll(func(*jsonrpc.Response) {})
			for i := range 500 {
				p.send(float64(i), "subscriptions/listen", fmt.Sprintf(`{"notifications":{"resourceSubscriptions":["mcptest://echo/%d"]}}`, i))
				p.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, i))
			}
		},
		"does not read progress": func(p hostilePeer) {
			p.flood(hostileLimits.MaxRequests, func(i int) *jsonrpc.Request {
				return numbered("tools/call", `{"name":"a/slow_progress","arguments":{"steps":2000},"_meta":{"progressToken":1}}`)(i)
			})
			until(p.t, func() bool { return p.client.Stats().Calls >= uint64(hostileLimits.MaxRequests) })
			out := p.session().exchange.out
			out.mu.Lock()
			defer out.mu.Unlock()
			require.LessOrEqual(p.t, len(out.queue), 2*hostileLimits.MaxRequests, "one report of each request")
		},
		"does not read progress, and cancels": func(p hostilePeer) {
			out := p.session().exchange.out
			reports := func() int {
				out.mu.Lock()
				defer out.mu.Unlock()
				return len(out.queue)
			}
			for i := range sized(100, 25) {
				p.send(float64(i), "tools/call", `{"name":"a/slow_progress","arguments":{"steps":1000000,"ms":1,"x":"`+quoted+`"},"_meta":{"progressToken":1}}`)
				until(p.t, func() bool { return reports() == 1 })
				p.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, i))
				until(p.t, func() bool { return reports() == 0 })
			}
		},
		"huge ids": func(p hostilePeer) {
			p.flood(1_000, func(i int) *jsonrpc.Request { return text1(fmt.Sprint(i)+quoted, "tools/call", `{"name":"a/hang"}`) })
		},
		"huge tokens": func(p hostilePeer) {
			p.flood(1_000, numbered("tools/call", `{"name":"a/slow_progress","arguments":{"steps":100},"_meta":{"progressToken":"`+quoted+`"}}`))
		},
		"cursors that are junk": func(p hostilePeer) {
			const none, all, refused = 0, 1, 2
			for cursor, want := range map[string]int{
				"%": refused, "YS9i%": refused, "YQ": refused, // no base64; a key, and then none; no key
				quoted: refused, strings.Repeat("A", megabyte): refused, // no key
				"Lw": all, // the key of an entry before all others
				base64.RawURLEncoding.EncodeToString([]byte("z/" + quoted)): none,
			} {
				for method, entry := range map[string]string{"tools/list": `"name":`, "prompts/list": `"name":`, "resources/list": `"uri":`, "resources/templates/list": `"uriTemplate":`} {
					answer := p.call(method, `{"cursor":"`+cursor+`"}`)
					if want == refused {
						require.ErrorContains(p.t, answer.Error, "the cursor is not one of this session", "%s %.10s", method, cursor)
						require.Less(p.t, answerBytes(answer), 4<<10)
						continue
					}
					require.NoError(p.t, answer.Error)
					whole := p.call(method, "{}")
					if want == all {
						require.Equal(p.t, string(whole.Result), string(answer.Result))
						require.Contains(p.t, string(answer.Result), entry)
					} else {
						require.NotContains(p.t, string(answer.Result), entry)
						require.NotContains(p.t, string(answer.Result), "nextCursor")
					}
				}
			}
		},
		"completes with huge values": func(p hostilePeer) {
			ref := `"ref":{"type":"ref/resource","uri":"mcptest://echo/{text}"}`
			require.Error(p.t, p.call("completion/complete", `{`+ref+`,"argument":{"name":"text","value":"`+quoted+`"}}`).Error)
			members := strings.Repeat(`"":"",`, 20_000)
			require.ErrorContains(p.t, p.call("completion/complete", `{`+ref+`,"argument":{"name":"text","value":""},"context":{"arguments":{`+members+`"x":""}}}`).Error, "more than 10000 values")
			require.ErrorContains(p.t, p.call("resources/read", `{"uri":"`+quoted+`"}`).Error, "the URI is 1048576 bytes long")
			name := p.call("prompts/get", `{"name":"`+quoted+`"}`)
			require.Less(p.t, len(name.Error.Error()), 500)
		},
		"huge names": func(p hostilePeer) {
			for range sized(20, 3) {
				require.Less(p.t, answerBytes(p.call("tools/call", `{"name":"`+quoted+`"}`)), 4<<10)
				require.Less(p.t, answerBytes(p.call("tools/call", `{"name":"a/`+quoted+`"}`)), 4<<10)
				require.Less(p.t, answerBytes(p.call(quoted, "{}")), 4<<10)
				require.Less(p.t, answerBytes(p.call("logging/setLevel", `{"level":"`+quoted+`"}`)), 4<<10)
				require.Less(p.t, answerBytes(p.call("ping", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+quoted+`"}}`)), 4<<10)
			}
		},
		"sets the level of log messages": func(p hostilePeer) {
			p.flood(2_000, numbered("logging/setLevel", `{"level":"emergency"}`))
		},
		"params with many values": func(p hostilePeer) {
			const n = 100
			answers := make(chan *jsonrpc.Response, n)
			p.readAll(func(a *jsonrpc.Response) { answers <- a })
			require.NoError(p.t, <-p.floodOn(n, numbered("resources/subscribe", `{"uri":"mcptest://echo/x","_meta":{"a":[`+strings.Repeat("0,", 200_000)+`0]}}`)))
			for range n {
				require.ErrorContains(p.t, receive(p.t, answers).Error, "params have more than 10000 values")
			}
			require.Zero(p.t, p.session().session.notify.Count().Subscriptions)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, fixture("a", mcptest.Script{ExtraTools: 500, Versions: []string{"2025-11-25"}}))
			transport := Transport(c, WithLimits(hostileLimits))
			other := openRaw(t, transport)
			require.NoError(t, other.callWith(1, "tools/call", `{"name":"a/echo","arguments":{"text":"x"}}`).Error)
			before, heap := runtime.NumGoroutine(), heapBytes()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := hostilePeer{openRaw(t, transport), c, ctx}
			misbehave(p)
			require.Less(t, runtime.NumGoroutine()-before, hostileGoroutines)
			require.Less(t, heapBytes()-heap, hostileHeap)
			require.NoError(t, other.callWith(2, "tools/call", `{"name":"a/echo","arguments":{"text":"x"}}`).Error, "others are served")
			require.NoError(t, p.conn.Close())
			cancel()
			until(t, func() bool { return len(c.CallsInFlight()) == 0 && nothingHeld(transport)() })
			until(t, func() bool { return runtime.NumGoroutine() <= before+idleGoroutines })
		})
	}
}

// byIDs returns the requests that have not ended.
func (rs *requests) byIDs() []jsonrpc.ID {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var ids []jsonrpc.ID
	for id := range rs.byID {
		ids = append(ids, id)
	}
	return ids
}

// held returns the bytes of the answers that wait.
func (o *outbox) held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// heapBytes is what is reachable.
func heapBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// While a request waits for room, cancellations pass, and make room.
func TestWrite_waits_for_room(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	limits := Limits{MaxRequests: 2, MaxWaiting: 2}
	s := openRaw(t, Transport(c, WithLimits(limits)))
	for i := range 4 {
		s.send(float64(i), "tools/call", `{"name":"a/hang"}`)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.conn.Write(ended, numbered("ping", "")(7)), context.Canceled)
	written := make(chan error, 1)
	go func() { written <- s.conn.Write(t.Context(), numbered("ping", "")(7)) }()
	until(t, func() bool {
		q := &s.conn.(*connection).session.requests
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.outside.Len() == 1
	})
	s.notify("notifications/cancelled", `{"requestId":3}`) // it waits in line
	s.notify("notifications/cancelled", `{"requestId":1}`)
	require.NoError(t, receive(t, written))
	s.notify("notifications/cancelled", `{"requestId":0}`)
	s.notify("notifications/cancelled", `{"requestId":2}`)
	require.Equal(t, number(7), s.read().(*jsonrpc.Response).ID)
	until(t, func() bool { return len(c.CallsInFlight()) == 0 })

	for i := range 4 {
		s.send(float64(i), "tools/call", `{"name":"a/hang"}`)
	}
	go func() { written <- s.conn.Write(t.Context(), numbered("ping", "")(8)) }()
	require.NoError(t, s.conn.Close())
	require.ErrorIs(t, receive(t, written), mcp.ErrConnectionClosed)
}

// A request that waits for room lets the smaller ones behind it in when it is given up.
func TestWrite_is_canceled_before_a_smaller_request(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c, WithLimits(Limits{MaxRequestBytes: 4 * requestCost})))
	q := &s.conn.(*connection).session.requests
	waiting := func(n int) {
		t.Helper()
		until(t, func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.outside.Len() == n
		})
	}
	s.send(1, "tools/call", `{"name":"a/hang"}`)
	ctx, cancel := context.WithCancel(t.Context())
	large, small := make(chan error, 1), make(chan error, 1)
	go func() {
		large <- s.conn.Write(ctx, numbered("ping", `{"x":"`+strings.Repeat("x", 3*requestCost)+`"}`)(6))
	}()
	waiting(1)
	go func() { small <- s.conn.Write(t.Context(), numbered("ping", "")(7)) }()
	waiting(2)
	cancel()
	require.ErrorIs(t, receive(t, large), context.Canceled)
	require.NoError(t, receive(t, small))
	require.Equal(t, number(7), s.read().(*jsonrpc.Response).ID)
}

func write(stream net.Conn, text string) error {
	_, err := io.WriteString(stream, text)
	return err
}
