package jsonrpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A goroutine that sees the process ended must see the session ended, too.
func TestLifetime_PropagateTo_parent_ends_first(t *testing.T) {
	for range 2000 {
		process, session := NewLifetime(), NewLifetime()
		process.PropagateTo(session)
		seen := make(chan *supervisor.Cause, 1)
		go func() {
			<-process.Dead()
			seen <- session.Cause()
		}()
		cause := &supervisor.Cause{Kind: supervisor.CauseExit}
		require.True(t, process.End(cause))
		require.Same(t, cause, <-seen)
	}
}

func TestLifetime_PropagateTo_after_the_end(t *testing.T) {
	process, session := NewLifetime(), NewLifetime()
	cause := &supervisor.Cause{Kind: supervisor.CauseExit}
	process.End(cause)
	process.PropagateTo(session)
	require.Same(t, cause, session.Cause())
	require.False(t, session.End(&supervisor.Cause{Kind: supervisor.CauseProbe}))
}

func TestLifetime_OnDead_and_OnReleased(t *testing.T) {
	cause := &supervisor.Cause{Kind: supervisor.CauseExit}
	t.Run("called once, in order, without a mutex", func(t *testing.T) {
		process, session := NewLifetime(), NewLifetime()
		var calls []string
		note := func(l *Lifetime, what string) func() {
			return func() {
				l.RecordLeft(nil) // takes the mutex
				calls = append(calls, what)
			}
		}
		process.PropagateTo(session)
		process.OnDead(note(process, "process dead"))
		process.OnReleased(note(process, "process released"))
		process.OnReleased(session.Release)
		session.OnReleased(note(session, "session released"))
		session.OnDead(note(session, "session dead"))
		require.Empty(t, calls)
		require.True(t, process.End(cause))
		require.False(t, process.End(cause))
		require.False(t, session.End(cause))
		require.Equal(t, []string{"session dead", "process dead"}, calls)
		process.Release()
		process.Release()
		require.Equal(t, []string{"session dead", "process dead", "process released", "session released"}, calls)
	})
	t.Run("called at once when it has happened", func(t *testing.T) {
		l, called := NewLifetime(), 0
		l.End(cause)
		l.OnDead(func() { called++ })
		require.Equal(t, 1, called)
		l.OnReleased(func() { called++ })
		require.Equal(t, 1, called)
		l.Release()
		l.OnReleased(func() { called++ })
		require.Equal(t, 3, called)
	})
	t.Run("not before Notify after RecordEnd", func(t *testing.T) {
		l, called := NewLifetime(), false
		l.OnDead(func() { called = true })
		require.True(t, l.RecordEnd(cause))
		require.False(t, called)
		l.Notify()
		require.True(t, called)
	})
	t.Run("a panic keeps no other function from being called", func(t *testing.T) {
		l, called := NewLifetime(), 0
		l.OnDead(func() { panic("scripted") })
		l.OnDead(func() { called++ })
		l.OnReleased(func() { panic("scripted") })
		l.OnReleased(func() { called++ })
		l.End(cause)
		l.Release()
		require.Equal(t, 2, called)
	})
	t.Run("release follows death although another goroutine releases", func(t *testing.T) {
		for range 2000 {
			l := NewLifetime()
			order := make(chan string, 2)
			l.OnDead(func() { order <- "dead" })
			l.OnReleased(func() { order <- "released" })
			go l.End(cause)
			go func() {
				<-l.Dead()
				l.Release()
			}()
			require.Equal(t, "dead", <-order)
			require.Equal(t, "released", <-order)
		}
	})
}

func TestLastReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := NewLastReceived()
		require.Zero(t, last.Time(), "nothing was received")
		for _, pause := range []time.Duration{0, time.Nanosecond, time.Hour} {
			time.Sleep(pause)
			last.Note()
			require.True(t, last.Time().Equal(time.Now()))
			time.Sleep(time.Minute)
			require.Equal(t, time.Minute, time.Since(last.Time()))
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
