package streamable

import (
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// progressed is the same over HTTP.
func (s *session) progressed(params []byte) {
	token, report, ok := jsonrpc.ReadProgress(params, &s.Notifications)
	if !ok {
		s.noise.Malformed.Add(1)
		return
	}
	to, found := s.exchanges.progressed(token)
	switch {
	case !found:
		s.noise.Unmatched.Add(1)
	case to != nil && !to.Push(report):
		s.noise.Dropped.Add(1)
	}
}
