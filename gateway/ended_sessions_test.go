package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A principal that ends sessions in a loop makes its own ids valid again, those that expire first, and no others.
func TestEndedSessions(t *testing.T) {
	e, soon := newEndedSessions(100), time.Now().Add(time.Hour)
	id := func(n int) nonce { return nonce{byte(n), byte(n >> 8)} }
	for n := range 10 {
		e.add("ann", id(n), soon)
	}
	for n := range 1000 {
		e.add("eve", id(n), soon.Add(time.Duration(n)*time.Minute+time.Minute))
		require.LessOrEqual(t, e.count, 100)
	}
	for n := range 10 {
		require.True(t, e.has("ann", id(n)))
		require.False(t, e.has("eve", id(n)))
	}
	require.True(t, e.has("eve", id(999)))

	e = newEndedSessions(3)
	for n := range 10 {
		e.add("eve", id(n), time.Now())
	}
	e.add("ann", id(1), soon)
	require.True(t, e.has("ann", id(1)))
	require.LessOrEqual(t, e.count, 3)
}
