package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// peer is the far end of a pair of pipes of lines.
type peer struct {
	t     *testing.T
	conn  net.Conn
	lines chan string
}

func newPeer(t *testing.T, conn net.Conn) *peer {
	p := &peer{t: t, conn: conn, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(conn); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	return p
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		_, err := io.WriteString(p.conn, line+"\n")
		require.NoError(p.t, err)
	}
}

// next requires the next line to be this JSON.
func (p *peer) next(want string) {
	p.t.Helper()
	line, ok := <-p.lines
	require.True(p.t, ok, "ended, want %s", want)
	require.JSONEq(p.t, want, line)
}

// none requires that nothing else has been sent.
func (p *peer) none() {
	p.t.Helper()
	synctest.Wait()
	select {
	case line := <-p.lines:
		require.Fail(p.t, "unexpected", "%s", line)
	default:
	}
}

// scene is a bridge between a host and processes that the test plays.
type scene struct {
	t     *testing.T
	host  *peer
	dials chan chan dialed
	ended chan error
}

type dialed struct {
	rw  io.ReadWriteCloser
	err error
}

// play runs f with a bridge, in a bubble.
func play(t *testing.T, f func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := &scene{t: t, host: newPeer(t, far), dials: make(chan chan dialed), ended: make(chan error, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			s.ended <- Run(ctx, near, near, Options{Log: t.Logf, Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
				answer := make(chan dialed)
				select {
				case s.dials <- answer:
					got := <-answer
					return got.rw, got.err
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}})
			_ = near.Close()
		}()
		f(t, s)
		cancel()
		_ = far.Close()
		for range s.host.lines { // more than it has room for may have come
		}
		synctest.Wait()
	})
}

// connect answers the next dial.
func (s *scene) connect() *peer {
	near, p := s.pipe()
	(<-s.dials) <- dialed{rw: near}
	return p
}

// passOn sends a line of the host, which the peer must get, and passBack one of the peer, which the host must get.
func (s *scene) passOn(p *peer, line string) {
	s.t.Helper()
	s.host.send(line)
	p.next(line)
}

func (s *scene) passBack(p *peer, line string) {
	s.t.Helper()
	p.send(line)
	s.host.next(line)
}

// reconnect ends the connection of a peer, and connects another one.
func (s *scene) reconnect(p *peer) *peer {
	_ = p.conn.Close()
	return s.connect()
}

// playSetUp is play with a connection over which the host has set its session up.
func playSetUp(t *testing.T, f func(t *testing.T, s *scene, p *peer)) {
	play(t, func(t *testing.T, s *scene) {
		p := s.connect()
		s.setUp(p)
		f(t, s, p)
	})
}

// pipe makes a connection, and returns its far end as a peer.
func (s *scene) pipe() (near net.Conn, p *peer) {
	near, far := net.Pipe()
	return near, newPeer(s.t, far)
}

func ask(id any, method, params string) string {
	text, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, text, method, params)
}

func answer(id any, result string) string {
	text, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, text, result)
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// setUp has the host initialize its session.
func (s *scene) setUp(p *peer) {
	s.passOn(p, ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`))
	s.passBack(p, answer(0, `{"protocolVersion":"2025-11-25"}`))
	s.passOn(p, initialized)
}

// resume answers what the bridge repeats on a new connection, from the id of its number.
func (s *scene) resume(p *peer, number int, more ...string) {
	p.next(ask(fmt.Sprintf("mcpvisor-%d", number), "initialize", `{"protocolVersion":"2025-11-25"}`))
	p.send(answer(fmt.Sprintf("mcpvisor-%d", number), `{"protocolVersion":"2025-11-25"}`))
	p.next(initialized)
	for i, line := range more {
		p.next(line)
		p.send(answer(fmt.Sprintf("mcpvisor-%d", number+1+i), `{}`))
	}
}

// Messages pass in both directions, and the requests of the process keep apart from those of
// the host.
func TestRun_passes_messages(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(ask("a", "tools/call", `{"name":"x","arguments":{"n":1.0}}`))
		require.Equal(t, ask("a", "tools/call", `{"name":"x","arguments":{"n":1.0}}`), <-p.lines)
		p.send(ask("a", "elicitation/create", `{}`))
		s.host.next(ask("mcpvisor-1", "elicitation/create", `{}`))
		s.host.send(answer("mcpvisor-1", `{"action":"accept"}`))
		p.next(answer("a", `{"action":"accept"}`))
		s.passBack(p, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		s.passBack(p, answer("a", `{"content":[]}`))
		// A message over several lines of text, and a batch, are messages of one line each.
		s.host.send(`[` + ask(1, "ping", `{}`) + `,` + ask(2, "ping", `{}`) + `]`)
		p.next(ask(1, "ping", `{}`))
		p.next(ask(2, "ping", `{}`))
		p.send(answer(2, `{}`), answer(1, `{}`))
		s.host.next(answer(2, `{}`))
		s.host.next(answer(1, `{}`))
		s.host.send(`{"id":`)
		s.host.next(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this is not a JSON-RPC message: it is not JSON, or nested deeper than 1000 levels"}}`)
		p.none()
	})
}

