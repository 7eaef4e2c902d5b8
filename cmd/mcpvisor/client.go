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

// closeTimeout bounds the end of a command. Every server has its own, shorter
// bound, and they stop in parallel.
const closeTimeout = 15 * time.Second

// loadConfig reads the configuration and reports what is wrong with it.
func (inv *invocation) loadConfig() (*config.File, error) {
	file, err := config.Load(inv.config, inv.inputOptions()...)
	if inv.ctx.Err() != nil { // at a question: what it lacks is no fault of the file
		return nil, errInterrupted
	}
	if err != nil {
		return nil, usageError("%v", err)
	}
	return file, nil
}

// selectSpecs finds the servers to start: all, or the named ones.
func selectSpecs(file *config.File, names []string) ([]mcpvisor.ServerSpec, error) {
	if len(names) == 0 {
		return file.Specs(), nil
	}
	var specs []mcpvisor.ServerSpec
	for _, name := range names {
		server, found := file.Find(name)
		switch {
		case found && server.Spec.Name != name:
			return nil, usageError("the entry %q of %s:%d is called %q here; use that name", name, file.Path, server.Line, server.Spec.Name)
		case found && server.Disabled:
			return nil, usageError("server %q is disabled in %s:%d; remove \"disabled\" to use it", name, file.Path, server.Line)
		case found:
			specs = append(specs, server.Spec)
		default:
			for _, p := range file.Problems {
				if p.Server == name && p.Severity == config.SeverityError {
					return nil, usageError("%s", p)
				}
			}
			return nil, usageError("there is no server %q in %s; it has %s", name, file.Path, serverNames(file))
		}
	}
	return specs, nil
}

func serverNames(file *config.File) string {
	var names []string
	for _, s := range file.Servers {
		names = append(names, s.Spec.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func noServerError(file *config.File) error {
	return usageError("there is no usable server in %s", file.Path)
}

// configuredClient is a client whose servers are tried once. Its statuses speak of the
// retries that the file asks for all the same.
type configuredClient struct {
	*facade.Client
	specs map[string]mcpvisor.ServerSpec // as they stand in the file
}

// Status is the client's, in the words of the file.
func (c *configuredClient) Status() []mcpvisor.ServerStatus {
	all := c.Client.Status()
	for i := range all {
		p := c.specs[all[i].Name].Policy
		all[i].Policy, all[i].MaxAttempts = p.String(), p.MaxAttempts
		all[i] = statusInConfigTerms(all[i])
	}
	return all
}

// Inspect is the client's, in the words of the file.
func (c *configuredClient) Inspect(server string) mcpvisor.ServerStatus {
	s, _ := c.Client.ServerStatus(server) // it was registered at the start
	return statusInConfigTerms(s)
}

// startSlack is how much longer a start is waited for than its clocks run: its
// own end says more about it than the end of a wait.
const startSlack = 5 * time.Second

// startTimeout is how long the slowest of the servers may take to start: until its
// own clocks end that.
func (c *configuredClient) startTimeout() (most time.Duration) {
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
func (inv *invocation) start(names ...string) (*configuredClient, func(), error) {
	file, err := inv.loadConfig()
	if err != nil {
		return nil, nil, err
	}
	specs, err := selectSpecs(file, names)
	if err != nil {
		return nil, nil, err
	}
	c, stop, err := inv.startServers(file, specs)
	if err != nil {
		return nil, nil, err
	}
	if err := inv.awaitStarts(c); err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

// startServers is start without the wait, for servers of a file that was read. It warns
// of what is wrong with their entries.
func (inv *invocation) startServers(file *config.File, specs []mcpvisor.ServerSpec) (*configuredClient, func(), error) {
	var entries []string
	for _, spec := range specs {
		entries = append(entries, spec.Name, file.EntryName(spec.Name))
	}
	all := len(specs) == len(file.Specs())
	for _, p := range file.Problems {
		if all || slices.Contains(entries, p.Server) {
			inv.warn(p.Server, "%s", p)
		}
	}
	if len(specs) == 0 {
		return nil, nil, noServerError(file)
	}
	started := &configuredClient{specs: make(map[string]mcpvisor.ServerSpec, len(specs))}
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
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			inv.warn("", "mcpvisor: %v", err)
		}
	}
	if err := c.Apply(inv.ctx, once); err != nil {
		stop()
		if inv.ctx.Err() != nil {
			err = errInterrupted
		}
		return nil, nil, err
	}
	started.Client = c
	return started, stop, nil
}

// awaitStarts waits until every server is ready or has failed: as long as --wait says,
// or as long as the servers' own clocks allow. It fails when it is interrupted.
func (inv *invocation) awaitStarts(c *configuredClient) error {
	wait := inv.wait
	if wait <= 0 {
		wait = c.startTimeout()
	}
	ctx, cancel := context.WithTimeout(inv.ctx, wait)
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range c.Servers() {
		wg.Go(func() { _ = c.WaitReady(ctx, name) })
	}
	wg.Wait()
	if inv.ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// startOne brings one server up, or says why that is impossible.
func (inv *invocation) startOne(name string) (*configuredClient, func(), error) {
	c, stop, err := inv.start(name)
	if err != nil {
		return nil, nil, err
	}
	if s := c.Inspect(name); s.State != supervisor.StateReady {
		stop()
		return nil, nil, unavailableError(s, "server %s is not available: %s", name, reason(s))
	}
	return c, stop, nil
}

// unready lists the servers that are not ready, each with its reason.
func unready(c *configuredClient) []mcpvisor.ServerStatus {
	return slices.DeleteFunc(c.Status(), func(s mcpvisor.ServerStatus) bool { return s.State == supervisor.StateReady })
}

// reportUnready tells of servers that did not come up. If none did, that is an error.
func (inv *invocation) reportUnready(c *configuredClient) error {
	down := unready(c)
	for _, s := range down {
		inv.warn(s.Name, "server %s is %s: %s", s.Name, s.State, reason(s))
	}
	if len(down) == len(c.Servers()) {
		return &exitError{exitUnavailable, errorReport{Kind: mcpvisor.KindUnavailable, Message: "no server is available; mcpvisor doctor explains why"}}
	}
	return nil
}

// reason says in one line why a server is not ready.
func reason(s mcpvisor.ServerStatus) string {
	if s.LastCause != nil {
		return s.LastCause.Describe()
	}
	text := "not ready in time; raise --wait if it is slow to start"
	if n := malformedCount(s); n > 0 {
		text = "not ready in time; " + malformedText(s, n)
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
