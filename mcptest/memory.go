package mcptest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor"

	"github.com/mcpvisor/mcpvisor/test/fixture/statedir"
)

// ExitError is the result of an in-memory incarnation that would have exited, or died
// of a signal, as a process.
type ExitError struct {
	// Code is the exit status; it can be 0. It is -1 if Signal is set.
	Code int
	// Signal is the name of the signal, such as "KILL"; empty for an exit.
	Signal string
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// InMemory returns the script as a goroutine of this process. It counts incarnations
// from 1, over the life of the returned value or in the script's StateDir.
//
// Serve returns nil when stdin ended, an [ExitError] when the script ended the server,
// and otherwise the cause of its context. By then every goroutine of the incarnation
// has returned. Closing stdin or stdout must unblock reads and writes, as pipes do. An
// incarnation uses only channels and timers, so it can run in a testing/synctest
// bubble.
//
// InMemory panics if the script is not valid; see [Script.Validate].
func InMemory(s Script) *mcpvisor.InMemory {
	s.mustBeValid()
	s = s.withDefaults()
	counter := statedir.New(s.StateDir)
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		start, err := counter.CountStart()
		if err != nil {
			return err
		}
		return newServer(ctx, s, memoryHost{}, counter, start, stdin, stdout, stderr).run()
	}}
}

// memoryHost ends an incarnation by canceling its context.
type memoryHost struct{}

func (memoryHost) exit(s *server, code int) { s.cancel(&ExitError{Code: code}) }

func (memoryHost) die(s *server, signal string) {
	s.cancel(&ExitError{Code: -1, Signal: signalName(signal)})
}

func (memoryHost) fork(bool) (int, error) {
	return 0, errors.New("fork: an in-memory server has no process to fork; run the script with Stdio")
}

func (memoryHost) ignoreShutdown() {}
