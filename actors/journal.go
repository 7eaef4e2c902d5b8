package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// startEventLogger writes what watchers see to the logger. It is a watcher itself: a
// writer that blocks holds up nobody, and what it does not keep up with is lost
// and counted. The channel is closed when everything is written, after the hub
// was closed.
func (rt *Runtime) startEventLogger() <-chan struct{} {
	written := make(chan struct{})
	if rt.opts.Logger.GetLevel() == zerolog.Disabled {
		close(written)
		return written
	}
	events := rt.hub.watch(context.Background())
	go func() {
		defer close(written)
		for {
			select {
			case e, ok := <-events:
				if !ok {
					rt.logQueue.writeQueued(&rt.opts.Logger)
					return
				}
				logEvent(&rt.opts.Logger, e)
			case one := <-rt.logQueue.queue:
				one.writeTo(&rt.opts.Logger)
			}
		}
	}()
	return written
}

// maxQueuedLogs is how many lines wait for the writer; further ones are lost.
const maxQueuedLogs = 64

// logQueue are lines for the log that are no events. The journal writes them, so
// that a writer that blocks holds up nothing. Safe for concurrent use.
type logQueue struct {
	queue  chan queuedLog
	missed atomic.Uint64
}

// queuedLog is one of them.
type queuedLog struct {
	write  func(*zerolog.Logger)
	missed uint64 // how many were lost before it
}

// add queues a line. It never blocks. What is added after the end of the tree of
// actors is lost.
func (l *logQueue) add(write func(*zerolog.Logger)) {
	missed := l.missed.Swap(0)
	select {
	case l.queue <- queuedLog{write, missed}:
	default:
		l.missed.Add(missed + 1)
	}
}

// writeQueued writes what is queued, and how many lines were lost since.
func (l *logQueue) writeQueued(log *zerolog.Logger) {
	for {
		select {
		case one := <-l.queue:
			one.writeTo(log)
		default:
			logMissed(log, l.missed.Swap(0))
			return
		}
	}
}

func (l *queuedLog) writeTo(log *zerolog.Logger) {
	logMissed(log, l.missed)
	l.write(log)
}

func logMissed(log *zerolog.Logger, missed uint64) {
	if missed > 0 {
		log.Warn().Uint64("missed", missed).Msg("lines of the log were lost; the writer did not keep up")
	}
}

// closeLogTimeout is how long Close waits for a writer.
const closeLogTimeout = time.Second

// awaitEventLogger waits until the journal is written, or its writer takes too long.
func awaitEventLogger(journal <-chan struct{}) {
	t := time.NewTimer(closeLogTimeout)
	defer t.Stop()
	select {
	case <-journal:
	case <-t.C:
	}
}

func logEvent(log *zerolog.Logger, e mcpvisor.Event) {
	if e.Kind == mcpvisor.EventLog {
		log.WithLevel(logLevelOf(e.Log.Level)).Str("server", e.Server).Str("logger", e.Log.Logger).Msg(e.Log.Text)
		return
	}
	log.WithLevel(eventLevel(e)).Str("server", e.Server).Str("event", string(e.Kind)).Uint64("epoch", e.Epoch).Msg(e.String())
}

// eventLevel is the level at which an event is logged.
func eventLevel(e mcpvisor.Event) zerolog.Level {
	switch e.Kind {
	case mcpvisor.EventEvicted, mcpvisor.EventParked:
		return zerolog.ErrorLevel
	case mcpvisor.EventDown:
		if c := e.Cause; c != nil && (c.Kind == supervisor.CauseRequested || c.Kind == supervisor.CauseRestart) {
			return zerolog.InfoLevel
		}
		return zerolog.WarnLevel
	case mcpvisor.EventStartFailed, mcpvisor.EventRetry, mcpvisor.EventStandbyLost, mcpvisor.EventAuthRequired, mcpvisor.EventMissed:
		return zerolog.WarnLevel
	case mcpvisor.EventConnecting, mcpvisor.EventStable, mcpvisor.EventResourceUpdated:
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// logLevelOf is a level of RFC 5424, which the protocol uses, as one of zerolog's.
func logLevelOf(level string) zerolog.Level {
	switch level {
	case "debug":
		return zerolog.DebugLevel
	case "warning":
		return zerolog.WarnLevel
	case "error", "critical", "alert", "emergency":
		return zerolog.ErrorLevel
	}
	return zerolog.InfoLevel // info, notice, and what nobody knows
}
