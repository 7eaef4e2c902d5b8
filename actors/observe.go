package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// RequestStart describes a request for a registration.
func (v *View) RequestStart(method, target string) mcpvisor.RequestStart {
	r := mcpvisor.RequestStart{Server: v.Name, Gen: v.Gen, Method: method, Target: target, Transport: v.Spec.TransportKind()}
	if v.State == supervisor.StateReady {
		r.Epoch, r.Protocol = v.current.epoch, v.protocol
	}
	return r
}

// RequestStarted shows the observer the start of a request. Call it only if there is an
// observer. meta is what travels in the _meta of the request; nil for nothing.
func (rt *Runtime) RequestStarted(ctx context.Context, r mcpvisor.RequestStart) (next context.Context, meta json.RawMessage) {
	next = ctx
	defer func() {
		if v := recover(); v != nil {
			next, meta = ctx, nil
			rt.logObserver(guard.PanicError("observer", v))
		}
	}()
	observed, meta := rt.opts.Observer.RequestStarted(ctx, r)
	if observed != nil {
		next = observed
	}
	if len(meta) == 0 {
		return next, nil
	}
	if err := checkMeta(meta); err != nil {
		rt.badMeta.Do(func() { rt.logObserver(err) })
		meta = nil
	}
	return next, meta
}

// RequestEnded shows the observer the end of a request. Call it once for each
// RequestStarted.
func (rt *Runtime) RequestEnded(ctx context.Context, r mcpvisor.RequestEnd) {
	defer func() {
		if v := recover(); v != nil {
			rt.logObserver(guard.PanicError("observer", v))
		}
	}()
	rt.opts.Observer.RequestEnded(ctx, r)
}

// logObserver logs what the observer did wrong.
func (rt *Runtime) logObserver(err error) {
	rt.logger.Line(func(log *zerolog.Logger) { log.Error().Err(err).Msg("the observer failed; the request goes on") })
}

// checkMeta returns why a _meta object of the observer is not sent; nil if it is.
func checkMeta(meta json.RawMessage) error {
	if !json.Valid(meta) {
		return errors.New("what the observer returned for _meta is not JSON")
	}
	err := jsonscan.EachMember(meta, func(name string, _ []byte) error {
		if name == "progressToken" || strings.HasPrefix(name, "io.modelcontextprotocol/") {
			return fmt.Errorf("the observer may not set %q in _meta: it belongs to the protocol", name)
		}
		return nil
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		return errors.New("what the observer returned for _meta is not a JSON object")
	}
	return err
}
