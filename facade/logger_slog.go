package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"github.com/rs/zerolog"
)

// newSlogLogger is a logger that passes each event on to an slog handler. The
// handler's own level decides which events it gets; a panic of the handler costs
// the one event.
func newSlogLogger(to slog.Handler) zerolog.Logger {
	return zerolog.New(guardedSink{slogSink{to}})
}

// slogSink writes events to an slog handler.
type slogSink struct{ to slog.Handler }

func (s slogSink) send(level zerolog.Level, line []byte) {
	ctx := context.Background()
	at := slogLevel(level)
	if !s.to.Enabled(ctx, at) {
		return
	}
	var attrs []slog.Attr
	message := eachLogField(line, func(name string, value []byte) {
		attrs = append(attrs, slog.Attr{Key: name, Value: slogValue(value)})
	})
	record := slog.NewRecord(time.Now(), at, message, 0)
	record.AddAttrs(attrs...)
	_ = s.to.Handle(ctx, record) // slog.Logger ignores it, too
}

// slogLevel maps the levels of zerolog to those of slog. Trace lies below
// slog.LevelDebug by the distance that slog keeps between levels; fatal and panic,
// which the library does not use, count as errors. Events without a level are
// informational.
func slogLevel(level zerolog.Level) slog.Level {
	switch level {
	case zerolog.TraceLevel:
		return slog.LevelDebug - 4
	case zerolog.DebugLevel:
		return slog.LevelDebug
	case zerolog.WarnLevel:
		return slog.LevelWarn
	case zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel:
		return slog.LevelError
	default:
	}
	return slog.LevelInfo
}

// slogValue converts a JSON value. Integers that fit an int64 stay exact; arrays and
// objects are passed on as json.RawMessage.
func slogValue(value []byte) slog.Value {
	switch value[0] {
	case '"':
		return slog.StringValue(unquoteJSON(value))
	case 't', 'f':
		return slog.BoolValue(value[0] == 't')
	case 'n':
		return slog.AnyValue(nil)
	case '{', '[':
		return slog.AnyValue(json.RawMessage(bytes.Clone(value)))
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return slog.Int64Value(n)
	}
	if n, err := strconv.ParseUint(string(value), 10, 64); err == nil {
		return slog.Uint64Value(n)
	}
	f, _ := strconv.ParseFloat(string(value), 64) // zerolog writes valid numbers
	return slog.Float64Value(f)
}
