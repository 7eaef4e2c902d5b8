package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
)

// hangups are the SIGHUPs that ask for a reload. The SIGHUP of a terminal that was closed
// interrupts the command, as it would end a program that does not handle it.
type hangups struct {
	received chan struct{} // has room for one: a second request before the first is served adds nothing
	signals  chan os.Signal
	cancel   context.CancelFunc
	done     chan struct{}
}

// watchHangups begins to handle SIGHUP. It replaces the context of inv by one that the end of
// its terminal ends, too.
func watchHangups(inv *servers.Opener) *hangups {
	h := &hangups{received: make(chan struct{}, 1), signals: make(chan os.Signal, 1), done: make(chan struct{})}
	inv.Context, h.cancel = context.WithCancel(inv.Context)
	var terminals []int
	for _, stream := range []any{inv.In, inv.Out, inv.Err} {
		if file, ok := stream.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
			terminals = append(terminals, int(file.Fd()))
		}
	}
	signal.Notify(h.signals, syscall.SIGHUP)
	go func() {
		defer close(h.done)
		for range h.signals {
			for _, terminal := range terminals {
				if !term.IsTerminal(terminal) {
					h.cancel()
				}
			}
			select {
			case h.received <- struct{}{}:
			default:
			}
		}
	}()
	return h
}

func (h *hangups) stop() {
	signal.Stop(h.signals)
	close(h.signals)
	<-h.done
	h.cancel()
}
