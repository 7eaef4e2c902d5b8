package facade

import (
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// logSink passes log events of the library on to a logger of the host.
type logSink interface {
	// send writes one event. line is the JSON object in which zerolog encoded it.
	send(level zerolog.Level, line []byte)
}

// newZerologLogger is a logger that passes each event on to the host's logger.
// Writer, hooks and sampler of the host may panic. The library logs from goroutines
// of its own, where a panic would end the process; [guardedSink] recovers it.
func newZerologLogger(host zerolog.Logger) zerolog.Logger {
	if host.GetLevel() == zerolog.Disabled {
		return host
	}
	return zerolog.New(guardedSink{zerologSink{&host}}).Level(host.GetLevel())
}

// guardedSink is a zerolog.LevelWriter that passes lines to a sink and survives its
// panics. An event that is lost to a panic is reported on stderr, as zerolog itself
// reports failed writes.
type guardedSink struct{ to logSink }

// Write implements io.Writer.
func (g guardedSink) Write(line []byte) (int, error) { return g.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter.
func (g guardedSink) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	if err := hostcall.CallHere("logger", func() error { g.to.send(level, line); return nil }); err != nil {
		fmt.Fprintf(os.Stderr, "mcpvisor: could not write a line of the log: %v\n", err)
	}
	return len(line), nil
}

// zerologSink repeats events on another zerolog logger, field by field.
type zerologSink struct{ to *zerolog.Logger }

func (z zerologSink) send(level zerolog.Level, line []byte) {
	e := z.to.WithLevel(level) //nolint:zerologlint // Msg follows, with the message that eachLogField finds
	message := eachLogField(line, func(name string, value []byte) { e.RawJSON(name, value) })
	e.Msg(message)
}

// eachLogField calls add for each field of an encoded event and returns the event's
// message. The level is left out: zerolog passes it beside the line. value is JSON
// and valid only during the call.
func eachLogField(line []byte, add func(name string, value []byte)) (message string) {
	_ = jsonscan.EachMember(line, func(name string, value []byte) error {
		switch name {
		case zerolog.LevelFieldName:
		case zerolog.MessageFieldName:
			message = unquoteJSON(value)
		default:
			add(strings.Clone(name), value) // zerolog reuses the memory of line
		}
		return nil
	})
	return message
}

// unquoteJSON returns a copy of the text of a JSON string, "" for other values.
func unquoteJSON(value []byte) string {
	text, _ := jsonscan.ReadString(value)
	return strings.Clone(text)
}
