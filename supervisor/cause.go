package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CauseKind says what ended a session, or kept it from beginning.
type CauseKind string

const (
	// CauseSpawn: the process could not be started, or the address not reached.
	CauseSpawn CauseKind = "spawn"
	// CauseConfig: the specification cannot work as written (command not found,
	// not executable, bad URL). Permanent.
	CauseConfig CauseKind = "config"
	// CauseHandshake: the server answered negotiation or initialize with an
	// error, or with something that is not an answer.
	CauseHandshake CauseKind = "handshake"
	// CauseVersion: no protocol version in common. Permanent.
	CauseVersion CauseKind = "version"
	// CauseAuth: the server refused our credentials, or wants some. Permanent.
	CauseAuth CauseKind = "auth"
	// CauseExit: the process ended by itself, with an exit code.
	CauseExit CauseKind = "exit"
	// CauseSignal: the process was ended by a signal.
	CauseSignal CauseKind = "signal"
	// CauseClosed: the server closed the stream or forgot the session without
	// its process ending.
	CauseClosed CauseKind = "closed"
	// CauseProtocol: the peer broke the protocol beyond repair.
	CauseProtocol CauseKind = "protocol"
	// CauseTimeout: start or discovery took longer than allowed.
	CauseTimeout CauseKind = "timeout"
	// CauseProbe: liveness probes went unanswered.
	CauseProbe CauseKind = "probe"
	// CausePanic: our own code failed while serving this server.
	CausePanic CauseKind = "panic"
	// CauseRequested: Unregister or Close asked for the end.
	CauseRequested CauseKind = "requested"
	// CauseRestart: Restart asked for a fresh session.
	CauseRestart CauseKind = "restart"
)

// Cause explains the end of one session: what happened, with the evidence
// that was at hand. It is an error, so it can travel as the cause of a
// context.
type Cause struct {
	Kind CauseKind `json:"kind"`
	// Permanent means that trying again cannot help; no retry is spent on it.
	Permanent bool `json:"permanent,omitempty"`
	// Message says what failed, and where it helps what to do about it.
	Message string `json:"message"`
	// ExitCode is set for CauseExit.
	ExitCode *int `json:"exitCode,omitempty"`
	// Signal is set for CauseSignal, as in "killed".
	Signal string `json:"signal,omitempty"`
	// Stderr holds the first and the last lines that the process wrote to stderr,
	// oldest first.
	Stderr []string `json:"stderr,omitempty"`
	// RetryAfter is how long the server asked to be left alone; 0 if it did not.
	// No try is made sooner.
	RetryAfter time.Duration `json:"retryAfterNs,omitempty"`
	// Err is the underlying error, if there is one.
	Err error `json:"-"`
}

func (c *Cause) retryAfter() time.Duration {
	if c == nil {
		return 0
	}
	return c.RetryAfter
}

// Clone returns a copy that shares nothing with c but the underlying error.
func (c *Cause) Clone() *Cause {
	if c == nil {
		return nil
	}
	d := *c
	d.Stderr = slices.Clone(c.Stderr)
	if c.ExitCode != nil {
		code := *c.ExitCode
		d.ExitCode = &code
	}
	return &d
}

// Error implements error. It is one line; Stderr is left to whoever shows it.
func (c *Cause) Error() string {
	if c == nil {
		return "unknown cause"
	}
	if c.Message != "" {
		return c.Message
	}
	if c.Err != nil {
		return c.Err.Error()
	}
	return string(c.Kind)
}

// Unwrap returns the underlying error.
func (c *Cause) Unwrap() error {
	if c == nil {
		return nil
	}
	return c.Err
}

// Describe is Error followed by the stderr tail, for people.
func (c *Cause) Describe() string {
	if c == nil || len(c.Stderr) == 0 {
		return c.Error()
	}
	return fmt.Sprintf("%s; stderr: %s", c.Error(), strings.Join(c.Stderr, " | "))
}
