package subscriptions

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// A renewal that fails is made again at the next start of the server. What no session holds
// any more at its end is released.
func TestCounter_renewal_fails(t *testing.T) {
	gone, ended := make(chan struct{}), make(chan resource.Name, 1)
	c := New(func(ctx context.Context, r resource.Name, on bool) error {
		if !on {
			ended <- r
			return nil
		}
		select { // the server does not answer
		case <-gone:
			return errors.New("the server is gone")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c.Bound = time.Hour
	silent := resource.Name{Server: "silent", URI: "mem://silent"}
	c.Hold(silent)
	first := c.Renew("silent", 7)
	c.Release(silent, func() {})
	require.True(t, c.AreHeld(), "or the subscription is made after it was ended")
	close(gone)
	<-first
	require.Equal(t, silent, <-ended)
	require.False(t, c.AreHeld())
	c.Hold(silent)
	second := c.Renew("silent", 8) // it fails: the server is gone
	<-second
	third := c.Renew("silent", 8)
	require.NotEqual(t, second, third)
	<-third
	c.Release(silent, func() {})
	require.Equal(t, silent, <-ended)
	require.False(t, c.AreHeld())

	fourth := c.Renew("silent", 9)
	require.Equal(t, fourth, c.Renew("silent", 9), "nothing is held, so nothing has failed")
	require.Equal(t, fourth, c.Renew("silent", 8), "a session that reads events late")
	c.Forget("silent", 8)
	require.Equal(t, fourth, c.Renew("silent", 9), "only the registration that has ended is forgotten")
}

// A subscription that a session makes while the last one before it ends stands at the end.
func TestCounter_again_while_it_ends(t *testing.T) {
	name := resource.Name{Server: "a", URI: "mem://a"}
	asked := make(chan bool)
	c := New(func(_ context.Context, _ resource.Name, on bool) error {
		asked <- on
		return nil
	})
	c.Hold(name)
	ended := make(chan struct{})
	c.Release(name, func() { close(ended) })
	c.Hold(name) // before the server is told
	require.False(t, <-asked)
	require.True(t, <-asked)
	<-ended
	require.Equal(t, 1, c.Sessions(name))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
