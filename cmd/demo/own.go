package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// ownServers runs the story against the servers of configuration files: each is killed,
// waited for, and compared with what it was. No tool is called.
type ownServers struct {
	p      *printer
	client *facade.Client
	events *eventLog
	checks checks
}

// maxWait bounds the start of one server, and its return.
const maxWait = time.Minute

// unreached reads entries of type "ws", so that the story can say that it leaves them out. The
// library for WebSockets is in the module of the mcpvisor command.
var unreached = config.WithWebSocket(func(config.WebSocket) *mcpvisor.Transport {
	return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return nil, errors.New("it is left out") }}
})

// runOwn runs the story against the servers of files and returns the exit code: 2 if the files
// have no server that can be used.
func runOwn(ctx context.Context, p *printer, files []string) int {
	goroutines := runtime.NumGoroutine()
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
	c, err := facade.New()
	if err != nil {
		p.printLine(red, "FAIL  %v", err)
		return 1
	}
	o := &ownServers{p: p, client: c}
	for _, spec := range specs {
		p.nameWidth = max(p.nameWidth, min(len(spec.Name), maxNameWidth))
	}
	p.printLine(bold, "%s of %s · copies of your own are started, and killed · no tool is called", display.Count(len(specs), "server"), file.Path)
	p.printLine(plainText, "")
	o.events = newEventLog(p, c.Watch(context.Background()))
	o.checks.check("the demo ran to its end", o.story(ctx, specs))
	o.finish(goroutines)
	if len(o.checks.failures) == 0 {
		p.printLine(green, "PASS  what was killed left the listing and came back · the others were not affected · no orphan process · no leaked goroutine (%d checks)", o.checks.count)
		return 0
	}
	for _, failure := range o.checks.failures {
		p.printLine(red, "FAIL  %s", failure)
	}
	return 1
}

// story starts the servers and breaks one after the other.
func (o *ownServers) story(ctx context.Context, specs []mcpvisor.ServerSpec) error {
	if err := o.client.RegisterAll(ctx, specs); err != nil {
		return err
	}
	var ready []mcpvisor.ServerSpec
	for _, spec := range specs {
		err := o.waitReady(ctx, spec.Name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			ready = append(ready, spec)
			continue
		}
		o.p.printFact(red, "skip", spec.Name, "✗ %s", o.whyNot(ctx, spec.Name, err))
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

// whyNot says why a server is not ready, unless an event has said it.
func (o *ownServers) whyNot(ctx context.Context, name string, err error) string {
	switch status, _ := o.client.ServerStatus(name); {
	case status.State == supervisor.StateEvicted:
		o.events.awaitPrinted(ctx, name, mcpvisor.EventEvicted, 0)
		return "left out"
	case status.LastCause != nil:
		return "left out: " + status.LastCause.Describe()
	}
	return "left out: " + err.Error()
}

// waitReady is WaitReady with a bound. When it returns nil, the log has printed that the server
// is ready.
func (o *ownServers) waitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("not ready after %v", maxWait))
	defer cancel()
	err := o.client.WaitReady(ctx, name)
	if err == nil {
		status, _ := o.client.ServerStatus(name)
		o.events.awaitPrinted(ctx, name, mcpvisor.EventReady, status.Epoch)
	}
	return err
}

// breakServer kills a server that is a process, and begins a new session with another. It
// checks the listing meanwhile, and waits until the server is ready again.
func (o *ownServers) breakServer(ctx context.Context, spec mcpvisor.ServerSpec) error {
	name := spec.Name
	status, _ := o.client.ServerStatus(name)
	before, others := o.showTools(name), o.epochs(name)
	if spec.Stdio == nil {
		o.p.printFact(bold, "LOSE", name, "its session ends, and another begins")
		if err := o.client.Restart(ctx, name); err != nil {
			return err
		}
	} else {
		if err := kill(o.client, name, func(pid int) { o.p.printFact(bold, "KILL", name, "kill -9 %d", pid) }); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		_, err := o.events.await(waiting, name, mcpvisor.EventDown, status.Epoch)
		cancel()
		o.checks.check("the end of "+name+" is seen", err)
		o.checkWithdrawn(name)
	}
	err := o.waitReady(ctx, name)
	if errors.Is(err, mcpvisor.ErrEvicted) {
		o.p.printFact(bold, "START", name, "its policy gives it up, so it is started again by hand")
		if err = o.client.Restart(ctx, name); err == nil {
			err = o.waitReady(ctx, name)
		}
	}
	o.checks.check(name+" comes back", err)
	if err != nil {
		return ctx.Err()
	}
	after := o.showTools(name)
	if !slices.Equal(before, after) {
		o.p.printFact(yellow, "note", name, "it lists other tools than before: that is up to the server")
	}
	o.checks.expect("the tools of "+name+" come back", (len(before) == 0) == (len(after) == 0), "%d were listed, and %d are", len(before), len(after))
	for other, epoch := range others {
		now, _ := o.client.ServerStatus(other)
		o.checks.expect(other+" is not affected by "+name, now.Epoch == epoch && now.State == supervisor.StateReady, "it is %s, in incarnation %d instead of %d", now.State, now.Epoch, epoch)
	}
	return nil
}

// checkWithdrawn checks that no tool of a server is listed while it is down. Nothing can be
// said if it is ready again already.
func (o *ownServers) checkWithdrawn(name string) {
	down := func() bool {
		status, _ := o.client.ServerStatus(name)
		return status.State != supervisor.StateReady
	}
	if !down() {
		return
	}
	if names := toolsOf(o.client, name); down() {
		o.checks.expect("the tools of "+name+" are not listed while it is down", len(names) == 0, "%v are", names)
		o.p.printFact(dim, "tools", name, "none: the server is down")
	}
}

// epochs are the incarnations of the other servers that are ready.
func (o *ownServers) epochs(except string) map[string]uint64 {
	all := map[string]uint64{}
	for _, s := range o.client.Status() {
		if s.Name != except && s.State == supervisor.StateReady {
			all[s.Name] = s.Epoch
		}
	}
	return all
}

// showTools prints the listed tools of a server, as many as a line has, and returns all.
func (o *ownServers) showTools(server string) []string {
	const shown = 6
	names := toolsOf(o.client, server)
	text := strings.Join(names[:min(len(names), shown)], " ")
	switch {
	case len(names) == 0:
		text = "none: the server lists no tools"
	case len(names) > shown:
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	o.p.printFact(dim, "tools", server, "%s", display.Line(text))
	return names
}

// finish stops the servers and checks that nothing is left.
func (o *ownServers) finish(goroutines int) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	err := o.client.Close(ctx)
	o.checks.check("closing is bounded", err)
	started, left := 0, []int{}
	if err == nil {
		<-o.events.done
		for _, ev := range o.events.all() {
			if ev.Kind == mcpvisor.EventReady && ev.PID != 0 {
				if started++; mcptest.Alive(ev.PID) {
					left = append(left, ev.PID)
				}
			}
		}
		o.checks.check("no goroutine is left", checkGoroutines(goroutines))
	}
	o.checks.expect("no process is left", len(left) == 0, "%v of %d are alive", left, started)
	o.p.printLine(dim, "closed in %s · %d processes were started, %d are left", roundedDuration(time.Since(began)), started, len(left))
	o.p.printLine(plainText, "")
}

// toolsOf returns the names of the listed tools of a server, sorted.
func toolsOf(c *facade.Client, server string) (names []string) {
	for tool := range c.AllTools() {
		if tool.Server == server {
			names = append(names, tool.OriginalName)
		}
	}
	slices.Sort(names)
	return names
}