// When the process ends, the session is set up at the next one, what only reads is sent again,
// and a call is answered with what is known of it.
func TestRun_connection_ends(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(ask(1, "logging/setLevel", `{"level":"info"}`), ask(2, "resources/subscribe", `{"uri":"a:b"}`), ask(3, "resources/subscribe", `{"uri":"c:d"}`), ask(4, "resources/unsubscribe", `{"uri":"c:d"}`))
		for id := 1; id <= 4; id++ {
			<-p.lines
			s.passBack(p, answer(id, `{}`))
		}
		s.host.send(ask(5, "tools/call", `{"name":"x"}`), ask(6, "tools/list", `{}`), ask(7, "tools/call", `{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`), ask(8, "tasks/cancel", `{}`))
		for range 4 {
			<-p.lines
		}
		p.send(ask(1, "sampling/createMessage", `{}`))
		s.host.next(ask("mcpvisor-1", "sampling/createMessage", `{}`))
		_ = p.conn.Close()
		const text = "Internal Error: mcpvisor run ended during the request. It may have been executed, so do not repeat it blindly."
		result := `"isError":true,"content":[{"type":"text","text":"` + text + `"}],"structuredContent":{"code":"ended","message":"` + text + `","isRetryable":false}`
		s.host.next(answer(5, `{`+result+`}`))
		s.host.next(answer(7, `{`+result+`,"resultType":"complete"}`))
		s.host.next(`{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"mcpvisor run ended during the request. It may have been executed, so do not repeat it blindly.","data":{"outcome":"unknown"}}}`)
		s.host.next(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mcpvisor-1","reason":"mcpvisor run has ended"}}`)

		s.host.send(ask(9, "tools/call", `{"name":"later"}`))
		s.host.send(answer("mcpvisor-1", `{"late":true}`)) // for a call that has ended
		p = s.connect()
		s.resume(p, 2, ask("mcpvisor-3", "logging/setLevel", `{"level":"info"}`), ask("mcpvisor-4", "resources/subscribe", `{"uri":"a:b"}`))
		s.host.next(updated(`"uri":"a:b"`)) // it may have changed meanwhile
		p.next(ask(6, "tools/list", `{}`))
		p.next(ask(9, "tools/call", `{"name":"later"}`))
		p.send(answer(9, `{"content":[]}`), answer(6, `{"tools":[]}`))
		s.host.next(answer(9, `{"content":[]}`))
		s.host.next(answer(6, `{"tools":[]}`))
		p.none()
		s.host.none()
	})
}

func updated(params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{` + params + `}}`
}

// What a process sends while the session is set up reaches the host, and it gets its answer: it may need that to answer.
func TestRun_asks_in_set_up(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(ask(1, "resources/subscribe", `{"uri":"a:b"}`))
		<-p.lines
		s.passBack(p, answer(1, `{}`))
		p = s.reconnect(p)
		s.resume(p, 1)
		p.next(ask("mcpvisor-2", "resources/subscribe", `{"uri":"a:b"}`))
		p.send(ask("x", "roots/list", `{}`))
		s.host.next(ask("mcpvisor-3", "roots/list", `{}`))
		s.host.send(answer("mcpvisor-3", `{"roots":[]}`))
		p.next(answer("x", `{"roots":[]}`))
		// What comes with the answer is no part of it.
		const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}`
		p.send(`[` + answer("mcpvisor-2", `{}`) + `,` + log + `]`)
		s.host.next(log)
		s.host.next(updated(`"uri":"a:b"`))
		p.none()
		s.host.none()
	})
}

// The resources of a subscriptions/listen that is repeated count as updated, those that the process reports.
func TestRun_listened_resources_count_as_updated(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		p := s.connect()
		listen := ask("l", "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["a:b","c:d"]}}`)
		const acknowledged = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"notifications":{"resourceSubscriptions":["a:b"]}}}`
		s.passOn(p, listen)
		s.passBack(p, acknowledged)
		s.host.none()
		p = s.reconnect(p)
		p.next(listen)
		p.send(acknowledged)
		s.host.next(updated(`"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"uri":"a:b"`))
		p.none()
		s.host.none()
	})
}

