package facade

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// recordingHandler keeps the records that it gets, and whether it wants a level.
type recordingHandler struct {
	level   slog.Level
	records []slog.Record
}

func (h *recordingHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h *recordingHandler) Handle(_ context.Context, r slog.Record) error {
	h.records = append(h.records, r)
	return nil
}
func (h *recordingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *recordingHandler) WithGroup(string) slog.Handler      { return h }

func TestSlogLogger(t *testing.T) {
	t.Run("levels_are_mapped", func(t *testing.T) {
		h := &recordingHandler{level: -100}
		l := newSlogLogger(h)
		l.Trace().Msg("trace")
		l.Debug().Msg("debug")
		l.Info().Msg("info")
		l.Warn().Msg("warn")
		l.Error().Msg("error")
		l.Log().Msg("none")
		got := map[string]slog.Level{}
		for _, r := range h.records {
			got[r.Message] = r.Level
		}
		require.Equal(t, map[string]slog.Level{"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo,
			"warn": slog.LevelWarn, "error": slog.LevelError, "none": slog.LevelInfo}, got)
	})
	t.Run("fields_keep_their_types", func(t *testing.T) {
		h := &recordingHandler{}
		l := newSlogLogger(h)
		began := time.Now()
		l.Warn().Str("server", "s \"1\"\n").Uint64("epoch", 2).Int64("min", -1<<63).Uint64("max", 1<<64-1).Float64("ratio", 0.5).
			Bool("failed", true).Dur("took", 1500*time.Millisecond).Strs("names", []string{"a", "b"}).Err(errors.New("broken")).
			Interface("nothing", nil).Dict("nested", zerolog.Dict().Int("n", 1)).Msg("slow call")
		require.Len(t, h.records, 1)
		r := h.records[0]
		require.Equal(t, "slow call", r.Message)
		require.WithinRange(t, r.Time, began, time.Now())
		got := map[string]any{}
		r.Attrs(func(a slog.Attr) bool { got[a.Key] = a.Value.Any(); return true })
		require.Equal(t, map[string]any{"server": "s \"1\"\n", "epoch": int64(2), "min": int64(-1 << 63), "max": uint64(1<<64 - 1),
			"ratio": 0.5, "failed": true, "took": int64(1500), "names": json.RawMessage(`["a","b"]`), "error": "broken",
			"nothing": nil, "nested": json.RawMessage(`{"n":1}`)}, got)
	})
	t.Run("handler_decides_the_level", func(t *testing.T) {
		h := &recordingHandler{level: slog.LevelWarn}
		l := newSlogLogger(h)
		l.Info().Msg("no")
		l.Warn().Msg("yes")
		require.Len(t, h.records, 1)
		h.level = slog.LevelInfo // as a slog.LevelVar allows
		l.Info().Msg("now")
		require.Len(t, h.records, 2)
	})
}
