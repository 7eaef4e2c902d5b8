package mcpvisor

import (
	"fmt"
	"time"
)

// Probe says how the liveness of a ready server is checked: by a ping, or by
// server/discover where the protocol has no ping. Any message from the server counts
// as an answer, so a busy server is never probed. In each field 0 means the default. A
// negative Timeout or Failures is an error of [ServerSpec.Validate].
type Probe struct {
	// Interval is how long the server must be silent before it is probed. Default
	// 30 s; a negative value switches probes off.
	Interval time.Duration
	// Timeout bounds the wait for the answer to one probe. Default 10 s.
	Timeout time.Duration
	// Failures is how many probes must fail in a row before the session is ended and
	// the server's policy decides what follows. Default 3.
	Failures int
}

// The defaults of [Probe].
const (
	DefaultProbeInterval = 30 * time.Second
	DefaultProbeTimeout  = 10 * time.Second
	DefaultProbeFailures = 3
)

func (p Probe) validate() (errs []error) {
	if p.Timeout < 0 {
		errs = append(errs, fmt.Errorf("probe: Probe.Timeout is %v; set a positive bound, or leave it 0 for the default; a negative Probe.Interval switches probes off", p.Timeout))
	}
	if p.Failures < 0 {
		errs = append(errs, fmt.Errorf("probe: Probe.Failures is %d; set a positive number, or leave it 0 for the default", p.Failures))
	}
	return errs
}

// withDefaults returns the probe with every zero field replaced by its default.
func (p Probe) withDefaults() Probe {
	setDefaultDuration(&p.Interval, DefaultProbeInterval)
	setDefaultDuration(&p.Timeout, DefaultProbeTimeout)
	if p.Failures <= 0 {
		p.Failures = DefaultProbeFailures
	}
	return p
}
