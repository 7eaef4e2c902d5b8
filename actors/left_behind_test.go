package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/events"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

var errLeft = errors.New("process 7 (sleep): operation not permitted")

// What a session could not end is the error of the call that ends its registration.
func TestLeftBehind(t *testing.T) {
	requireLeft := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, mcpvisor.ErrLeftBehind)
		require.ErrorIs(t, err, errLeft)
		require.ErrorContains(t, err, "process 7 (sleep): operation not permitted")
		require.NotContains(t, err.Error(), "\n")
	}
	runWithHarness(t, "reported_by_unregister", func(t *testing.T, h *harness) {
		h.script("fs", script{left: errLeft})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		requireLeft(t, h.rt.Unregister(context.Background(), "fs"))
		require.Empty(t, h.rt.Snapshot().Names(), "the name is free")
		h.script("fs", script{})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		require.NoError(t, h.rt.Unregister(context.Background(), "fs"), "it was another registration")
		require.NoError(t, h.rt.Close(context.Background()))
	})
	runWithHarness(t, "reported_by_close_with_all_names", func(t *testing.T, h *harness) {
		for _, name := range []string{"fs", "git"} {
			h.script(name, script{left: errLeft})
			h.register(mcpvisor.ServerSpec{Name: name})
		}
		h.leaves = true
		h.script("clean", script{})
		h.register(mcpvisor.ServerSpec{Name: "clean"})
		for range 2 {
			err := h.rt.Close(context.Background())
			requireLeft(t, err)
			require.ErrorContains(t, err, `server "fs"`)
			require.ErrorContains(t, err, `server "git"`)
			require.NotContains(t, err.Error(), "clean")
		}
	})
	runWithHarness(t, "of_an_earlier_incarnation", func(t *testing.T, h *harness) {
		h.scriptSessions("fs", script{left: errLeft}, script{})
		h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, 0)})
		h.session("fs").Abort(errScripted)
		time.Sleep(time.Second)
		require.Len(t, h.sessions("fs"), 2)
		requireLeft(t, h.rt.Unregister(context.Background(), "fs"))
	})
	runWithHarness(t, "of_a_start_that_fails", func(t *testing.T, h *harness) {
		h.script("fs", script{left: errLeft, openErr: &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: "no such file"}})
		err := h.rt.Register(context.Background(), mcpvisor.ServerSpec{Name: "fs"})
		require.ErrorIs(t, err, mcpvisor.ErrStart)
		require.ErrorContains(t, err, "no such file")
		require.ErrorContains(t, err, "process 7 (sleep)")
	})
}

// stuckLog is a log whose writer blocks at lines with a given text, until it is opened.
type stuckLog struct {
	lines testutil.LockedBuffer
	at    string
	stuck chan struct{} // closed when the writer blocks
	open  chan struct{}
}

func (w *stuckLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.at)) {
		select {
		case <-w.stuck:
		default:
			close(w.stuck)
		}
		<-w.open
	}
	return w.lines.Write(p)
}

// What is left behind is logged. A log writer that blocks holds up neither that server,
// nor another one, nor Close.
func TestLeftBehindLog(t *testing.T) {
	const servers = events.MaxLines + 10
	runWithHarness(t, "complete_after_close", func(t *testing.T, h *harness) {
		h.script("fs", script{left: errLeft})
		h.register(mcpvisor.ServerSpec{Name: "fs"})
		require.ErrorIs(t, h.rt.Unregister(t.Context(), "fs"), mcpvisor.ErrLeftBehind)
		require.NoError(t, h.rt.Close(t.Context()))
		require.Equal(t, 1, strings.Count(h.log.String(), errLeft.Error()), "once")
		require.Empty(t, h.rt.leftBehind.byGen, "it was reported")
	})
	testutil.RunInBubble(t, "writer_blocks", func(t *testing.T) {
		log := &stuckLog{at: "left something behind", stuck: make(chan struct{}), open: make(chan struct{})}
		h := &harness{t: t, log: &log.lines, dialers: map[string][]*scriptedDialer{}}
		h.rt = New(Options{NewDialer: h.newDialer, Logger: zerolog.New(log)})
		defer time.Sleep(2 * time.Second) // as in withHarness
		defer func() { _ = h.rt.Close(context.Background()) }()
		defer close(log.open)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range servers {
			name := fmt.Sprintf("fs%d", i)
			h.script(name, script{left: errLeft})
			h.register(mcpvisor.ServerSpec{Name: name})
		}
		h.script("git", script{})
		h.register(mcpvisor.ServerSpec{Name: "git"})
		began := time.Now()
		for i := range servers {
			require.ErrorIs(t, h.rt.Unregister(ctx, fmt.Sprintf("fs%d", i)), mcpvisor.ErrLeftBehind)
			<-log.stuck
		}
		require.NoError(t, h.rt.Unregister(ctx, "git"), "another server")
		require.NoError(t, h.rt.Close(ctx))
		require.LessOrEqual(t, time.Since(began), 2*events.CloseTimeout)
	})
	testutil.RunInBubble(t, "lost_lines_are_counted", func(t *testing.T) {
		log := &stuckLog{at: "left something behind", stuck: make(chan struct{}), open: make(chan struct{})}
		h := &harness{t: t, log: &log.lines, dialers: map[string][]*scriptedDialer{}}
		h.rt = New(Options{NewDialer: h.newDialer, Logger: zerolog.New(log)})
		defer time.Sleep(2 * time.Second)
		for i := range servers {
			name := fmt.Sprintf("fs%d", i)
			h.script(name, script{left: errLeft})
			h.register(mcpvisor.ServerSpec{Name: name})
			require.ErrorIs(t, h.rt.Unregister(t.Context(), name), mcpvisor.ErrLeftBehind)
			<-log.stuck
		}
		close(log.open)
		require.NoError(t, h.rt.Close(t.Context()))
		written := strings.Count(log.lines.String(), "left something behind")
		require.Equal(t, events.MaxLines+1, written, "one that was being written, and those that waited")
		require.Contains(t, log.lines.String(), fmt.Sprintf(`"missed":%d,`, servers-written), "the others are counted")
	})
}
