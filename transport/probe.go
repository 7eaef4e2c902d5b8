package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Probe sends a request that any live server answers: ping in the legacy era, and
// server/discover in the modern era, which has no ping. Any JSON-RPC answer proves that the
// server is alive, also an error. The error of Probe says why there was no answer.
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

// ProbeCause returns the cause for ending a session after this number of failed probes. err
// is the error of the last probe. Over HTTP it may have a method Problem that explains the
// failure, such as an expired certificate or a proxy that rejects requests.
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
