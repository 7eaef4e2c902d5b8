package bridge

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
)

// writer is a connection that is only written to.
type writer struct{ write func(line string) }

func (w writer) Write(p []byte) (int, error) {
	w.write(string(p))
	return len(p), nil
}

func (writer) Read([]byte) (int, error) { panic("this stream is only written") }
func (writer) Close() error             { return nil }

// A call that the host cancels while those before it are sent to a new connection is not sent.
func TestBridge_canceled_before_it_is_sent(t *testing.T) {
	b := &bridge{requests: map[string]*request{}}
	parsed := func(line string) message {
		m, err := parseObject([]byte(line))
		require.NoError(t, err)
		return m
	}
	b.admit(parsed(ask(1, "tools/call", `{"name":"x"}`)))
	b.admit(parsed(ask(2, "tools/call", `{"name":"y"}`)))
	var sent []string
	canceled := make(chan struct{})
	b.flush(&link{number: 1, ReadWriteCloser: writer{func(line string) {
		sent = append(sent, line)
		if len(sent) > 1 {
			return
		}
		go func() {
			defer close(canceled)
			b.notify(parsed(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`))
		}()
		for taken := false; !taken; runtime.Gosched() { // it waits to be written itself
			b.mu.Lock()
			taken = b.requests["2"] == nil
			b.mu.Unlock()
		}
	}}})
	<-canceled
	require.Contains(t, sent[0], `"name":"x"`)
	require.NotContains(t, strings.Join(sent, ""), `"name":"y"`)
}

// The host may say that it is initialized while the session is being set up, or before there is a connection.
func TestRun_initialized_in_set_up(t *testing.T) {
	initialize := ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`)
	t.Run("while it is set up", func(t *testing.T) {
		play(t, func(t *testing.T, s *scene) {
			p := s.connect()
			s.passOn(p, initialize)
			s.passBack(p, answer(0, `{}`))
			p = s.reconnect(p)
			p.next(ask("mcpvisor-1", "initialize", `{"protocolVersion":"2025-11-25"}`))
			s.host.send(initialized)
			synctest.Wait()
			p.send(answer("mcpvisor-1", `{}`))
			p.next(initialized)
			p.none()
		})
	})
	t.Run("before there is a connection", func(t *testing.T) {
		play(t, func(t *testing.T, s *scene) {
			dial := <-s.dials
			s.host.send(initialize, initialized, ask(1, "tools/list", `{}`))
			synctest.Wait()
			near, p := s.pipe()
			dial <- dialed{rw: near}
			p.next(initialize)
			p.next(initialized)
			p.next(ask(1, "tools/list", `{}`))
			p.none()
		})
	})
}

// What a process has refused is not repeated at the next one, and replaces nothing.
func TestRun_refused_set_up_is_not_repeated(t *testing.T) {
	const refusal = `"error":{"code":-32602,"message":"no"}}`
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(ask(1, "logging/setLevel", `{"level":"info"}`), ask(2, "logging/setLevel", `{"level":"loud"}`), ask(3, "resources/subscribe", `{"uri":"a:b"}`))
		for range 3 {
			<-p.lines
		}
		p.send(answer(1, `{}`), `{"jsonrpc":"2.0","id":2,`+refusal, `{"jsonrpc":"2.0","id":3,`+refusal)
		for range 3 {
			<-s.host.lines
		}
		p = s.reconnect(p)
		s.resume(p, 1, ask("mcpvisor-2", "logging/setLevel", `{"level":"info"}`))
		p.none()
		s.host.none()
	})
}

// The end of a subscription counts, though the host has not waited for the answer to the request for it.
func TestRun_subscriptions_that_are_pipelined(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		s.host.send(ask(1, "resources/subscribe", `{"uri":"a:b"}`), ask(2, "resources/unsubscribe", `{"uri":"a:b"}`), ask(3, "resources/subscribe", `{"uri":"c:d"}`), ask(4, "resources/unsubscribe", `{"uri":"c:d"}`), ask(5, "resources/subscribe", `{"uri":"c:d"}`))
		for range 5 {
			<-p.lines
		}
		for id := 1; id <= 5; id++ {
			s.passBack(p, answer(id, `{}`))
		}
		p = s.reconnect(p)
		s.resume(p, 1, ask("mcpvisor-2", "resources/subscribe", `{"uri":"c:d"}`))
		s.host.next(updated(`"uri":"c:d"`))
		p.none()
		s.host.none()
	})
}

// A subscription that a new process refuses, because its server is not ready yet, is asked for again until it stands. The
// resource counts as updated then, and not before.
func TestRun_subscription_of_a_server_that_is_not_ready(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		for id, uri := range []string{"a:b", "c:d"} {
			s.host.send(ask(id+1, "resources/subscribe", `{"uri":"`+uri+`"}`))
			<-p.lines
			s.passBack(p, answer(id+1, `{}`))
		}
		p = s.reconnect(p)
		s.resume(p, 1)
		refuse := func(number int, uri string) {
			p.next(ask(fmt.Sprintf("mcpvisor-%d", number), "resources/subscribe", `{"uri":"`+uri+`"}`))
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"mcpvisor-%d","error":{"code":-32002,"message":"no server has it"}}`, number))
		}
		refuse(2, "a:b")
		refuse(3, "c:d")
		p.none()
		s.host.none()
		refuse(4, "a:b")
		refuse(5, "c:d")
		s.passOn(p, ask(3, "resources/unsubscribe", `{"uri":"c:d"}`))
		s.passBack(p, answer(3, `{}`))
		p.next(ask("mcpvisor-6", "resources/subscribe", `{"uri":"a:b"}`))
		p.send(answer("mcpvisor-6", `{}`))
		s.host.next(updated(`"uri":"a:b"`))
		time.Sleep(time.Hour)
		p.none()
		s.host.none()
	})
}

const draining = `{"jsonrpc":"2.0","method":"` + DrainMethod + `"}`

// ended requires that the bridge has closed the connection.
func (p *peer) ended() {
	p.t.Helper()
	_, open := <-p.lines
	require.False(p.t, open)
}

// A process that is about to end gets no further request, and answers those that it has. The others wait for the next
// process, and none of them counts as sent.
func TestRun_drain(t *testing.T) {
	call := func(id int) string { return ask(id, "tools/call", `{"name":"x"}`) }
	t.Run("with a call in flight", func(t *testing.T) {
		playSetUp(t, func(t *testing.T, s *scene, p *peer) {
			s.host.send(call(1), ask(2, "tasks/result", `{"taskId":"a"}`))
			p.next(call(1))
			p.next(ask(2, "tasks/result", `{"taskId":"a"}`))
			p.send(draining)
			synctest.Wait()
			s.host.send(call(3))
			p.none()
			s.passBack(p, answer(1, `{}`))
			p.ended() // what lasts is sent again
			p = s.connect()
			s.resume(p, 1)
			p.next(ask(2, "tasks/result", `{"taskId":"a"}`))
			p.next(call(3))
			s.host.none()
		})
	})
	t.Run("without one", func(t *testing.T) {
		playSetUp(t, func(t *testing.T, s *scene, p *peer) {
			p.send(draining)
			p.ended()
			began := time.Now()
			s.resume(s.connect(), 1)
			require.Zero(t, time.Since(began), "a pause is for what fails")
		})
	})
	t.Run("with a canceled call", func(t *testing.T) {
		playSetUp(t, func(t *testing.T, s *scene, p *peer) {
			s.passOn(p, call(1))
			p.send(draining)
			synctest.Wait()
			cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
			s.passOn(p, cancel)
			p.ended()
			s.resume(s.connect(), 1)
		})
	})
	t.Run("while the session is set up", func(t *testing.T) {
		playSetUp(t, func(t *testing.T, s *scene, p *peer) {
			_ = p.conn.Close()
			dial := <-s.dials
			s.host.send(call(1))
			synctest.Wait()
			near, p := s.pipe()
			dial <- dialed{rw: near}
			p.next(ask("mcpvisor-1", "initialize", `{"protocolVersion":"2025-11-25"}`))
			p.send(draining)
			p.ended()
			p = s.connect()
			s.resume(p, 2)
			p.next(call(1))
			s.host.none()
		})
	})
	t.Run("while the first session is opened", func(t *testing.T) {
		play(t, func(t *testing.T, s *scene) {
			p := s.connect()
			s.passOn(p, ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`))
			p.send(draining)
			p.ended()
			p = s.connect()
			p.next(ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`))
			p.none()
		})
	})
}

// A request that waited for long says why: the process has not come back, or its servers have not started.
func TestRun_servers_start_slowly(t *testing.T) {
	playSetUp(t, func(t *testing.T, s *scene, p *peer) {
		p = s.reconnect(p)
		p.next(ask("mcpvisor-1", "initialize", `{"protocolVersion":"2025-11-25"}`))
		s.host.send(ask(1, "ping", `{}`))
		synctest.Wait()
		time.Sleep(defaultHoldFor)
		require.Contains(t, <-s.host.lines, "mcpvisor run is back, and its servers have not started within 45s")
		p.send(answer("mcpvisor-1", `{}`))
		p.next(initialized)
	})
}

// No server may send a message that ends the connection because it is too long.
func TestMaxLinkLine(t *testing.T) {
	spec := mcpvisor.ServerSpec{Name: "a", Stdio: &mcpvisor.Stdio{Command: "x"}, Limits: mcpvisor.Limits{MaxMessageBytes: maxLinkLine}}
	require.ErrorContains(t, spec.Validate(), "MaxMessageBytes")
}

// A request that ends one process after the other is repeated a few times, and then answered with an error.
func TestRun_request_that_ends_each_process(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		read := ask(1, "resources/read", `{"uri":"a:b"}`)
		s.host.send(read)
		for range maxRepeats + 1 {
			p := s.connect()
			p.next(read)
			s.host.none()
			_ = p.conn.Close()
		}
		require.Contains(t, <-s.host.lines, "mcpvisor run ended during the request")
		p := s.connect()
		p.none()
		s.host.none()
	})
}

// A run that ends before it is of use to the host is not started again at once, and each time later: before and
// after the set-up. An answer to the host ends that.
func TestRun_run_that_ends_soon(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		began := time.Now()
		since := func() time.Duration {
			d := time.Since(began)
			began = time.Now()
			return d
		}
		initialize := ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`)
		s.host.send(initialize)
		for range 20 {
			p := s.connect()
			p.next(initialize)
			_ = p.conn.Close()
		}
		require.Greater(t, since(), time.Minute)

		p := s.connect()
		p.next(initialize)
		s.passBack(p, answer(0, `{"protocolVersion":"2025-11-25"}`))
		s.passOn(p, initialized)
		since()
		p = s.reconnect(p)
		require.Zero(t, since(), "it was of use")
		for number := range 20 {
			s.resume(p, number+1)
			p = s.reconnect(p)
		}
		require.Greater(t, since(), time.Minute)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
