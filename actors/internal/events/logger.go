package events

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

const (
	// MaxLines is how many lines wait for the log writer; further ones are dropped.
	MaxLines = 64
	// CloseTimeout is how long [Logger.AwaitClose] waits for the log writer.
	CloseTimeout = time.Second
)

// Logger writes the events of a [Hub], and lines of other origin, to the client's
// logger. It is a watcher: a writer that blocks holds up no actor, and what it does not
// keep up with is dropped and counted. Safe for concurrent use.
type Logger struct {
	log     zerolog.Logger
	lines   chan line
	missed  atomic.Uint64 // lines dropped since the last one that was queued
	written chan struct{} // closed when everything is written, after the hub was closed
}

// line is a queued line that is not an event.
type line struct {
	write  func(*zerolog.Logger)
	missed uint64 // how many were dropped before it
}

// NewLogger starts a goroutine that writes until the hub is closed. A disabled logger
// needs none.
func NewLogger(hub *Hub, log zerolog.Logger) *Logger {
	l := &Logger{log: log, lines: make(chan line, MaxLines), written: make(chan struct{})}
	if log.GetLevel() == zerolog.Disabled {
		close(l.written)
		return l
	}
	go l.run(hub.Watch(context.Background()))
	return l
}

func (l *Logger) run(events <-chan mcpvisor.Event) {
	finished := false
	defer func() {
		if finished {
			close(l.written)
		} else {
			go l.run(events) // a writer of the host has ended this goroutine (runtime.Goexit)
		}
	}()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				l.writeQueued()
				finished = true
				return
			}
			l.writeEvent(e)
		case one := <-l.lines:
			l.writeLine(one)
		}
	}
}

// Line queues a line. It never blocks. write runs in the goroutine of the logger. A
// line that comes after the hub was closed is lost.
func (l *Logger) Line(write func(*zerolog.Logger)) {
	missed := l.missed.Swap(0)
	select {
	case l.lines <- line{write, missed}:
	default:
		l.missed.Add(missed + 1)
	}
}

// AwaitClose waits until everything is written, or the writer takes too long. Call it
// after [Hub.Close].
func (l *Logger) AwaitClose() {
	select {
	case <-l.written:
	case <-time.After(CloseTimeout):
	}
}

// writeQueued writes the queued lines, and how many were dropped after them.
func (l *Logger) writeQueued() {
	for {
		select {
		case one := <-l.lines:
			l.writeLine(one)
		default:
			l.writeMissed(l.missed.Swap(0))
			return
		}
	}
}

func (l *Logger) writeLine(one line) {
	l.writeMissed(one.missed)
	one.write(&l.log)
}

func (l *Logger) writeMissed(missed uint64) {
	if missed > 0 {
		l.log.Warn().Uint64("missed", missed).Msg("lines of the log were lost; the writer did not keep up")
	}
}

func (l *Logger) writeEvent(e mcpvisor.Event) {
	level := levels[e.Severity()]
	if e.Kind == mcpvisor.EventLog {
		l.log.WithLevel(level).Str("server", e.Server).Str("logger", e.Log.Logger).Msg(e.Log.Text)
		return
	}
	record := l.log.WithLevel(level).Str("server", e.Server).Str("event", string(e.Kind)).Uint64("epoch", e.Epoch)
	addFields(record, &e)
	record.Msg(e.String())
}

// addFields adds what an event says besides its server, kind and epoch. Durations are in
// the unit of zerolog, milliseconds by default.
func addFields(record *zerolog.Event, e *mcpvisor.Event) {
	if e.PID != 0 {
		record.Int("pid", e.PID)
	}
	if e.Attempt != 0 {
		record.Int("attempt", e.Attempt).Int("max_attempts", e.MaxAttempts)
	}
	if e.Kind == mcpvisor.EventRetry || e.Kind == mcpvisor.EventParked {
		record.Dur("delay", e.Delay)
	}
	if e.Downtime != 0 {
		record.Dur("downtime", e.Downtime)
	}
	if e.StartTook != 0 {
		record.Dur("start", e.StartTook)
	}
	if e.Tool != "" {
		record.Str("tool", e.Tool)
	}
	addChange(record, e.Change)
	if e.FailedCalls != 0 {
		record.Int("failed_calls", e.FailedCalls)
	}
	if e.Kind == mcpvisor.EventReady {
		record.Int("tools", e.Tools)
	}
	if c := e.Cause; c != nil {
		record.Str("cause", string(c.Kind)).Str("reason", c.Message)
		if c.Permanent {
			record.Bool("permanent", true)
		}
		if c.ExitCode != nil {
			record.Int("exit_code", *c.ExitCode)
		}
		if c.Signal != "" {
			record.Str("signal", c.Signal)
		}
	}
}

// maxLoggedNames is how many names of each kind (added, removed, changed) one line has, and
// maxLoggedNameBytes how long each is at most.
const (
	maxLoggedNames     = 20
	maxLoggedNameBytes = 200
)

// addChange adds the names of what a server added, removed and changed in its lists. The
// text of the event counts all.
func addChange(record *zerolog.Event, c *mcpvisor.Change) {
	if c.IsZero() {
		return
	}
	for _, kind := range []struct {
		field string
		names func(mcpvisor.Delta) []string
	}{
		{"added", func(d mcpvisor.Delta) []string { return d.Added }},
		{"removed", func(d mcpvisor.Delta) []string { return d.Removed }},
		{"changed", func(d mcpvisor.Delta) []string { return d.Changed }},
	} {
		var names []string
		for _, d := range []mcpvisor.Delta{c.Tools, c.Resources, c.Templates, c.Prompts} {
			for _, name := range kind.names(d) {
				if len(names) < maxLoggedNames {
					names = append(names, display.Shorten(display.Line(name), maxLoggedNameBytes))
				}
			}
		}
		if len(names) > 0 {
			record.Strs(kind.field, names)
		}
	}
}

// levels are the levels at which the logger writes events.
var levels = map[mcpvisor.Severity]zerolog.Level{
	mcpvisor.SeverityDebug: zerolog.DebugLevel, mcpvisor.SeverityInfo: zerolog.InfoLevel,
	mcpvisor.SeverityWarning: zerolog.WarnLevel, mcpvisor.SeverityError: zerolog.ErrorLevel,
}
