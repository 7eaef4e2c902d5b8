package bridge

import (
	"testing"

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
