package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// closeWait bounds the end of a command. Every server has its own, shorter
// bound, and they stop in parallel.
const closeWait = 15 * time.Second

// load reads the configuration and reports what is wrong with it.
func (sh *shell) load() (*config.File, error) {
	file, err := config.Load(sh.config, sh.inputs()...)
	if sh.ctx.Err() != nil { // at a question: what it lacks is no fault of the file
		return nil, errInterrupted
	}
	if err != nil {
		return nil, usage("%v", err)
	}
	return file, nil
}

// choose finds the servers to start: all, or the named ones.
func choose(file *config.File, names []string) ([]mcpvisor.ServerSpec, error) {
	if len(names) == 0 {
		return file.Specs(), nil
	}
	var specs []mcpvisor.ServerSpec
	for _, name := range names {
		server, found := file.Find(name)
		switch {
		case found && server.Spec.Name != name:
			return nil, usage("the entry %q of %s:%d is called %q here; use that name", name, file.Path, server.Line, server.Spec.Name)
		case found && server.Disabled:
			return nil, usage("server %q is disabled in %s:%d; remove \"disabled\" to use it", name, file.Path, server.Line)
		case found:
			specs = append(specs, server.Spec)
		default:
			for _, p := range file.Problems {
				if p.Server == name && p.Severity == config.Error {
					return nil, usage("%s", p)
				}
			}
			return nil, usage("there is no server %q in %s; it has %s", name, file.Path, known(file))
		}
	}
	return specs, nil
}

func known(file *config.File) string {
	var names []string
	for _, s := range file.Servers {
		names = append(names, s.Spec.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func noServer(file *config.File) error { return usage("there is no usable server in %s", file.Path) }

// started is a client whose servers are tried once. Its statuses speak of the
// retries that the file asks for all the same.
type started struct {
	*facade.Client
	specs map[string]mcpvisor.ServerSpec // as they stand in the file
}

// Status is the client's, in the words of the file.
func (c *started) Status() []mcpvisor.ServerStatus {
	all := c.Client.Status()
	for i := range all {
		p := c.specs[all[i].Name].Policy
		all[i].Policy, all[i].MaxAttempts = p.String(), p.MaxAttempts
		all[i] = inTerms(all[i])
	}
	return all
}

// Inspect is the client's, in the words of the file.
func (c *started) Inspect(server string) mcpvisor.ServerStatus {
	s, _ := c.Client.ServerStatus(server) // it was registered at the start
	return inTerms(s)
}

// startSlack is how much longer a start is waited for than its clocks run: its
// own end says more about it than the end of a wait.
const startSlack = 5 * time.Second

// startBound is how long the slowest of the servers may take to start: until its
// own clocks end that.
func (c *started) startBound() (most time.Duration) {
	for _, spec := range c.specs {
		clocks := spec.WithDefaults().Timeouts
		if clocks.Start < 0 {
			clocks.Start = mcpvisor.DefaultStartTimeout
		}
		if clocks.List < 0 {
			clocks.List = mcpvisor.DefaultListTimeout
		}
		most = max(most, clocks.Start+clocks.List)
	}
	return most + startSlack
}

// start brings servers up once, without retries, and waits until each is ready
// or has failed. No names means all servers. The returned function stops them.
func (sh *shell) start(names ...string) (*started, func(), error) {
	file, err := sh.load()
	if err != nil {
		return nil, nil, err
	}
	specs, err := choose(file, names)
	if err != nil {
		return nil, nil, err
	}
	c, stop, err := sh.begin(file, specs)
	if err != nil {
		return nil, nil, err
	}
	if err := sh.settle(c); err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

// begin is start without the wait, for servers of a file that was read. It warns
// of what is wrong with their entries.
func (sh *shell) begin(file *config.File, specs []mcpvisor.ServerSpec) (*started, func(), error) {
	var entries []string
	for _, spec := range specs {
		entries = append(entries, spec.Name, file.EntryOf(spec.Name))
	}
	all := len(specs) == len(file.Specs())
	for _, p := range file.Problems {
		if all || slices.Contains(entries, p.Server) {
			sh.warn(p.Server, "%s", p)
		}
	}
	if len(specs) == 0 {
		return nil, nil, noServer(file)
	}
	started := &started{specs: make(map[string]mcpvisor.ServerSpec, len(specs))}
	once := slices.Clone(specs)
	for i, spec := range specs {
		started.specs[spec.Name] = spec
		// Without a retry, nothing may take over.
		once[i].Policy, once[i].Standby, once[i].StartSupervised = supervisor.NoRetry, false, true
	}
	c, err := facade.New(facade.WithClientInfo("mcpvisor", facade.Version))
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			sh.warn("", "mcpvisor: %v", err)
		}
	}
	if err := c.Apply(sh.ctx, once); err != nil {
		stop()
		if sh.ctx.Err() != nil {
			err = errInterrupted
		}
		return nil, nil, err
	}
	started.Client = c
	return started, stop, nil
}

// settle waits until every server is ready or has failed: as long as --wait says,
// or as long as the servers' own clocks allow. It fails when it is interrupted.
func (sh *shell) settle(c *started) error {
	wait := sh.wait
	if wait <= 0 {
		wait = c.startBound()
	}
	ctx, cancel := context.WithTimeout(sh.ctx, wait)
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range c.Servers() {
		wg.Go(func() { _ = c.WaitReady(ctx, name) })
	}
	wg.Wait()
	if sh.ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// startOne brings one server up, or says why that is impossible.
func (sh *shell) startOne(name string) (*started, func(), error) {
	c, stop, err := sh.start(name)
	if err != nil {
		return nil, nil, err
	}
	if s := c.Inspect(name); s.State != supervisor.StateReady {
		stop()
		return nil, nil, unavailable(s, "server %s is not available: %s", name, reason(s))
	}
	return c, stop, nil
}

// unready lists the servers that are not ready, each with its reason.
func unready(c *started) []mcpvisor.ServerStatus {
	return slices.DeleteFunc(c.Status(), func(s mcpvisor.ServerStatus) bool { return s.State == supervisor.StateReady })
}

// complain tells of servers that did not come up. If none did, that is an error.
func (sh *shell) complain(c *started) error {
	down := unready(c)
	for _, s := range down {
		sh.warn(s.Name, "server %s is %s: %s", s.Name, s.State, reason(s))
	}
	if len(down) == len(c.Servers()) {
		return &exit{exitUnavailable, complaint{Kind: mcpvisor.KindUnavailable, Message: "no server is available; mcpvisor doctor explains why"}}
	}
	return nil
}

// reason says in one line why a server is not ready.
func reason(s mcpvisor.ServerStatus) string {
	if s.LastCause != nil {
		return s.LastCause.Describe()
	}
	text := "not ready in time; raise --wait if it is slow to start"
	if n := junk(s); n > 0 {
		text = "not ready in time; " + chatter(s, n)
	}
	if lines := stderrOf(s); len(lines) > 0 {
		text += "; stderr: " + strings.Join(lines, " | ")
	}
	return text
}

// stderrOf is what a server that is not ready has written to stderr.
func stderrOf(s mcpvisor.ServerStatus) []string {
	switch {
	case s.LastCause != nil:
		return s.LastCause.Stderr
	case s.Session != nil:
		return s.Session.Stderr
	}
	return nil
}
