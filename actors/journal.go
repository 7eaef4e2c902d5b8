package actors

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// journal writes what watchers see to the logger. It is a watcher itself: a
// writer that blocks holds up nobody, and what it does not keep up with is lost
// and counted. The channel is closed when everything is written, after the hub
// was closed.
func (rt *Runtime) journal() <-chan struct{} {
	written := make(chan struct{})
	if rt.opts.Logger.GetLevel() == zerolog.Disabled {
		close(written)
		return written
	}
	events := rt.hub.watch(context.Background())
	go func() {
		defer close(written)
		for e := range events {
			record(&rt.opts.Logger, e)
		}
	}()
	return written
}

// journalPatience is how long Close waits for a writer.
const journalPatience = time.Second

// finish waits until the journal is written, or its writer takes too long.
func finish(journal <-chan struct{}) {
	t := time.NewTimer(journalPatience)
	defer t.Stop()
	select {
	case <-journal:
	case <-t.C:
	}
}

func record(log *zerolog.Logger, e messages.Event) {
	if e.Kind == messages.EventLog {
		log.WithLevel(severity(e.Log.Level)).Str("server", e.Server).Str("logger", e.Log.Logger).Msg(e.Log.Text)
		return
	}
	log.WithLevel(weight(e)).Str("server", e.Server).Str("event", string(e.Kind)).Uint64("epoch", e.Epoch).Msg(e.String())
}

// weight is the level at which an event is logged.
func weight(e messages.Event) zerolog.Level {
	switch e.Kind {
	case messages.EventEvicted, messages.EventParked:
		return zerolog.ErrorLevel
	case messages.EventDown:
		if c := e.Cause; c != nil && (c.Kind == supervisor.CauseRequested || c.Kind == supervisor.CauseRestart) {
			return zerolog.InfoLevel
		}
		return zerolog.WarnLevel
	case messages.EventStartFailed, messages.EventRetry, messages.EventStandbyLost, messages.EventAuthRequired, messages.EventMissed:
		return zerolog.WarnLevel
	case messages.EventConnecting, messages.EventStable, messages.EventResourceUpdated:
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// severity is a level of RFC 5424, which the protocol uses, as one of zerolog's.
func severity(level string) zerolog.Level {
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
