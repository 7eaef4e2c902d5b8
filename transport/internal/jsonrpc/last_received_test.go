package jsonrpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLastHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := NewLastReceived()
		require.Zero(t, heard.Time())
		for _, at := range []time.Duration{0, time.Nanosecond, time.Hour} {
			time.Sleep(at)
			heard.Note()
			require.True(t, heard.Time().Equal(time.Now()))
			time.Sleep(time.Minute)
			require.Equal(t, time.Minute, time.Since(heard.Time()))
		}
	})
}
