package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
)

// TestCache_single_flight: of many callers one fetches, and all have its body or its error.
func TestCache_single_flight(t *testing.T) {
	b := bodyOf(t, 3, "x")
	c := NewCache(1 << 20)
	const callers = 20
	for _, failure := range []error{errFetch, nil} {
		var fetched atomic.Int64
		release := make(chan struct{})
		fetch := func(context.Context) ([]byte, error) {
			fetched.Add(1)
			<-release
			return b.Encoded(), failure
		}
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				got, err := c.Get(context.Background(), "node", b.Digest(), fetch)
				if failure == nil && (err != nil || got.Digest() != b.Digest()) || !errors.Is(err, failure) {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
		require.Eventually(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			f := c.flights[flightKey{"node", b.Digest()}]
			return f != nil && f.waiting == callers
		}, patience, 1e6)
		close(release)
		wg.Wait()
		require.Equal(t, int64(1), fetched.Load())
	}
	got, err := c.Get(context.Background(), "node", b.Digest(), nil)
	require.NoError(t, err, "it is kept")
	require.Equal(t, b.Encoded(), got.Encoded())
}

// TestCache_callers_leave: a fetch ends with its last caller, and not before; who comes later does
// not get its error.
func TestCache_callers_leave(t *testing.T) {
	b := bodyOf(t, 1, "x")
	c := NewCache(1 << 20)
	began, release := make(chan context.Context, 1), make(chan struct{})
	fetch := func(ctx context.Context) ([]byte, error) {
		began <- ctx
		<-ctx.Done()
		<-release
		return nil, ctx.Err()
	}
	first, leaveFirst := context.WithCancel(context.Background())
	second, leaveSecond := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	go func() { _, err := c.Get(first, "node", b.Digest(), fetch); errs <- err }()
	fetching := <-began
	go func() { _, err := c.Get(second, "node", b.Digest(), fetch); errs <- err }()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.flights[flightKey{"node", b.Digest()}].waiting == 2
	}, patience, 1e6)
	leaveFirst()
	require.ErrorIs(t, <-errs, context.Canceled)
	require.NoError(t, fetching.Err(), "a caller waits")
	leaveSecond()
	require.ErrorIs(t, <-errs, context.Canceled)
	require.Error(t, fetching.Err())
	got, err := c.Get(context.Background(), "node", b.Digest(), func(context.Context) ([]byte, error) { return b.Encoded(), nil })
	require.NoError(t, err)
	require.Equal(t, b.Digest(), got.Digest())
	close(release)
	_, err = c.Get(first, "node", b.Digest(), nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestCache_two_sources: a source that hangs does not hold up another one with the same body.
func TestCache_two_sources(t *testing.T) {
	b := bodyOf(t, 1, "x")
	c := NewCache(1 << 20)
	began := make(chan struct{})
	hung, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := c.Get(hung, "b", b.Digest(), func(ctx context.Context) ([]byte, error) {
			close(began)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		left <- err
	}()
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := c.Get(ctx, "c", b.Digest(), func(context.Context) ([]byte, error) { return b.Encoded(), nil })
	require.NoError(t, err)
	require.Equal(t, b.Digest(), got.Digest())
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
}

// TestCache_bound: the cache keeps what was used last, within its bytes.
func TestCache_bound(t *testing.T) {
	a, b, d := bodyOf(t, 5, "a"), bodyOf(t, 5, "b"), bodyOf(t, 5, "d")
	c := NewCache(2*len(a.Encoded()) + 10)
	get := func(body *encodedlists.Body) (cached bool) {
		cached = true
		_, err := c.Get(t.Context(), "node", body.Digest(), func(context.Context) ([]byte, error) {
			cached = false
			return body.Encoded(), nil
		})
		require.NoError(t, err)
		return cached
	}
	for _, body := range []*encodedlists.Body{a, b} {
		require.False(t, get(body))
	}
	require.True(t, get(a), "it is used")
	require.False(t, get(d), "in the place of b")
	require.False(t, get(bodyOf(t, 100, "large")))
	require.True(t, get(a))
	require.True(t, get(d))
	require.Nil(t, c.kept[b.Digest()])
	require.Len(t, c.kept, 2)
	require.Equal(t, 2, c.recent.Len())
	require.Equal(t, len(a.Encoded())+len(d.Encoded()), c.bytes)
}

// TestCache_lying_digest: bytes with another digest are an error, and are not kept.
func TestCache_lying_digest(t *testing.T) {
	a, b := bodyOf(t, 1, "a"), bodyOf(t, 1, "b")
	c := NewCache(1 << 20)
	_, err := c.Get(context.Background(), "node", a.Digest(), func(context.Context) ([]byte, error) { return b.Encoded(), nil })
	require.ErrorIs(t, err, encodedlists.ErrDigest)
	require.Empty(t, c.kept)
}
