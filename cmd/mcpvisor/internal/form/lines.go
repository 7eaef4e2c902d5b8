package form

import (
	"context"
	"io"
	"sync"
)

// Lines reads lines for questions that may be withdrawn before they are answered. Safe for
// concurrent use.
type Lines struct {
	in io.Reader

	mu      sync.Mutex  // one question at a time
	pending chan answer // of the goroutine that reads; nil without one
}

type answer struct {
	line string
	err  error
}

// NewLines reads from in. A read that is under way when a question is withdrawn continues, and
// ends with the process or the next line.
func NewLines(in io.Reader) *Lines { return &Lines{in: in} }

// Discard drops a line that was typed since a question was withdrawn: it answers something
// else than the next question. Call it before that is shown.
func (l *Lines) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		return
	}
	select {
	case a := <-l.pending:
		if l.pending = nil; a.err != nil { // the next read finds it again
			l.pending = make(chan answer, 1)
			l.pending <- answer{"", a.err}
		}
	default:
	}
}

// Read returns the next line, without its end.
func (l *Lines) Read(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = make(chan answer, 1)
		go func(to chan<- answer) {
			line, err := ReadLine(l.in)
			to <- answer{line, err}
		}(l.pending)
	}
	select {
	case a := <-l.pending:
		l.pending = nil
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ReadLine reads to the end of a line and not beyond, because others may read the rest. The
// line is without its end.
func ReadLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				if len(line) > 0 && line[len(line)-1] == '\r' {
					line = line[:len(line)-1]
				}
				return string(line), nil
			}
			line = append(line, one[0])
		}
		if err != nil {
			return string(line), err
		}
	}
}
