package endpoint

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The rest of a body that stalls is given up after BodyTimeout.
func TestDrain_stalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, feed := io.Pipe()
		go func() { _, _ = feed.Write([]byte("no")) }()
		began := time.Now()
		drain(body)
		require.Equal(t, BodyTimeout, time.Since(began))
		_, err := feed.Write([]byte("more"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}
