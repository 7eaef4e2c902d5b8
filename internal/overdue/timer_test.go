package overdue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// A timer that fires late waits for a bounded grace, and so does one that is late again.
func TestTimer_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := 0
		timer := AfterFunc(time.Hour, func() { fired++ })
		for range maxGraces {
			require.False(t, timer.expire(timer.due.Add(time.Minute)), "it waits")
		}
		require.True(t, timer.expire(timer.due.Add(time.Minute)))
		require.False(t, timer.expire(timer.due.Add(time.Minute)), "it has fired")

		timer.Reset(time.Second)
		require.False(t, timer.expire(timer.due.Add(-1)), "it was set again since it fired")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, fired, "on time")
		require.False(t, timer.Stop())

		timer.Reset(time.Second)
		require.True(t, timer.Stop())
		require.False(t, timer.expire(timer.due), "a stopped timer that fires at the same moment does nothing")
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, fired)
	})
}

// A grace is in proportion: a busy machine delays a timeout a little, and a stopped process a moment.
func TestGrace(t *testing.T) {
	require.Zero(t, Grace(-time.Second))
	require.Zero(t, Grace(tolerance))
	require.Equal(t, 40*time.Millisecond, Grace(10*time.Millisecond))
	require.Equal(t, maxGrace, Grace(time.Hour))
}

// A context ends as those of package context do: with the same errors, causes and deadlines, and so do those
// that are derived from it.
func TestWithDeadlineCause(t *testing.T) {
	errOwn := errors.New("own")
	type with func(context.Context, time.Time, error) (context.Context, context.CancelFunc)
	for name, made := range map[string]with{"std": context.WithDeadlineCause, "overdue": WithDeadlineCause} {
		for _, how := range []string{"deadline", "cancel", "parent"} {
			testutil.RunInBubble(t, name+" "+how, func(t *testing.T) {
				parent, cancelParent := context.WithCancelCause(t.Context())
				defer cancelParent(nil)
				end := time.Now().Add(time.Second)
				ctx, cancel := made(parent, end, errOwn)
				defer cancel()
				child, cancelChild := context.WithCancel(ctx)
				defer cancelChild()
				at, ok := child.Deadline()
				require.True(t, ok)
				require.Equal(t, end, at)
				require.NoError(t, ctx.Err())
				err, cause := context.Canceled, context.Canceled
				switch how {
				case "deadline":
					time.Sleep(time.Second)
					err, cause = context.DeadlineExceeded, errOwn
				case "cancel":
					cancel()
				case "parent":
					cancelParent(errOwn)
					cause = errOwn
				}
				<-ctx.Done()
				<-child.Done()
				for _, c := range []context.Context{ctx, child} {
					require.Equal(t, err, c.Err())
					require.Equal(t, cause, context.Cause(c))
				}
				cancel()
				require.Equal(t, err, ctx.Err())
			})
		}
	}
}

// What is late has time to be read, a context that was canceled has not.
func TestLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Second)
		<-Last(ctx)
		require.Equal(t, time.Second, time.Since(began))
		time.Sleep(time.Second) // nothing looks at the context
		<-Last(ctx)
		require.Equal(t, 2*time.Second+maxGrace, time.Since(began))
		canceled, cancel := context.WithTimeout(t.Context(), time.Second)
		cancel()
		time.Sleep(time.Hour)
		began = time.Now()
		<-Last(canceled)
		require.Zero(t, time.Since(began))

		ctx, cancel = WithDeadline(t.Context(), time.Now().Add(-time.Hour)) // it was made while the process was stopped
		defer cancel()
		synctest.Wait()
		require.NoError(t, ctx.Err())
		<-ctx.Done()
		require.Equal(t, maxGrace, time.Since(began))
	})
}
