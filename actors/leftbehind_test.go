package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

var errLeft = errors.New("process 7 (sleep): operation not permitted")

// What a session could not end is the error of whoever ends its registration.
func TestLeftBehind(t *testing.T) {
	requireLeft := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, messages.ErrLeftBehind)
		require.ErrorIs(t, err, errLeft)
		require.ErrorContains(t, err, "process 7 (sleep): operation not permitted")
		require.NotContains(t, err.Error(), "\n")
	}
	t.Run("reported_by_unregister", func(t *testing.T) {
		inHouse(t, func(t *testing.T, h *house) {
			h.plays("fs", script{left: errLeft})
			h.register(messages.ServerSpec{Name: "fs"})
			requireLeft(t, h.rt.Unregister(context.Background(), "fs"))
			require.Empty(t, h.rt.Snapshot().Names(), "the name is free")
			h.plays("fs", script{})
			h.register(messages.ServerSpec{Name: "fs"})
			require.NoError(t, h.rt.Unregister(context.Background(), "fs"), "it was another registration")
			require.NoError(t, h.rt.Close(context.Background()))
		})
	})
	t.Run("reported_by_close_with_all_names", func(t *testing.T) {
		inHouse(t, func(t *testing.T, h *house) {
			for _, name := range []string{"fs", "git"} {
				h.plays(name, script{left: errLeft})
				h.register(messages.ServerSpec{Name: name})
			}
			h.leaves = true
			h.plays("clean", script{})
			h.register(messages.ServerSpec{Name: "clean"})
			for range 2 {
				err := h.rt.Close(context.Background())
				requireLeft(t, err)
				require.ErrorContains(t, err, `server "fs"`)
				require.ErrorContains(t, err, `server "git"`)
				require.NotContains(t, err.Error(), "clean")
			}
		})
	})
	t.Run("of_an_earlier_incarnation", func(t *testing.T) {
		inHouse(t, func(t *testing.T, h *house) {
			h.playsInTurn("fs", script{left: errLeft}, script{})
			h.register(messages.ServerSpec{Name: "fs", Retry: supervisor.Retry(3, 0)})
			h.session("fs").Abort(errScripted)
			time.Sleep(time.Second)
			require.Len(t, h.sessions("fs"), 2)
			requireLeft(t, h.rt.Unregister(context.Background(), "fs"))
		})
	})
	t.Run("of_a_start_that_fails", func(t *testing.T) {
		inHouse(t, func(t *testing.T, h *house) {
			h.plays("fs", script{left: errLeft, openErr: &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: "no such file"}})
			err := h.rt.Register(context.Background(), messages.ServerSpec{Name: "fs"})
			require.ErrorIs(t, err, messages.ErrStart)
			require.ErrorContains(t, err, "no such file")
			require.ErrorContains(t, err, "process 7 (sleep)")
		})
	})
}
