package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestABondEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s exchangeTable
		began := time.Now()
		late, early := s.start(context.Background(), time.Minute), s.start(context.Background(), time.Second)
		endless := s.start(context.Background(), 0)
		<-early.Done()
		require.InDelta(t, time.Second, time.Since(began), float64(sweepGrain))
		require.Equal(t, context.DeadlineExceeded, early.Err())
		require.ErrorIs(t, early.Cause(), mcpvisor.ErrTimeout)
		require.NoError(t, late.Err())
		<-late.Done()
		require.InDelta(t, time.Minute, time.Since(began), float64(sweepGrain))
		time.Sleep(time.Hour)
		require.NoError(t, endless.Err())
		for _, b := range []*exchange{late, early, endless} {
			b.finish()
			b.finish()
		}
		require.Empty(t, s.open)
	})
}

func TestABondEndsWithItsParent(t *testing.T) {
	var s exchangeTable
	why := errors.New("changed my mind")
	parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), "k", "v")) //nolint:staticcheck // a test
	b := s.start(parent, time.Hour)
	require.Equal(t, "v", b.Value("k"))
	cancel(why)
	<-b.Done()
	require.Equal(t, context.Canceled, b.Err())
	require.Equal(t, why, b.Cause())
	require.Equal(t, why, causeOf(b))
	b.finish()

	b = s.start(parent, 0)
	<-b.Done()
	require.Equal(t, why, b.Cause())
	b.finish()
	require.Empty(t, s.open)
}

// An answer that has come counts though the session has died meanwhile, or the
// time is up; so does what the server told before it.
func TestABondIsToldOfProgressUntilItIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s exchangeTable
		heard := 0
		report := func(mcpvisor.Progress) { heard++ }
		died := s.startRequest(context.Background(), Request{Progress: report})
		overdue := s.startRequest(context.Background(), Request{Progress: report, Timeout: time.Second})
		<-overdue.Done()
		s.endAll(errors.New("the session died"))
		<-died.Done()
		for _, b := range []*exchange{died, overdue} {
			id := b.key
			to, found := s.progressed(id)
			require.True(t, found)
			require.True(t, to.put(mcpvisor.Progress{}))
			to.tell()
			b.finish()
			_, found = s.progressed(id)
			require.False(t, found)
		}
		require.Equal(t, 2, heard)
		require.Empty(t, s.open)
	})
}

func TestABondEndsWithItsSession(t *testing.T) {
	var s exchangeTable
	why := errors.New("the session died")
	b := s.start(context.Background(), time.Hour)
	s.endAll(why)
	<-b.Done()
	require.Equal(t, why, b.Cause())
	b.finish()
	b = s.start(context.Background(), time.Hour)
	<-b.Done()
	require.Equal(t, why, b.Cause(), "too late")
	b.finish()
}

func TestALentBondOutlivesItsParentButNotItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s exchangeTable
		parent, cancel := context.WithCancel(context.Background())
		b := s.start(parent, time.Second)
		require.True(t, b.detach())
		b.finish()
		cancel()
		time.Sleep(time.Minute)
		require.NoError(t, b.Err())
		s.endAll(errors.New("over"))
		require.Error(t, b.Err())
		b.finishDetached()

		var other exchangeTable
		b = other.start(parent, 0)
		synctest.Wait()
		require.False(t, b.detach(), "its parent has ended")
		b.finish()
	})
}

// Derived contexts follow a bond at once, and without a goroutine each: the
// bubble would wait for one that is left.
func TestContextsDerivedFromABond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s exchangeTable
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		b := s.start(parent, time.Second)
		child, stop := context.WithCancel(b)
		defer stop()
		gone, leave := context.WithTimeout(b, time.Millisecond)
		<-gone.Done()
		leave()
		b.mu.Lock()
		followers := len(b.afterFuncs)
		b.mu.Unlock()
		require.Equal(t, 1, followers, "who has left is forgotten")
		until, ok := child.Deadline()
		require.True(t, ok)
		require.Equal(t, time.Second-time.Millisecond, time.Until(until))
		<-child.Done()
		require.Equal(t, context.DeadlineExceeded, child.Err())
		orphan, drop := context.WithCancel(b)
		defer drop()
		<-orphan.Done()
		b.finish()
	})
}

// An exchange that has ended leaves nothing with its parent, which may live as
// long as the host.
func TestABondLeavesNothingWithItsParent(t *testing.T) {
	var s exchangeTable
	parent := s.start(context.Background(), 0)
	child := s.start(parent, time.Hour)
	require.Len(t, parent.afterFuncs, 1)
	child.finish()
	require.Empty(t, parent.afterFuncs)
	parent.finish()
}

// Only requests have progress: a server cannot prolong what is no request.
func TestProgressOfNoRequest(t *testing.T) {
	var s exchangeTable
	b := s.start(context.Background(), time.Hour)
	due, _ := b.Deadline()
	_, found := s.progressed(b.key)
	require.False(t, found)
	now, _ := b.Deadline()
	require.Equal(t, due, now)
	b.finish()
}

// That nothing was written is certain only of a connection that is closed, and
// counts from where the exchange got it.
func TestUnwritten(t *testing.T) {
	dial := newConnTracker().track(func(context.Context, string, string) (net.Conn, error) {
		mine, peer := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		return mine, nil
	})
	conn, err := dial(t.Context(), "", "")
	require.NoError(t, err)
	_, err = conn.Write([]byte("another's"))
	require.NoError(t, err)
	var s exchangeTable
	b := s.start(context.Background(), 0)
	defer b.finish()
	require.False(t, b.unwritten(), "no connection yet")
	b.gotConn(httptrace.GotConnInfo{Conn: conn})
	require.False(t, b.unwritten(), "it may still be written to")
	late := s.start(context.Background(), 0)
	defer late.finish()
	late.gotConn(httptrace.GotConnInfo{Conn: conn})
	_, err = conn.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.False(t, b.unwritten())
	b.gotConn(httptrace.GotConnInfo{Conn: conn, Reused: true})
	require.True(t, b.unwritten())
	b.resetConn()
	require.False(t, b.unwritten(), "a new attempt has no connection yet")
	require.False(t, b.connected.Load())
	require.False(t, b.connReused.Load())
}

// An exchange may hang on another one of the same session: the go-sdk's requests
// do, on that which opens the session.
func TestBondDeadlineInsideAnother(t *testing.T) {
	var set exchangeTable
	outer := set.start(t.Context(), time.Hour)
	defer outer.finish()
	inner := set.start(outer, 2*time.Hour)
	defer inner.finish()
	asked := make(chan time.Time, 1)
	go func() {
		d, _ := inner.Deadline()
		asked <- d
	}()
	select {
	case d := <-asked:
		want, _ := outer.Deadline()
		require.Equal(t, want, d)
	case <-time.After(patience):
		require.FailNow(t, "the deadline is never told")
	}
}
