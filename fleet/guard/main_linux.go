package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// Main runs the guard if this process was started as one, and does not return then. Call it first of
// all in main, and in TestMain. release gives a lease back; it may be called again if it fails.
func Main(release Release) {
	if os.Getenv(roleName) == "" {
		return
	}
	// Nothing that is meant for the node may end the guard before it.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	if err := watch(release); err != nil {
		fmt.Fprintln(os.Stderr, "mcpvisor guard:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// watch is the life of a guard.
func watch(release Release) error {
	messages, gone := make(chan message), make(chan struct{})
	go func() {
		lines := bufio.NewReader(os.Stdin)
		decoder := json.NewDecoder(lines)
		for {
			var m message
			if err := decoder.Decode(&m); err != nil {
				close(gone) // the node is dead: nothing else closes the pipe
				return
			}
			messages <- m
		}
	}()
	s := newServers(os.Getppid())
	var deadline, next time.Duration // next: when to look again for what appears after the deadline
	var ticket []byte
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for {
		select {
		case m := <-messages:
			if m.Token != "" {
				s.entry, ticket = tokenName+"="+m.Token, m.Ticket
			}
			if m.Deadline > 0 {
				deadline, next = m.Deadline, 0
			}
			for _, pid := range m.Hold {
				s.hold(pid)
			}
			for _, pid := range m.Forget {
				s.forget(pid)
			}
			_, _ = fmt.Println(m.Number)
			if m.Done {
				return nil
			}
		case <-clock.C:
			now := boottime.Now()
			if s.entry == "" || now < deadline || now < next {
				continue
			}
			n, err := s.kill()
			if err != nil {
				fmt.Fprintln(os.Stderr, "mcpvisor guard: the deadline has passed, and not all servers can be ended:", err)
			}
			if next = 0; n == 0 {
				next = now + idleScan
			}
		case <-gone:
			if s.entry == "" {
				return nil
			}
			return s.bury(release, ticket)
		}
	}
}

// bury ends what a dead node has left, and gives its lease back when nothing is left.
func (s *servers) bury(release Release, ticket []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		n, err := s.kill()
		if n == 0 && err == nil {
			break
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("the node is dead, and %d processes of its servers cannot be ended: %w", n, err)
		}
	}
	for {
		err := release(ctx, ticket)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(releasePause):
		case <-ctx.Done():
			return fmt.Errorf("the node is dead, and its lease cannot be given back: %w", err)
		}
	}
}
