package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/messages"
)

// closeWait bounds the end of a command. Every server has its own, shorter
// bound, and they stop in parallel.
const closeWait = 15 * time.Second

// load reads the configuration and reports what is wrong with it.
func (sh *shell) load() (*config.File, error) {
	file, err := config.Load(sh.config, sh.inputs()...)
	if err != nil {
		return nil, usage("%v", err)
	}
	return file, nil
}

// choose finds the servers to start: all, or the named ones.
func choose(file *config.File, names []string) ([]facade.ServerSpec, error) {
	if len(names) == 0 {
		return file.Specs(), nil
	}
	var specs []facade.ServerSpec
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
	policies map[string]facade.Policy
}

// Status is the client's.
func (c *started) Status() []facade.ServerStatus {
	all := c.Client.Status()
	for i := range all {
		p := c.policies[all[i].Name]
		all[i].Policy, all[i].MaxAttempts = p.String(), p.MaxAttempts
	}
	return all
}

// start brings servers up once, without retries, and waits until each is ready
// or has failed. No names means all servers. The returned function stops them.
func (sh *shell) start(names ...string) (*started, func(), error) {
	c, stop, err := sh.begin(names...)
	if err == nil {
		sh.settle(c)
	}
	return c, stop, err
}

// begin is start without the wait.
func (sh *shell) begin(names ...string) (*started, func(), error) {
	file, err := sh.load()
	if err != nil {
		return nil, nil, err
	}
	specs, err := choose(file, names)
	if err != nil {
		return nil, nil, err
	}
	var entries []string
	for _, spec := range specs {
		entries = append(entries, file.EntryOf(spec.Name))
	}
	for _, p := range file.Problems {
		if len(names) == 0 || slices.Contains(names, p.Server) || slices.Contains(entries, p.Server) {
			sh.warn(p.Server, "%s", p)
		}
	}
	if len(specs) == 0 {
		return nil, nil, noServer(file)
	}
	policies := make(map[string]facade.Policy, len(specs))
	for i := range specs {
		policies[specs[i].Name] = specs[i].Retry
		// Without a retry, nothing may take over.
		specs[i].Retry, specs[i].Standby, specs[i].StartSupervised = facade.NoRetry, false, true
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
	if err := c.Apply(sh.ctx, specs); err != nil {
		stop()
		return nil, nil, err
	}
	return &started{c, policies}, stop, nil
}

// settle waits until every server is ready or has failed, at most as long as
// --wait says.
func (sh *shell) settle(c *started) {
	ctx, cancel := context.WithTimeout(sh.ctx, sh.wait)
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range c.Servers() {
		wg.Go(func() { _ = c.WaitReady(ctx, name) })
	}
	wg.Wait()
}

// startOne brings one server up, or says why that is impossible.
func (sh *shell) startOne(name string) (*started, func(), error) {
	c, stop, err := sh.start(name)
	if err != nil {
		return nil, nil, err
	}
	if s, _ := c.Inspect(name); s.State != facade.Ready {
		stop()
		return nil, nil, unavailable(s, "server %s is not available: %s", name, reason(s))
	}
	return c, stop, nil
}

// unready lists the servers that are not ready, each with its reason.
func unready(c *started) []facade.ServerStatus {
	return slices.DeleteFunc(c.Status(), func(s facade.ServerStatus) bool { return s.State == facade.Ready })
}

// complain tells of servers that did not come up. If none did, that is an error.
func (sh *shell) complain(c *started) error {
	down := unready(c)
	for _, s := range down {
		sh.warn(s.Name, "server %s is %s: %s", s.Name, s.State, reason(s))
	}
	if len(down) == len(c.Servers()) {
		return &exit{exitUnavailable, complaint{Kind: messages.KindUnavailable, Message: "no server is available; mcpvisor doctor explains why"}}
	}
	return nil
}

func reason(s facade.ServerStatus) string {
	switch n := junk(s); {
	case s.LastCause == nil && n > 0:
		return "not ready in time; " + chatter(s, n)
	case s.LastCause == nil:
		return "not ready in time; raise --wait if it is slow to start"
	}
	return s.LastCause.Describe()
}
