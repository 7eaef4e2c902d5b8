package actors

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/transport"
)

// prober asks a ready server whether it still answers, after it has been silent for
// Probe.Interval. Probe.Failures failed probes in a row end the session. Owned by the
// port's actor goroutine; a probe itself runs in a goroutine of its own.
type prober struct {
	port   *portRef
	timer  *time.Timer
	failed int // probes in a row
}

func (p *prober) start() { p.arm(p.port.inc.spec.Probe.Interval) }

func (p *prober) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// arm sets the timer of the next probe. A negative interval switches probes off.
func (p *prober) arm(after time.Duration) {
	if p.port.inc.spec.Probe.Interval < 0 {
		return
	}
	p.timer = p.port.afterFunc(after, &messages.ProbeDue{})
}

// probe sends a probe, unless the server has sent something within the interval. Any
// message counts as a sign of life, also one that arrives during the probe.
func (p *prober) probe() {
	interval := p.port.inc.spec.Probe.Interval
	if quiet := time.Since(p.port.inc.session.LastReceived()); 0 <= quiet && quiet < interval && p.failed == 0 {
		p.arm(interval - quiet)
		return
	}
	port, inc := p.port, p.port.inc
	port.rt.goSafe("port", func() {
		started, last := time.Now(), inc.session.LastReceived()
		ctx, cancel := bounded(inc.spec.Probe.Timeout)
		defer cancel()
		err := transport.Probe(ctx, inc.session)
		if err != nil && !inc.session.LastReceived().Equal(last) {
			err = nil // the server is busy, not dead
		}
		port.sendSelf(&messages.Probed{Err: err, Took: time.Since(started)})
	}, func(v any) {
		port.sendSelf(&messages.Probed{Err: fmt.Errorf("internal error in a probe: %v", v)})
	})
}

// onProbed counts the outcome of a probe. The first failure is followed by the next
// probe at once.
func (p *prober) onProbed(m *messages.Probed) {
	if m.Err == nil {
		p.failed = 0
		p.arm(p.port.inc.spec.Probe.Interval)
		return
	}
	if p.failed++; p.failed < p.port.inc.spec.Probe.Failures {
		p.arm(0)
		return
	}
	cause := transport.ProbeCause(p.failed, m.Err)
	cause.Stderr = transport.StderrOf(p.port.inc.session)
	p.port.inc.session.Abort(cause)
}