// A message of a batch that cannot be read is answered, with its id if that can be read. The others are served.
func TestRun_bad_messages_of_a_batch(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(`[` + ask(1, "ping", `{}`) + `,{"jsonrpc":"2.0","id":2,"method":7},7,` + ask(3, "ping", `{}`) + `]`)
		s.host.next(`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"this is not a JSON-RPC message: the method must be a text"}}`)
		s.host.next(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this is not a JSON-RPC message: it must be an object"}}`)
		p.next(ask(1, "ping", `{}`))
		p.next(ask(3, "ping", `{}`))
		p.none()
		s.host.send(`[` + strings.Repeat("1,", maxRefusals+1) + ask(4, "ping", `{}`) + `]`)
		for range maxRefusals {
			require.Contains(t, <-s.host.lines, "it must be an object")
		}
		p.next(ask(4, "ping", `{}`))
		s.host.none()
	})
}

// The host hears of a change of a list only if the list differs from the one that it has read.
func TestRun_compares_lists(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(ask(1, "tools/list", `{}`), ask(2, "prompts/list", `{}`), ask(3, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`))
		for range 3 {
			<-p.lines
		}
		p.send(answer(1, `{"tools":[1]}`), answer(2, `{"prompts":[1]}`), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`)
		for range 3 {
			<-s.host.lines
		}
		p = s.reconnect(p)
		s.resume(p, 1)
		p.next(ask(3, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`))
		p.send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`)
		for range 2 {
			var m struct{ ID, Method string }
			require.NoError(t, json.Unmarshal([]byte(<-p.lines), &m))
			switch m.Method {
			case "tools/list":
				p.send(answer(m.ID, `{"tools":[1]}`))
			case "prompts/list":
				p.send(answer(m.ID, `{"prompts":[2]}`))
			default:
				require.Fail(t, "unexpected", m.Method)
			}
		}
		s.host.next(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		s.host.next(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`)
		s.host.none()
	})
}

// The pages that the host has read are compared, and no others.
func TestRun_compares_pages(t *testing.T) {
	for name, row := range map[string]struct {
		read, now []string // results
		changed   bool
	}{
		"second page differs":   {[]string{`{"tools":[1],"nextCursor":"b"}`, `{"tools":[2]}`}, []string{`{"tools":[1],"nextCursor":"b"}`, `{"tools":[3]}`}, true},
		"no page differs":       {[]string{`{"tools":[1],"nextCursor":"b"}`, `{"tools":[2]}`}, []string{`{"tools":[1],"nextCursor":"b"}`, `{"tools":[2]}`}, false},
		"second page is gone":   {[]string{`{"tools":[1],"nextCursor":"b"}`, `{"tools":[2]}`}, []string{`{"tools":[1]}`}, true},
		"only one page is read": {[]string{`{"tools":[1],"nextCursor":"b"}`}, []string{`{"tools":[1],"nextCursor":"b"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			playSetUp(t, func(t *testing.T, s *scene, p *peer) {
				params := []string{`{"x":1}`, `{"x":1,"cursor":"b"}`}
				for i, result := range row.read {
					s.host.send(ask(1, "tools/list", params[i]))
					<-p.lines
					p.send(answer(1, result))
					<-s.host.lines
				}
				p = s.reconnect(p)
				s.resume(p, 1)
				for i, result := range row.now {
					var m struct {
						ID     string
						Params struct {
							X      int
							Cursor string
						}
					}
					require.NoError(t, json.Unmarshal([]byte(<-p.lines), &m))
					require.Equal(t, 1, m.Params.X)
					require.Equal(t, []string{"", "b"}[i], m.Params.Cursor)
					p.send(answer(m.ID, result))
				}
				if row.changed {
					s.host.next(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				synctest.Wait()
				p.none()
				s.host.none()
			})
		})
	}
}

// A request waits for the next process within a bound, and its cancellation is kept from a
// process that does not know it.
func TestRun_requests_wait(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		_ = p.conn.Close()
		dial := <-s.dials
		s.host.send(ask(1, "tools/call", `{"name":"x"}`), ask(2, "tools/call", `{"name":"y"}`), ask(3, "ping", `{}`))
		s.host.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		synctest.Wait()
		time.Sleep(defaultHoldFor)
		got := map[string]bool{}
		for range 2 {
			line := <-s.host.lines
			require.Contains(t, line, "has not come back within 45s")
			got[line[:strings.Index(line, ",")+8]] = true
		}
		s.host.send(ask(4, "ping", `{}`))
		synctest.Wait()
		near, far := net.Pipe()
		p = newPeer(t, far)
		dial <- dialed{rw: near}
		s.resume(p, 1)
		p.next(ask(4, "ping", `{}`))
		p.none()
	})
}

// An error of Dial is the answer to what waits, and Dial is called again.
func TestRun_dial_fails(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		dial := <-s.dials
		s.host.send(ask(0, "initialize", `{}`), ask(1, "tools/call", `{"name":"x"}`))
		synctest.Wait()
		dial <- dialed{err: errors.New("no servers")}
		s.host.next(`{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no servers","data":{"outcome":"not_sent"}}}`)
		require.Contains(t, <-s.host.lines, "Internal Error: no servers. Nothing was sent")
		s.setUp(s.connect())
	})
}

