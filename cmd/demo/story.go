package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// story is what the demo and the story of the user's own servers share: a client, what is
// printed about it, and the checks.
type story struct {
	p          *printer
	client     *facade.Client
	events     *eventLog
	goroutines int // before the story

	checks   int
	failures []string
}

// newStory makes a story with a client of its own.
func newStory(p *printer) (*story, error) {
	s := &story{p: p, goroutines: runtime.NumGoroutine()}
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	s.client, s.events = c, newEventLog(p, c.Watch(context.Background()))
	return s, nil
}

// expect counts a check, and records it if it failed.
func (s *story) expect(claim string, holds bool, format string, args ...any) {
	if s.checks++; !holds {
		s.failures = append(s.failures, claim+": "+fmt.Sprintf(format, args...))
	}
}

func (s *story) check(claim string, err error) { s.expect(claim, err == nil, "%v", err) }

// ending is how a story ends.
type ending struct {
	bound time.Duration // of closing the client
	// processes returns those that the story started, of which there are least at least. It is
	// called when the client is closed.
	processes func() []int
	least     int
	pass      string // what held
}

// end stops the servers, checks that nothing is left, prints the result, and returns the exit
// code.
func (s *story) end(e ending) int {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), e.bound)
	defer cancel()
	err := s.client.Close(ctx)
	s.check("closing is bounded", err)
	started := e.processes()
	alive := slices.DeleteFunc(slices.Clone(started), func(pid int) bool { return !mcptest.Alive(pid) })
	s.expect("no process is left", len(alive) == 0 && len(started) >= e.least, "%v of %d are alive", alive, len(started))
	if err == nil {
		<-s.events.done
		s.check("no goroutine is left", checkGoroutines(s.goroutines))
	}
	s.p.printLine(dim, "closed in %s · %d processes were started, %d are left", roundedDuration(time.Since(start)), len(started), len(alive))
	s.p.printLine(plainText, "")
	if len(s.failures) == 0 {
		s.p.printLine(green, "PASS  %s · no orphan process · no leaked goroutine (%d checks)", e.pass, s.checks)
		return 0
	}
	for _, failure := range s.failures {
		s.p.printLine(red, "FAIL  %s", failure)
	}
	return 1
}

// checkGoroutines waits until there are not more goroutines than at the start.
func checkGoroutines(start int) error {
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > start; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("there are %d, and were %d at the start", runtime.NumGoroutine(), start)
		}
	}
	return nil
}

// kill ends the process of a server as kill -9 does. It is printed before it has effects.
func (s *story) kill(server, verb, what string) error {
	status, _ := s.client.ServerStatus(server)
	if status.State != supervisor.StateReady || status.Session == nil || status.Session.PID == 0 {
		return fmt.Errorf("%s has no process to kill", server)
	}
	process, err := os.FindProcess(status.Session.PID)
	if err != nil {
		return err
	}
	s.p.printFact(bold, verb, server, "kill -9 %d%s", process.Pid, what)
	return process.Kill()
}

// showTools prints the listed tools of a server, as many as a line has, and returns all, sorted.
// none is printed if there are none.
func (s *story) showTools(server, none string) []string {
	const shown = 6
	names := s.tools(server)
	text := strings.Join(names[:min(len(names), shown)], " ")
	switch {
	case len(names) == 0:
		text = none
	case len(names) > shown:
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	s.p.printFact(dim, "tools", server, "%s", display.Line(text))
	return names
}

// tools returns the names of the listed tools of a server, sorted.
func (s *story) tools(server string) (names []string) {
	for tool := range s.client.AllTools() {
		if tool.Server == server {
			names = append(names, tool.OriginalName)
		}
	}
	slices.Sort(names)
	return names
}

// await waits until an event of a server was printed: one of a kind, about an incarnation. It
// fails if the server is evicted before.
func (s *story) await(ctx context.Context, server string, kind mcpvisor.EventKind, epoch uint64) error {
	ev, err := s.events.await(ctx, func(ev mcpvisor.Event) bool {
		return ev.Server == server && (ev.Kind == kind && ev.Epoch == epoch || ev.Kind == mcpvisor.EventEvicted)
	})
	switch {
	case err != nil:
		return fmt.Errorf("waiting for incarnation %d of %s to be %s: %w", epoch, server, kind, err)
	case ev.Kind != kind:
		return fmt.Errorf("%s was evicted before incarnation %d was %s: %w", server, epoch, kind, ev.Cause)
	}
	return nil
}
