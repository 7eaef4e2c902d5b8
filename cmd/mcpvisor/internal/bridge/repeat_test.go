package bridge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

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
		p.send(answer(0, `{"protocolVersion":"2025-11-25"}`))
		s.host.next(answer(0, `{"protocolVersion":"2025-11-25"}`))
		s.host.send(initialized)
		p.next(initialized)
		since()
		_ = p.conn.Close()
		p = s.connect()
		require.Zero(t, since(), "it was of use")
		for number := range 20 {
			s.resume(p, number+1)
			_ = p.conn.Close()
			p = s.connect()
		}
		require.Greater(t, since(), time.Minute)
	})
}
