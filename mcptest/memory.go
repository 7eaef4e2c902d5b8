package mcptest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/statedir"
)

// ExitError is what an in-memory incarnation returns where a process would
// have ended with a status or by a signal.
type ExitError struct {
	// Code is the exit status; 0 is possible, because a server that exits has ended
	// whatever its status is. -1 if Signal is set.
	Code int
	// Signal is the signal's name, as "KILL"; empty for an exit.
	Signal string
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// InMemory returns the script as a goroutine of this process. Incarnations are
// counted from 1 in the order of their start, over the life of the value that
// is returned, or in the script's StateDir.
//
// Serve returns nil when stdin ended, an [ExitError] when the script ended the
// server, and the cause of its context otherwise. By then every goroutine of
// the incarnation has returned. Closing stdin or stdout must end
// reads and writes that are blocked on them, as pipes do. The incarnation needs nothing but channels and
// timers, so it can live in a testing/synctest bubble.
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

// memoryHost ends an incarnation by its context.
type memoryHost struct{}

func (memoryHost) exit(s *server, code int) { s.cancel(&ExitError{Code: code}) }

func (memoryHost) die(s *server, signal string) {
	s.cancel(&ExitError{Code: -1, Signal: signalName(signal)})
}

func (memoryHost) fork(bool) (int, error) {
	return 0, errors.New("fork: an in-memory server has no process to fork; run the script with Stdio")
}

func (memoryHost) ignoreShutdown() {}
