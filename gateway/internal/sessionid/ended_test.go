package sessionid

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A principal that ends sessions in a loop makes its own ids valid again, those that expire first, and no others.
func TestEnded(t *testing.T) {
	e, soon := NewEnded(100), time.Now().Add(time.Hour)
	id := func(n int) [nonceBytes]byte { return [nonceBytes]byte{byte(n), byte(n >> 8)} }
	for n := range 10 {
		e.Add("ann", id(n), soon)
	}
	for n := range 1000 {
		e.Add("eve", id(n), soon.Add(time.Duration(n)*time.Minute+time.Minute))
		require.LessOrEqual(t, e.count, 100)
	}
	for n := range 10 {
		require.True(t, e.Has("ann", id(n)))
		require.False(t, e.Has("eve", id(n)))
	}
	require.True(t, e.Has("eve", id(999)))

	e = NewEnded(3)
	for n := range 10 {
		e.Add("eve", id(n), time.Now())
	}
	e.Add("ann", id(1), soon)
	require.True(t, e.Has("ann", id(1)))
	require.LessOrEqual(t, e.count, 3)
}
