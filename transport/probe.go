package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Probe asks a session's server for a sign of life: ping where the protocol
// has it, server/discover since 2026-07-28 removed it. Any JSON-RPC answer is
// a sign of life, an error included.
func Probe(ctx context.Context, s Session) error {
	method := "ping"
	if s.Info().Era == mcpvisor.EraModern {
		method = "server/discover"
	}
	_, err := s.Request(ctx, Request{Method: method})
	var e *mcpvisor.Error
	if errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeAnswered {
		return nil
	}
	return err
}

// ProbeCause is the cause of death of a session whose probes failed, err being
// what the last one said. Over HTTP that may explain it: a certificate that has
// expired, a proxy that refuses.
func ProbeCause(failures int, err error) *supervisor.Cause {
	c := &supervisor.Cause{Kind: supervisor.CauseProbe, Err: err,
		Message: "server did not answer a liveness probe"}
	if failures > 1 {
		c.Message = fmt.Sprintf("server did not answer %d liveness probes in a row", failures)
	}
	var f interface{ Problem() (what, hint string) }
	if errors.As(err, &f) {
		what, hint := f.Problem()
		c.Message += ": " + what
		if hint != "" {
			c.Message += "; " + hint
		}
	}
	return c
}
