package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ownServers runs the story against the servers of configuration files: each is killed,
// waited for, and compared with what it was. No tool is called.
type ownServers struct{ *story }

// maxWait bounds the start of one server, its return, and the end of all.
const maxWait = time.Minute

// unreached reads entries of type "ws", so that the story can say that it leaves them out. The
// library for WebSockets is in the module of the mcpvisor command.
var unreached = config.WithWebSocket(func(config.WebSocket) *mcpvisor.Transport {
	return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return nil, errors.New("it is left out") }}
})

// runOwn runs the story against the servers of files and returns the exit code: 2 if the files
// have no server that can be used.
func runOwn(ctx context.Context, p *printer, files []string) int {
	file, err := config.LoadFiles(files, unreached)
	if err != nil {
		p.printLine(red, "demo: %v", err)
		return 2
	}
	for _, problem := range file.Problems {
		p.printLine(yellow, "%s", display.Line(problem.String()))
	}
	specs := slices.DeleteFunc(file.Specs(), func(spec mcpvisor.ServerSpec) bool {
		if spec.Transport != nil {
			p.printLine(yellow, "%s is left out: it is behind a WebSocket, which this demo does not reach; mcpvisor chaos does", spec.Name)
		}
		return spec.Transport != nil
	})
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
	o := &ownServers{st}
	o.check("the demo ran to its end", o.run(ctx, specs))
	return o.end(ending{bound: maxWait, processes: o.processes, pass: "what was killed left the listing and came back · the others were not affected"})
}

// run starts the servers and breaks one after the other.
func (o *ownServers) run(ctx context.Context, specs []mcpvisor.ServerSpec) error {
	if err := o.client.RegisterAll(ctx, specs); err != nil {
		return err
	}
	var ready []mcpvisor.ServerSpec
	for _, spec := range specs {
		err := o.waitReady(ctx, spec.Name)
		switch status, _ := o.client.ServerStatus(spec.Name); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			ready = append(ready, spec)
		case status.State == supervisor.StateEvicted: // an event says why
			_ = o.await(ctx, spec.Name, mcpvisor.EventEvicted, 0)
			o.p.printFact(red, "skip", spec.Name, "✗ left out")
		case status.LastCause != nil:
			o.p.printFact(red, "skip", spec.Name, "✗ left out: %s", status.LastCause.Describe())
		default:
			o.p.printFact(red, "skip", spec.Name, "✗ left out: %v", err)
		}
	}
	o.p.printTable(o.client.Status())
	o.p.printLine(plainText, "")
	if len(ready) == 0 {
		return errors.New("no server is ready; mcpvisor doctor explains each")
	}
	for _, spec := range ready {
		if err := o.breakServer(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// waitReady is WaitReady with a bound. When it returns nil, the log has printed that the server
// is ready.
func (o *ownServers) waitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("not ready after %v", maxWait))
	defer cancel()
	err := o.client.WaitReady(ctx, name)
	if err == nil {
		status, _ := o.client.ServerStatus(name)
		_, _ = o.events.await(ctx, func(ev mcpvisor.Event) bool {
			return ev.Server == name && ev.Kind == mcpvisor.EventReady && ev.Epoch >= status.Epoch
		})
	}
	return err
}

// noTools is printed for a server that lists no tools.
const noTools = "none: the server lists no tools"

// breakServer kills a server that is a process, and begins a new session with another. It
// checks the listing meanwhile, and waits until the server is ready again.
func (o *ownServers) breakServer(ctx context.Context, spec mcpvisor.ServerSpec) error {
	name := spec.Name
	status, _ := o.client.ServerStatus(name)
	before, others := o.showTools(name, noTools), o.others(name)
	if spec.Stdio == nil {
		o.p.printFact(bold, "LOSE", name, "its session ends, and another begins")
		if err := o.client.Restart(ctx, name); err != nil {
			return err
		}
	} else {
		if err := o.kill(name, "KILL", ""); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		o.check("the end of "+name+" is seen", o.await(waiting, name, mcpvisor.EventDown, status.Epoch))
		cancel()
		if names := o.tools(name); !o.isReady(name) { // else it was ready again already, and nothing can be said
			o.expect("the tools of "+name+" are not listed while it is down", len(names) == 0, "%v are", names)
			o.p.printFact(dim, "tools", name, "none: the server is down")
		}
	}
	err := o.waitReady(ctx, name)
	if errors.Is(err, mcpvisor.ErrEvicted) {
		o.p.printFact(bold, "START", name, "its policy gives it up, so it is started again by hand")
		if err = o.client.Restart(ctx, name); err == nil {
			err = o.waitReady(ctx, name)
		}
	}
	o.check(name+" comes back", err)
	if err != nil {
		return ctx.Err()
	}
	after := o.showTools(name, noTools)
	if !slices.Equal(before, after) {
		o.p.printFact(yellow, "note", name, "it lists other tools than before: that is up to the server")
	}
	o.expect("the tools of "+name+" come back", (len(before) == 0) == (len(after) == 0), "%d were listed, and %d are", len(before), len(after))
	for _, other := range others {
		now, _ := o.client.ServerStatus(other.Name)
		o.expect(other.Name+" is not affected by "+name, now.Epoch == other.Epoch && now.State == supervisor.StateReady,
			"it is %s, in incarnation %d instead of %d", now.State, now.Epoch, other.Epoch)
	}
	return nil
}

func (o *ownServers) isReady(name string) bool {
	status, _ := o.client.ServerStatus(name)
	return status.State == supervisor.StateReady
}

// others are the other servers that are ready.
func (o *ownServers) others(name string) []mcpvisor.ServerStatus {
	return slices.DeleteFunc(o.client.Status(), func(s mcpvisor.ServerStatus) bool { return s.Name == name || s.State != supervisor.StateReady })
}

// processes are those of the servers that became ready.
func (o *ownServers) processes() (all []int) {
	for _, ev := range o.events.all() {
		if ev.Kind == mcpvisor.EventReady && ev.PID != 0 {
			all = append(all, ev.PID)
		}
	}
	return all
}
