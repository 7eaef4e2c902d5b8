package subscription

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDesired_version(t *testing.T) {
	d := NewDesired()
	_, uris, version := d.Snapshot()
	require.Empty(t, uris)
	require.False(t, d.ChangedSince(version))

	d.SetResource("x:b", true)
	d.SetResource("x:a", true)
	require.True(t, d.ChangedSince(version))
	level, uris, version := d.Snapshot()
	require.Empty(t, level)
	require.Equal(t, []string{"x:a", "x:b"}, uris, "sorted")

	d.SetResource("x:a", true)
	d.SetResource("x:c", false)
	require.False(t, d.ChangedSince(version), "nothing has changed")
	d.SetResource("x:a", false)
	require.True(t, d.ChangedSince(version))
	require.False(t, d.contains("x:a"))
	require.True(t, d.contains("x:b"))
}

func TestDesired_revertLevel(t *testing.T) {
	d := NewDesired()
	d.SetLevel("error")
	d.SetLevel("debug")
	d.revertLevel("debug", "error")
	require.Equal(t, "error", d.LogLevel())

	_, _, version := d.Snapshot()
	d.revertLevel("debug", "info")
	require.Equal(t, "error", d.LogLevel(), "another level was set meanwhile")
	require.False(t, d.ChangedSince(version))
}
