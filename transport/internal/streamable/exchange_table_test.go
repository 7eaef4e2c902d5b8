package streamable

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// size returns how many exchanges are in the table.
func (t *exchangeTable) size() int {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return t.requests.Open.Len()
}

// requireEnd asserts that an exchange has ended, and why.
func requireEnd(t *testing.T, x *exchange, wantErr, wantCause error) {
	t.Helper()
	err, cause := jsonrpc.ContextEnd(x.ctx)
	require.Equal(t, wantErr, err)
	require.ErrorIs(t, cause, wantCause)
}

func TestExchange(t *testing.T) {
	t.Run("ends at its deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var table exchangeTable
			began := time.Now()
			late, early := table.start(context.Background(), time.Minute), table.start(context.Background(), time.Second)
			endless := table.start(context.Background(), 0)
			<-early.ctx.Done()
			require.InDelta(t, time.Second, time.Since(began), float64(jsonrpc.SweepGrain))
			requireEnd(t, early, context.DeadlineExceeded, mcpvisor.ErrTimeout)
			require.NoError(t, late.ctx.Err())
			<-late.ctx.Done()
			require.InDelta(t, time.Minute, time.Since(began), float64(jsonrpc.SweepGrain))
			time.Sleep(time.Hour)
			require.NoError(t, endless.ctx.Err())
			require.NoError(t, endless.cause())
			for _, x := range []*exchange{late, early, endless} {
				x.finish()
				x.finish()
			}
			require.Zero(t, table.size())
		})
	})
	t.Run("ends with its caller", func(t *testing.T) {
		var table exchangeTable
		why := errors.New("not needed any more")
		caller, cancel := context.WithCancelCause(context.WithValue(context.Background(), "k", "v")) //nolint:staticcheck // a test
		x := table.start(caller, time.Hour)
		require.Equal(t, "v", x.ctx.Value("k"), "values are inherited")
		cancel(why)
		<-x.ctx.Done()
		requireEnd(t, x, context.Canceled, why)
		x.finish()

		x = table.start(caller, 0)
		<-x.ctx.Done()
		requireEnd(t, x, context.Canceled, why)
		x.finish()
		require.Zero(t, table.size())
	})
	t.Run("ends at the deadline of its caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var table exchangeTable
			caller, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			x := table.start(caller, time.Hour)
			<-x.ctx.Done()
			requireEnd(t, x, context.DeadlineExceeded, context.DeadlineExceeded)
			require.NotErrorIs(t, x.cause(), jsonrpc.ErrOverdue, "the deadline of the exchange has not passed")
			x.finish()
		})
	})
	t.Run("ends with its parent exchange", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var table exchangeTable
			outer := table.start(t.Context(), time.Second)
			inner := table.start(outer.ctx, time.Hour)
			<-inner.ctx.Done()
			requireEnd(t, inner, context.DeadlineExceeded, jsonrpc.ErrOverdue)
			inner.finish()
			outer.finish()
			require.Zero(t, table.size())
		})
	})
	t.Run("ends with its session", func(t *testing.T) {
		var table exchangeTable
		why := errors.New("the session died")
		x := table.start(context.Background(), time.Hour)
		table.endAll(why)
		<-x.ctx.Done()
		requireEnd(t, x, context.Canceled, why)
		x.finish()
		x = table.start(context.Background(), time.Hour)
		<-x.ctx.Done()
		requireEnd(t, x, context.Canceled, why)
		x.finish()
	})
	t.Run("contexts derived from it end with it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var table exchangeTable
			x := table.start(t.Context(), time.Second)
			child, stop := context.WithCancel(x.ctx)
			defer stop()
			<-child.Done()
			requireEnd(t, x, context.DeadlineExceeded, jsonrpc.ErrOverdue)
			err, cause := jsonrpc.ContextEnd(child)
			require.Equal(t, context.DeadlineExceeded, err)
			require.Equal(t, jsonrpc.ErrOverdue, cause)
			late, stopLate := context.WithCancel(x.ctx)
			defer stopLate()
			<-late.Done()
			x.finish()
		})
	})
	t.Run("unregisters from its caller when finished", func(t *testing.T) {
		var table exchangeTable
		caller := &followedContext{Context: context.Background(), done: make(chan struct{})}
		x := table.start(caller, time.Hour)
		require.Equal(t, 1, caller.afterFuncs)
		x.finish()
		require.Zero(t, caller.afterFuncs)
	})
}

