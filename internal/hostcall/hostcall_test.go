package hostcall

import (
	"context"
	"errors"
	"net/url"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errPlain = errors.New("plain")

func TestCall(t *testing.T) {
	require.NoError(t, Call("thing", func() error { return nil }))
	require.Equal(t, errPlain, Call("thing", func() error { return errPlain }))
	require.EqualError(t, Call("thing", func() error { panic("boom") }), "the host's thing panicked: boom")
	require.ErrorContains(t, Call("thing", func() error { return (*url.Error)(nil) }), "an error of type *url.Error that panicked")
	require.EqualError(t, Call("thing", func() error { runtime.Goexit(); return nil }), "the host's thing ended its goroutine")
	n, err := Value("thing", func() (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	_, err = Value("thing", func() (int, error) { panic(errPlain) })
	require.EqualError(t, err, "the host's thing panicked: plain")
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := func(context.Context) error { runtime.Goexit(); return nil }
		require.EqualError(t, Do(t.Context(), "thing", ended), "the host's thing ended its goroutine")
		require.EqualError(t, Do(t.Context(), "thing", func(context.Context) error { panic("boom") }), "the host's thing panicked: boom")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late, free := make(chan int, 1), make(chan struct{})
		_, err := Wait(ctx, "thing", func(n int) { late <- n; panic("boom") }, func(context.Context) (int, error) { <-free; return 7, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(free)
		require.Equal(t, 7, <-late)
	})
}
