package facade

import (
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// guarded is a logger that hands each line on to the host's, whose writer, hooks
// and sampler may panic: in a goroutine of the library that would end the process.
// A line that is lost so is reported on stderr, as zerolog does when writing fails.
func guarded(host zerolog.Logger) zerolog.Logger {
	if host.GetLevel() == zerolog.Disabled {
		return host
	}
	return zerolog.New(relay{&host}).Level(host.GetLevel())
}

// relay is a zerolog.LevelWriter that writes lines as events of another logger.
type relay struct{ to *zerolog.Logger }

// Write implements io.Writer.
func (r relay) Write(line []byte) (int, error) { return r.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter.
func (r relay) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	if err := guard.Call("logger", func() error { r.send(level, line); return nil }); err != nil {
		fmt.Fprintf(os.Stderr, "mcpvisor: could not write a line of the log: %v\n", err)
	}
	return len(line), nil
}

// send makes the event again, field by field.
func (r relay) send(level zerolog.Level, line []byte) {
	e := r.to.WithLevel(level)
	message := ""
	s := jsonscan.Scanner{Text: line}
	for more := s.Consume('{') && !s.Consume('}'); more; more = s.Consume(',') {
		quoted, escaped, ok := s.String()
		if !ok || !s.Consume(':') {
			break
		}
		value, ok := s.Value()
		if !ok {
			break
		}
		switch name := jsonscan.Unquote(quoted, escaped); name {
		case zerolog.LevelFieldName:
		case zerolog.MessageFieldName:
			inner := jsonscan.Scanner{Text: value}
			if text, escaped, ok := inner.String(); ok {
				message = jsonscan.Unquote(text, escaped)
			}
		default:
			e.RawJSON(name, value)
		}
	}
	e.Msg(message)
}
