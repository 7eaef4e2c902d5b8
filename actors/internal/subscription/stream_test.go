package subscription

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An acknowledgement that names no stream belongs to the oldest one that was requested
// for all resources in it.
func TestListener_guessLocked(t *testing.T) {
	lists := &stream{id: 1}
	a := &stream{id: 2, requested: []string{"x:a"}}
	again := &stream{id: 3, requested: []string{"x:a", "x:b"}}
	l := &Listener{open: map[int64]*stream{1: lists, 2: a, 3: again}}

	require.Same(t, lists, l.guessLocked(nil))
	require.Same(t, a, l.guessLocked([]string{"x:a"}))
	require.Same(t, again, l.guessLocked([]string{"x:b"}))
	require.Nil(t, l.guessLocked([]string{"x:c"}))
	a.acked = true
	require.Same(t, again, l.guessLocked([]string{"x:a"}), "the other one was acknowledged before")
	lists.acked = true
	require.Nil(t, l.guessLocked(nil))
}

// Only the latest result of a stream is kept.
func TestStream_reportLocked(t *testing.T) {
	s := &stream{ack: make(chan ackResult, 1)}
	s.reportLocked(ackResult{honored: []string{"x:a"}})
	s.reportLocked(ackResult{final: true})
	require.Equal(t, ackResult{final: true}, <-s.ack)
	require.Empty(t, s.ack)
}

func TestFilter_isEmpty(t *testing.T) {
	require.True(t, filter{}.isEmpty())
	require.False(t, filter{PromptsListChanged: true}.isEmpty())
	require.False(t, filter{ResourceSubscriptions: []string{"x:a"}}.isEmpty())
}

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
