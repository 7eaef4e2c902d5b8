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