// followedContext counts the functions that are registered to run at its end.
type followedContext struct {
	context.Context
	done       chan struct{}
	afterFuncs int
}

func (c *followedContext) Done() <-chan struct{} { return c.done }

// AfterFunc is the optional method that context.AfterFunc calls.
func (c *followedContext) AfterFunc(func()) (stop func() bool) {
	c.afterFuncs++
	return func() bool { c.afterFuncs--; return true }
}

func TestExchange_detach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table exchangeTable
		caller, cancel := context.WithCancel(context.Background())
		x := table.start(caller, time.Second)
		require.True(t, x.detach())
		x.finish()
		cancel()
		time.Sleep(time.Minute)
		require.NoError(t, x.ctx.Err(), "neither the caller nor the deadline ends a detached exchange")
		table.endAll(errors.New("over"))
		require.Error(t, x.ctx.Err(), "the end of the session ends a detached exchange")
		x.finishDetached()

		var other exchangeTable
		x = other.start(caller, 0)
		synctest.Wait()
		require.False(t, x.detach(), "the caller's context has ended")
		x.finish()
	})
}

// An exchange that has ended stays in the table until it is finished, so that progress
// reported before its answer still reaches the caller.
func TestExchangeTable_progress(t *testing.T) {
	t.Run("until the exchange is finished", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var table exchangeTable
			reports := 0
			report := func(mcpvisor.Progress) { reports++ }
			died := table.startRequest(context.Background(), &transport.Request{Progress: report})
			overdue := table.startRequest(context.Background(), &transport.Request{Progress: report, Timeout: time.Second})
			<-overdue.ctx.Done()
			table.endAll(errors.New("the session died"))
			<-died.ctx.Done()
			for _, x := range []*exchange{died, overdue} {
				to, found := table.requests.Progressed(x.id())
				require.True(t, found)
				require.True(t, to.Push(mcpvisor.Progress{}))
				to.Deliver()
				x.finish()
				_, found = table.requests.Progressed(x.id())
				require.False(t, found)
			}
			require.Equal(t, 2, reports)
			require.Zero(t, table.size())
		})
	})
	t.Run("only of requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var table exchangeTable
			began := time.Now()
			x := table.start(context.Background(), time.Hour)
			time.Sleep(time.Minute)
			_, found := table.requests.Progressed(x.id())
			require.False(t, found)
			<-x.ctx.Done()
			require.InDelta(t, time.Hour, time.Since(began), float64(jsonrpc.SweepGrain), "the deadline has not moved")
			x.finish()
		})
	})
}

// An error without an id fails a request after a second, unless the server shows that it
// works on it.
func TestExchange_failAfterGrace(t *testing.T) {
	for name, row := range map[string]struct {
		then  func(*exchangeTable, *exchange)
		fails bool
	}{
		"nothing follows": {func(*exchangeTable, *exchange) {}, true},
		"progress":        {func(table *exchangeTable, x *exchange) { table.requests.Progressed(x.id()) }, false},
		"a handler":       {func(table *exchangeTable, x *exchange) { table.requests.PauseClocks(x.id())(false) }, false},
		"finished":        {func(_ *exchangeTable, x *exchange) { x.finish() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var table exchangeTable
				x := table.startRequest(t.Context(), &transport.Request{Timeout: time.Minute})
				defer x.finish()
				var failed atomic.Bool
				fail := func() { failed.Store(true) }
				require.True(t, x.failAfterGrace(fail))
				require.False(t, x.failAfterGrace(fail), "only the first one counts")
				row.then(&table, x)
				time.Sleep(30 * time.Second)
				require.Equal(t, row.fails, failed.Load())
				if name != "finished" {
					require.NoError(t, x.cause(), "its deadline has not passed")
				}
			})
		})
	}
}