// A process that ends while a session is set up, again and again, costs a pause each time.
func TestRun_set_up_fails(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		_ = p.conn.Close()
		dial := <-s.dials
		for range 3 {
			near, far := net.Pipe()
			p = newPeer(t, far)
			dial <- dialed{rw: near}
			<-p.lines // initialize
			began := time.Now()
			_ = p.conn.Close()
			dial = <-s.dials
			require.GreaterOrEqual(t, time.Since(began), dialPause.First)
		}
		dial <- dialed{err: context.Canceled}
	})
}

// What waits for a connection is bounded.
func TestRun_bounds(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		dial := <-s.dials
		for id := range maxKept {
			s.host.send(ask(id, "ping", `{}`))
		}
		s.host.send(ask("more", "ping", `{}`))
		s.host.next(`{"jsonrpc":"2.0","id":"more","error":{"code":-32603,"message":"too many requests wait for mcpvisor run","data":{"outcome":"not_sent"}}}`)
		s.host.send(ask(0, "ping", `{}`))
		s.host.next(`{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"a request with this id is in flight"}}`)
		dial <- dialed{err: context.Canceled}
	})
}

// The end of the host ends the bridge.
func TestRun_host_ends(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		_ = s.host.conn.Close()
		require.NoError(t, <-s.ended)
		_, ok := <-p.lines
		require.False(t, ok)
		s.ended <- nil
	})
}

// A host that reads nothing delays the end of the bridge by little, whichever goroutine writes to it.
func TestRun_host_that_does_not_read_ends(t *testing.T) {
	const refused = `7`
	for name, row := range map[string]struct {
		line string
		end  func(host io.Closer, cancel func()) error
		want error
	}{
		"an answer, and stdin ends": {ask(0, "ping", `{}`), func(host io.Closer, _ func()) error { return host.Close() }, nil},
		"a refusal, and stdin ends": {refused, func(host io.Closer, _ func()) error { return host.Close() }, nil},
		"an answer, and a signal":   {ask(0, "ping", `{}`), func(_ io.Closer, cancel func()) error { cancel(); return nil }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				in, host := io.Pipe()
				unread, out := io.Pipe()
				near, far := net.Pipe()
				p := newPeer(t, far)
				ended := make(chan error, 1)
				dial := sync.OnceValue(func() io.ReadWriteCloser { return near })
				go func() {
					ended <- Run(ctx, in, out, Options{Log: t.Logf, Dial: func(context.Context) (io.ReadWriteCloser, error) { return dial(), nil }})
				}()
				_, err := io.WriteString(host, row.line+"\n")
				require.NoError(t, err)
				if row.line != refused {
					<-p.lines
					p.send(answer(0, `{}`))
				}
				synctest.Wait()
				began := time.Now()
				require.NoError(t, row.end(host, cancel))
				require.ErrorIs(t, <-ended, row.want)
				require.LessOrEqual(t, time.Since(began), endTimeout+closeTimeout)
				require.Less(t, endTimeout+closeTimeout, 4*time.Second)
				require.NoError(t, unread.Close()) // the write ends
				_ = host.Close()
				for range p.lines { // the connection has ended
				}
			})
		})
	}
}

// The answer to a request may come before send has seen that its line was written. Its line is
// counted once.
func TestBridge_counts_a_line_once(t *testing.T) {
	b := &bridge{requests: map[string]*request{}}
	m, err := parseObject([]byte(ask(1, "tools/call", `{}`)))
	require.NoError(t, err)
	r := &request{message: m}
	b.addLocked(r)
	require.Equal(t, 1, b.kept)
	b.takeLocked(string(m.id))
	b.dropLineLocked(r)
	require.Zero(t, b.kept)
	require.Zero(t, b.keptBytes)
}
