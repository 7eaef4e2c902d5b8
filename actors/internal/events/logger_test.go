package events

import (
	"runtime"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

type goexitOnce struct{ writes int }

func (w *goexitOnce) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 1 {
		runtime.Goexit() // as t.FailNow does in the handler of a test
	}
	return len(p), nil
}

// A writer that ends its goroutine costs one line, and not all later ones.
func TestLogger_writer_that_ends_its_goroutine(t *testing.T) {
	hub, w := NewHub(), &goexitOnce{}
	l := NewLogger(hub, zerolog.New(w))
	for range 3 {
		hub.Publish(mcpvisor.Event{Kind: mcpvisor.EventReady, Server: "s"})
	}
	hub.Close()
	<-l.written
	require.Equal(t, 3, w.writes)
}
