package jsonrpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
