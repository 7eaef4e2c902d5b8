package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CauseKind says what ended a session, or prevented its start.
type CauseKind string

const (
	// CauseSpawn: the process could not be started, or the address could not be
	// reached.
	CauseSpawn CauseKind = "spawn"
	// CauseConfig: the specification cannot work as written (command not found,
	// not executable, bad URL). Permanent.
	CauseConfig CauseKind = "config"
	// CauseHandshake: the server answered negotiation or initialize with an
	// error, or with something that is not an answer.
	CauseHandshake CauseKind = "handshake"
	// CauseVersion: no protocol version in common. Permanent.
	CauseVersion CauseKind = "version"
	// CauseAuth: the server rejected the credentials, or requires some. Permanent.
	CauseAuth CauseKind = "auth"
	// CauseExit: the process exited by itself, with an exit code.
	CauseExit CauseKind = "exit"
	// CauseSignal: a signal ended the process.
	CauseSignal CauseKind = "signal"
	// CauseClosed: the server closed the stream or forgot the session without
	// its process ending.
	CauseClosed CauseKind = "closed"
	// CauseProtocol: the server violated the protocol in a way that the session cannot survive.
	CauseProtocol CauseKind = "protocol"
	// CauseTimeout: start or discovery took longer than allowed.
	CauseTimeout CauseKind = "timeout"
	// CauseProbe: liveness probes went unanswered.
	CauseProbe CauseKind = "probe"
	// CausePanic: code of this module panicked while it handled this server.
	CausePanic CauseKind = "panic"
	// CauseRequested: the end was planned: by Unregister, Stop or Close, by the group of the server, because
	// nothing used it, or because it is transient and has done its work. Then ExitCode is 0.
	CauseRequested CauseKind = "requested"
	// CauseRestart: Restart ended the session, to start a fresh one.
	CauseRestart CauseKind = "restart"
	// CauseMoved: the server has moved to another node of a fleet, and its session follows it.
	CauseMoved CauseKind = "moved"
	// CauseFenced: Fence ended the server. Permanent.
	CauseFenced CauseKind = "fenced"
)

// Cause explains the end of one session: what happened, and the evidence for it. It is an error,
// so that it can be the cause of a context and of other errors. Do not change a Cause that was
// passed on; change a [Cause.Clone].
type Cause struct {
	Kind CauseKind `json:"kind"`
	// Permanent means that a retry cannot help; none is made.
	Permanent bool `json:"permanent,omitempty"`
	// Host means that this process or its machine was at a limit, such as its descriptors, when it started
	// the server. It spends no attempt: the server is parked, and tried again soon.
	Host bool `json:"host,omitempty"`
	// Message says what failed and, where known, what to do about it. If a line of Stderr says
	// why, it begins with that line: "Error: Cannot find module 'x' (exit status 1)".
	Message string `json:"message"`
	// ExitCode is set for CauseExit, for a transient server that has done its work, and for CauseSignal if a wrapper such as sh or npx reported the
	// signal: then it is 128 + its number.
	ExitCode *int `json:"exitCode,omitempty"`
	// Signal is set for CauseSignal, as in "killed".
	Signal string `json:"signal,omitempty"`
	// Stderr holds the first and the last lines that the process wrote to stderr, oldest
	// first. Empty for servers without a process.
	Stderr []string `json:"stderr,omitempty"`
	// RetryAfter is how long the server asks clients to wait (HTTP Retry-After); 0 if it
	// does not. No retry is made sooner.
	RetryAfter time.Duration `json:"retryAfterNs,omitempty"`
	// Err is the underlying error; may be nil.
	Err error `json:"-"`
}

// Asked reports whether the end of the session was planned: nothing has failed.
func (c *Cause) Asked() bool {
	return c != nil && (c.Kind == CauseRequested || c.Kind == CauseRestart || c.Kind == CauseMoved)
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

// Error implements error. It is one line, without Stderr.
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

// Describe is Error followed by the lines of Stderr, for display to a user. A single line that
// the text of Error has already is not repeated.
func (c *Cause) Describe() string {
	if c == nil || len(c.Stderr) == 0 || len(c.Stderr) == 1 && strings.Contains(c.Error(), c.Stderr[0]) {
		return c.Error()
	}
	return fmt.Sprintf("%s; stderr: %s", c.Error(), strings.Join(c.Stderr, " | "))
}
