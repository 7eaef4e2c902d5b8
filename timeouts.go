package mcpvisor

import (
	"errors"
	"time"
)

// Timeouts are the separate clocks of one server. In each field 0 means the default
// and a negative value means no bound. Two exceptions are errors of
// [ServerSpec.Validate]: a negative Shutdown, and Call and CallTotal both negative.
type Timeouts struct {
	// Start bounds a start: spawning the process or connecting, and the handshake.
	// Register then fails with ErrStart; a later start counts as a failed attempt of the
	// policy. Default 60 s, because package runners such as npx may have to download first.
	Start time.Duration
	// Negotiate bounds the wait for an answer to server/discover, the handshake of
	// protocol version 2026-07-28, before initialize is sent. Negative: only Start bounds
	// it, so a server that never answers server/discover does not start. It has no effect
	// with EraLegacy and EraModern, which send only one of the two. Default 3 s.
	Negotiate time.Duration
	// List bounds the reading of all four lists together. What follows when it is over is
	// as for Start. Default 30 s.
	List time.Duration
	// Call bounds the time without progress of one call: each progress notification
	// of the server starts it again. facade.WithTimeout overrides it for a call.
	// Default 60 s.
	Call time.Duration
	// CallTotal bounds one call as a whole, whatever its progress and its other
	// timeouts. It begins when the server is ready: the wait of facade.WithWaitReady does
	// not count, and only the call's context ends that. If CallTotal is negative, a call
	// with a negative facade.WithTimeout and no deadline of its context fails with
	// ErrInvalid. Default 10 min.
	CallTotal time.Duration
	// Shutdown bounds the end of a process. Its stdin is closed first; after half of
	// Shutdown its process group gets SIGTERM, and after all of it SIGKILL. With InMemory
	// the context of Serve ends instead of the signals. With HTTP it bounds the request
	// that deletes the session. Default 2 s.
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
