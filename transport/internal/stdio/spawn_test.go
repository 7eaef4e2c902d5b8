package stdio

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestSpawn_after_abort: a session that was aborted is released, so Open must not start
// a process.
func TestSpawn_after_abort(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
		require.Fail(t, "a process is started")
		return nil, transporttest.ErrGivenUp
	}
	s := d.NewSession()
	s.Abort(transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "there is nothing to release")
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
}

// TestSpawn_aborted_meanwhile: the release of an aborted session waits for the process
// that is being started.
func TestSpawn_aborted_meanwhile(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s, spawn := d.NewSession(), d.spawn
	var started process.Process
	d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
		s.Abort(transporttest.ErrGivenUp)
		select {
		case <-s.Released():
			require.Fail(t, "released before the process is started")
		default:
		}
		p, cause := spawn(1)
		started = p
		return p, cause
	}
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "nothing is left")
	transporttest.RequireClosed(t, started.Exited(), "the process is not ended")
}

// killedProcess records that it was killed.
type killedProcess struct {
	process.Process
	killed atomic.Bool
}

func (p *killedProcess) Kill() {
	p.killed.Store(true)
	p.Process.Kill()
}

// TestSpawn_killed_meanwhile: a process that is being started while the session is killed gets no
// grace.
func TestSpawn_killed_meanwhile(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s, spawn := d.NewSession(), d.spawn
	started := &killedProcess{}
	d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
		transport.Kill(s, transporttest.ErrGivenUp)
		p, cause := spawn(1)
		started.Process = p
		return started, cause
	}
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "nothing is left")
	require.True(t, started.killed.Load(), "it was asked to end, and not killed")
}

// TestSpawn_second_process_after_the_first_is_gone: the second process of a negotiation
// starts after the first one has ended. Two processes could contend for one lock or
// port.
func TestSpawn_second_process_after_the_first_is_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		late := eraServer(transporttest.ModernAnswer, unknownVersion, 0)
		d, started := newServerDialer(t, mcpvisor.EraAuto, afterDelay(10*time.Second,
			func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				err := late(ctx, stdin, stdout, stderr)
				time.Sleep(time.Second) // it cleans up before it exits
				return err
			}))
		era, cause := openOnce(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.EqualValues(t, 2, started.Load())
		require.EqualValues(t, 1, most.Load())
	})
}

// TestSpawn_first_process_does_not_end: the deadline of Open also bounds the wait for
// the end of the first process.
func TestSpawn_first_process_does_not_end(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := eraServer(transporttest.ModernAnswer, unknownVersion, 0)
		d, started := newServerDialer(t, mcpvisor.EraAuto, afterDelay(10*time.Second,
			func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				err := late(ctx, stdin, stdout, stderr)
				time.Sleep(2 * time.Hour)
				return err
			}))
		d.spec.Timeouts.Shutdown = time.Hour
		s := d.NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.Error(t, s.Open(ctx))
		require.LessOrEqual(t, time.Since(began), time.Minute)
		<-s.Released()
		require.EqualValues(t, 1, started.Load())
		time.Sleep(3 * time.Hour)
	})
}
