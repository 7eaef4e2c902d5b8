package bridge

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
		play(t, func(t *testing.T, s *scene) {
			p := s.connect()
			s.setUp(p)
			s.host.send(call(1), ask(2, "tasks/result", `{"taskId":"a"}`))
			p.next(call(1))
			p.next(ask(2, "tasks/result", `{"taskId":"a"}`))
			p.send(draining)
			synctest.Wait()
			s.host.send(call(3))
			p.none()
			p.send(answer(1, `{}`))
			s.host.next(answer(1, `{}`))
			p.ended() // what lasts is sent again
			p = s.connect()
			s.resume(p, 1)
			p.next(ask(2, "tasks/result", `{"taskId":"a"}`))
			p.next(call(3))
			s.host.none()
		})
	})
	t.Run("without one", func(t *testing.T) {
		play(t, func(t *testing.T, s *scene) {
			p := s.connect()
			s.setUp(p)
			p.send(draining)
			p.ended()
			began := time.Now()
			s.resume(s.connect(), 1)
			require.Zero(t, time.Since(began), "a pause is for what fails")
		})
	})
	t.Run("with a canceled call", func(t *testing.T) {
		play(t, func(t *testing.T, s *scene) {
			p := s.connect()
			s.setUp(p)
			s.host.send(call(1))
			p.next(call(1))
			p.send(draining)
			synctest.Wait()
			cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
			s.host.send(cancel)
			p.next(cancel)
			p.ended()
			s.resume(s.connect(), 1)
		})
	})
	t.Run("while the session is set up", func(t *testing.T) {
		play(t, func(t *testing.T, s *scene) {
			p := s.connect()
			s.setUp(p)
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
			s.host.send(ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`))
			p.next(ask(0, "initialize", `{"protocolVersion":"2025-11-25"}`))
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
	play(t, func(t *testing.T, s *scene) {
		p := s.connect()
		s.setUp(p)
		_ = p.conn.Close()
		p = s.connect()
		p.next(ask("mcpvisor-1", "initialize", `{"protocolVersion":"2025-11-25"}`))
		s.host.send(ask(1, "ping", `{}`))
		synctest.Wait()
		time.Sleep(defaultHoldFor)
		require.Contains(t, <-s.host.lines, "mcpvisor run is back, and its servers have not started within 45s")
		p.send(answer("mcpvisor-1", `{}`))
		p.next(initialized)
	})
}
