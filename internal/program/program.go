// Package program runs a program for what it prints, such as a token, within bounds.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// pipeTimeout is how long a program that ended, or was killed, may leave its pipes open to others.
const pipeTimeout = time.Second

// maxOutput is the longest output that is read, in bytes.
const maxOutput = 64 << 10

// Output runs command in dir, with the variables of this process and those of env, and returns what it has printed, at most 64
// KiB. The end of ctx kills the program and, on Unix, what it has started. An error has the last line of its stderr.
func Output(ctx context.Context, command []string, dir string, env map[string]string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, os.Environ(), pipeTimeout
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	output, problem := &bounded{}, &tail{}
	cmd.Stdout, cmd.Stderr = output, problem
	killWithGroup(cmd)
	switch err := cmd.Run(); {
	case output.tooLong:
		return nil, fmt.Errorf("it printed more than %d bytes", maxOutput)
	case err != nil:
		if line := problem.lastLine(); line != "" {
			err = fmt.Errorf("%w: %s", err, line)
		}
		return nil, err
	}
	return output.text, nil
}

// bounded keeps the output of a program, up to maxOutput. It is no bytes.Buffer, because io.Copy
// would fill that without Write.
type bounded struct {
	text    []byte
	tooLong bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.tooLong = b.tooLong || len(b.text)+len(p) > maxOutput; b.tooLong {
		return 0, errors.New("too long")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// tail keeps the end of what a program writes.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-4*display.MaxQuoteBytes):]
	return len(p), nil
}

// lastLine returns the last line that is not empty, in a form that may be shown.
func (t *tail) lastLine() string {
	text := bytes.TrimSpace(t.text)
	return display.Shorten(display.Line(string(text[bytes.LastIndexByte(text, '\n')+1:])), display.MaxQuoteBytes)
}
