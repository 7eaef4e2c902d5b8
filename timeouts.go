package mcpvisor

import (
	"errors"
	"time"
)

// Timeouts are the separate clocks of one server. In each field 0 means the default
// and a negative value means no bound. Two exceptions: Shutdown must be bounded, and
// Call and CallTotal cannot both be unbounded.
type Timeouts struct {
	// Start bounds a start: spawning the process or connecting, and the handshake.
	// Default 60 s, because package runners such as npx may have to download first.
	Start time.Duration
	// Negotiate bounds the wait for an answer to server/discover, the handshake of
	// protocol version 2026-07-28, before initialize is sent. Default 3 s.
	Negotiate time.Duration
	// List bounds the reading of all four lists together. Default 30 s.
	List time.Duration
	// Call bounds the time without progress of one call: each progress notification
	// of the server starts it again. facade.WithTimeout overrides it for a call.
	// Default 60 s.
	Call time.Duration
	// CallTotal bounds one call as a whole, whatever its progress and its other
	// timeouts. Default 10 min.
	CallTotal time.Duration
	// Shutdown bounds the end of a process. Its stdin is closed first; after half of
	// Shutdown its process group gets SIGTERM, and after all of it SIGKILL.
	// Default 2 s.
	Shutdown time.Duration
}

// The defaults of [Timeouts].
const (
	DefaultStartTimeout     = 60 * time.Second
	DefaultNegotiateTimeout = 3 * time.Second
	DefaultListTimeout      = 30 * time.Second
	DefaultCallTimeout      = 60 * time.Second
	DefaultCallTotalTimeout = 10 * time.Minute
	DefaultShutdownTimeout  = 2 * time.Second
)

// withDefaults returns the timeouts with every zero field replaced by its default.
func (t Timeouts) withDefaults() Timeouts {
	setDefaultDuration(&t.Start, DefaultStartTimeout)
	setDefaultDuration(&t.Negotiate, DefaultNegotiateTimeout)
	setDefaultDuration(&t.List, DefaultListTimeout)
	setDefaultDuration(&t.Call, DefaultCallTimeout)
	setDefaultDuration(&t.CallTotal, DefaultCallTotalTimeout)
	setDefaultDuration(&t.Shutdown, DefaultShutdownTimeout)
	return t
}

func (t Timeouts) validate() (errs []error) {
	if t.Call < 0 && t.CallTotal < 0 {
		errs = append(errs, errors.New("timeouts: Timeouts.Call and Timeouts.CallTotal are both switched off, so a call could hang for ever; bound one of them"))
	}
	if t.Shutdown < 0 {
		errs = append(errs, errors.New("timeouts: Timeouts.Shutdown is negative, so ending the server could take for ever; set a positive bound"))
	}
	return errs
}

// setDefaultDuration replaces a zero duration.
func setDefaultDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
