package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

// closeWait bounds the end of a command. Every server has its own, shorter
// bound, and they stop in parallel.
const closeWait = 15 * time.Second

// load reads the configuration and reports what is wrong with it.
func (sh *shell) load() (*config.File, error) {
	file, err := config.Load(sh.config)
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
		i := slices.IndexFunc(file.Servers, func(s config.Server) bool { return s.Spec.Name == name })
		switch {
		case i >= 0 && file.Servers[i].Disabled:
			return nil, usage("server %q is disabled in %s:%d; remove \"disabled\" to use it", name, file.Path, file.Servers[i].Line)
		case i >= 0:
			specs = append(specs, file.Servers[i].Spec)
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

// start brings servers up once, without retries, and waits until each is ready
// or has failed. No names means all servers. The returned function stops them.
func (sh *shell) start(names ...string) (*facade.Client, func(), error) {
	file, err := sh.load()
	if err != nil {
		return nil, nil, err
	}
	specs, err := choose(file, names)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range file.Problems {
		if len(names) == 0 || slices.Contains(names, p.Server) {
			fmt.Fprintln(sh.err, plain(p.String()))
		}
	}
	if len(specs) == 0 {
		return nil, nil, usage("there is no usable server in %s", file.Path)
	}
	for i := range specs {
		specs[i].Retry, specs[i].StartSupervised = facade.NoRetry, true
	}
	c, err := facade.New(facade.WithClientInfo("mcpvisor", facade.Version))
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			fmt.Fprintln(sh.err, "mcpvisor:", plain(err.Error()))
		}
	}
	if err := c.Apply(sh.ctx, specs); err != nil {
		stop()
		return nil, nil, err
	}
	sh.settle(c)
	return c, stop, nil
}

// settle waits until every server is ready or has failed, at most as long as
// --wait says.
func (sh *shell) settle(c *facade.Client) {
	ctx, cancel := context.WithTimeout(sh.ctx, sh.wait)
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range c.Servers() {
		wg.Go(func() { _ = c.WaitReady(ctx, name) })
	}
	wg.Wait()
}

// startOne brings one server up, or says why that is impossible.
func (sh *shell) startOne(name string) (*facade.Client, func(), error) {
	c, stop, err := sh.start(name)
	if err != nil {
		return nil, nil, err
	}
	if s, _ := c.Inspect(name); s.State != facade.Ready {
		stop()
		return nil, nil, &exit{exitUnavailable, fmt.Sprintf("server %s is not available: %s", name, reason(s))}
	}
	return c, stop, nil
}

// unready lists the servers that are not ready, each with its reason.
func unready(c *facade.Client) []facade.ServerStatus {
	return slices.DeleteFunc(c.Status(), func(s facade.ServerStatus) bool { return s.State == facade.Ready })
}

// complain tells of servers that did not come up. If none did, that is an error.
func (sh *shell) complain(c *facade.Client) error {
	down := unready(c)
	for _, s := range down {
		fmt.Fprintf(sh.err, "server %s is %s: %s\n", s.Name, s.State, plain(reason(s)))
	}
	if len(down) == len(c.Servers()) {
		return &exit{exitUnavailable, "no server is available; mcpvisor doctor explains why"}
	}
	return nil
}

func reason(s facade.ServerStatus) string {
	if s.LastCause == nil {
		return "not ready in time; raise --wait if it is slow to start"
	}
	return s.LastCause.Describe()
}
