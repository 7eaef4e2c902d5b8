package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// While another goroutine writes, the one that has served a call neither waits for it nor takes a message, which would
// overtake the one that is being written. The other one is woken.
func TestDirect_leaves_messages_to_the_one_who_writes(t *testing.T) {
	s := openRaw(t, Transport(newClient(t)))
	near := s.conn.(*connection)
	waiting := func() int {
		near.out.mu.Lock()
		defer near.out.mu.Unlock()
		return len(near.out.queue)
	}
	s.send(1, "ping", "{}")
	until(t, func() bool { return waiting() == 1 })
	receive(t, near.out.wake)
	d := &direct{near: near}
	d.writing.Lock()
	defer d.writing.Unlock()
	done := make(chan bool, 1)
	go func() {
		d.writeAtOnce()
		done <- true
	}()
	receive(t, done)
	require.Equal(t, 1, waiting())
	require.Nil(t, d.next)
	receive(t, near.out.wake)
}
