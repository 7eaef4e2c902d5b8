package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxWait bounds the start of one server, its return, and the end of all.
const maxWait = time.Minute

// runOwn runs the story against the servers of files: each is killed, waited for, and compared with
// what it was, and no tool is called. It returns the exit code: 2 if the files have no server that
// can be used.
func runOwn(ctx context.Context, p *printer, files []string) int {
	file, err := config.LoadFiles(files)
	if err != nil {
		p.printLine(red, "demo: %v", err)
		return 2
	}
	for _, problem := range file.Problems {
		p.printLine(yellow, "%s", display.Line(problem.String()))
	}
	specs := file.Specs()
	if len(specs) == 0 {
		p.printLine(red, "demo: %s has no server that can be used here; mcpvisor init writes an example", file.Path)
		return 2
	}
	for _, spec := range specs {
		p.nameWidth = max(p.nameWidth, min(len(spec.Name), maxNameWidth))
	}
	p.printLine(bold, "%s of %s · copies of your own are started, and killed · no tool is called", display.Count(len(specs), "server"), file.Path)
	p.printLine(plainText, "")
	st, err := newStory(p)
	if err != nil {
		p.printLine(red, "FAIL  %v", err)
		return 1
	}
	st.check("the demo ran to its end", st.runOwn(ctx, specs))
	return st.end(ending{bound: maxWait, processes: st.readyProcesses, pass: "what was killed left the listing and came back · the others were not affected"})
}

// runOwn starts the servers and breaks one after the other.
func (s *story) runOwn(ctx context.Context, specs []mcpvisor.ServerSpec) error {
	if err := s.client.Register(ctx, specs...); err != nil {
		return err
	}
	var ready []mcpvisor.ServerSpec
	for _, spec := range specs {
		err := s.waitReady(ctx, spec.Name)
		switch status, _ := s.client.ServerStatus(spec.Name); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			ready = append(ready, spec)
		case status.State == supervisor.StateEvicted: // an event says why
			_ = s.await(ctx, spec.Name, mcpvisor.EventEvicted, 0)
			s.p.printFact(red, "skip", spec.Name, "✗ left out")
		case status.LastCause != nil:
			s.p.printFact(red, "skip", spec.Name, "✗ left out: %s", status.LastCause.Describe())
		default:
			s.p.printFact(red, "skip", spec.Name, "✗ left out: %v", err)
		}
	}
	s.p.printTable(s.client.Status())
	s.p.printLine(plainText, "")
	if len(ready) == 0 {
		return errors.New("no server is ready; mcpvisor doctor explains each")
	}
	for _, spec := range ready {
		if err := s.breakServer(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// waitReady is WaitReady with a bound. When it returns nil, the log has printed that the server
// is ready.
func (s *story) waitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("not ready after %v", maxWait))
	defer cancel()
	err := s.client.WaitReady(ctx, name)
	if err == nil {
		status, _ := s.client.ServerStatus(name)
		_, _ = s.events.await(ctx, func(ev mcpvisor.Event) bool {
			return ev.Server == name && ev.Kind == mcpvisor.EventReady && ev.Epoch >= status.Epoch
		})
	}
	return err
}

// noTools is printed for a server that lists no tools.
const noTools = "none: the server lists no tools"

// breakServer kills a server that is a process, and begins a new session with another. It
// checks the listing meanwhile, and waits until the server is ready again.
func (s *story) breakServer(ctx context.Context, spec mcpvisor.ServerSpec) error {
	name := spec.Name
	status, _ := s.client.ServerStatus(name)
	before := s.showTools(name, noTools)
	others := s.client.Status()
	if spec.Stdio == nil {
		s.p.printFact(bold, "LOSE", name, "its session ends, and another begins")
		if err := s.client.Restart(ctx, name); err != nil {
			return err
		}
	} else {
		if err := s.kill(name, "KILL", ""); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		s.check("the end of "+name+" is seen", s.await(waiting, name, mcpvisor.EventDown, status.Epoch))
		cancel()
		names := s.tools(name)
		if now, _ := s.client.ServerStatus(name); now.State != supervisor.StateReady { // else nothing can be said
			s.expect("the tools of "+name+" are not listed while it is down", len(names) == 0, "%v are", names)
			s.p.printFact(dim, "tools", name, "none: the server is down")
		}
	}
	err := s.waitReady(ctx, name)
	if errors.Is(err, mcpvisor.ErrEvicted) {
		s.p.printFact(bold, "START", name, "its policy gives it up, so it is started again by hand")
		if err = s.client.Restart(ctx, name); err == nil {
			err = s.waitReady(ctx, name)
		}
	}
	s.check(name+" comes back", err)
	if err != nil {
		return ctx.Err()
	}
	after := s.showTools(name, noTools)
	if !slices.Equal(before, after) {
		s.p.printFact(yellow, "note", name, "it lists other tools than before: that is up to the server")
	}
	s.expect("the tools of "+name+" come back", (len(before) == 0) == (len(after) == 0), "%d were listed, and %d are", len(before), len(after))
	for _, other := range others {
		if other.Name != name && other.State == supervisor.StateReady {
			now, _ := s.client.ServerStatus(other.Name)
			s.expect(other.Name+" is not affected by "+name, now.Epoch == other.Epoch && now.State == supervisor.StateReady,
				"it is %s, in incarnation %d instead of %d", now.State, now.Epoch, other.Epoch)
		}
	}
	return nil
}

// readyProcesses are those of the servers that became ready.
func (s *story) readyProcesses() (all []int) {
	for _, ev := range s.events.all() {
		if ev.Kind == mcpvisor.EventReady && ev.PID != 0 {
			all = append(all, ev.PID)
		}
	}
	return all
}
