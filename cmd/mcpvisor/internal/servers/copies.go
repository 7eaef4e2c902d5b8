// Package servers opens the servers that a command works with: those of a running `mcpvisor
// run` of the configuration, or copies that end with the command. It selects them, asks the
// user for what they need, waits for them, and says why one is not ready.
package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// StateFailed is the state of a copy whose one start has failed, and which `mcpvisor run` would
// start again.
const StateFailed supervisor.State = "failed"

// CloseTimeout bounds the end of a command. Every server has its own, shorter
// bound, and the servers stop in parallel.
const CloseTimeout = 15 * time.Second

// Copies is a client of servers from a file, each of which is started
// once and not retried. Its statuses have the policies of the file anyway.
type Copies struct {
	*facade.Client
	// Specs are as in the file, by server. Do not change them.
	Specs map[string]mcpvisor.ServerSpec

	after map[string][]string // the copies that a copy comes after
}

// Status returns the status of all servers, in the words of the file.
func (c *Copies) Status() []mcpvisor.ServerStatus {
	all := c.Client.Status()
	for i := range all {
		p := c.Specs[all[i].Name].Policy
		all[i].Policy, all[i].MaxAttempts = p.String(), p.MaxAttempts
		all[i] = cli.StatusInConfigTerms(all[i])
		if wouldRetry(all[i]) {
			all[i].State = StateFailed
		}
	}
	return all
}

// wouldRetry reports whether `mcpvisor run` would try a copy again that was tried once. A
// permanent cause spends no retry.
func wouldRetry(s mcpvisor.ServerStatus) bool {
	return s.State == supervisor.StateEvicted && s.MaxAttempts != 0 && (s.LastCause == nil || !s.LastCause.Permanent)
}

// ServerStatus returns the status of one server, in the words of the file.
func (c *Copies) ServerStatus(server string) mcpvisor.ServerStatus {
	s, _ := c.Client.ServerStatus(server) // it was registered at the start
	return cli.StatusInConfigTerms(s)
}

// StartSlack is added to the time that a start may take, because the error of a
// start says more than the end of a wait.
const StartSlack = 5 * time.Second

// startTimeout returns how long to wait for the slowest of the servers: until its
// own timeouts have ended its start, which may have to wait for those of other package runners.
func (c *Copies) startTimeout() (longest time.Duration) {
	runners := 0
	for _, spec := range c.Specs {
		if s := spec.Stdio; s != nil && display.PackageRunner(s.Command, s.Args) != "" {
			runners++
		}
		timeouts := spec.WithDefaults().Timeouts
		if timeouts.Start < 0 {
			timeouts.Start = defaults.StartTimeout
		}
		if timeouts.List < 0 {
			timeouts.List = defaults.ListTimeout
		}
		longest = max(longest, timeouts.Start+timeouts.List)
	}
	return longest + time.Duration(max(runners-1, 0)/defaults.RunnerStarts)*defaults.RunnerHold + StartSlack
}

// Start starts servers once, without retries, and waits until each is ready or
// has failed. Without names it starts all servers. The returned function stops
// them.
func (o *Opener) Start(names ...string) (*Copies, func(), error) {
	c, stop, err := o.startNamed(names)
	if err != nil {
		return nil, nil, err
	}
	if err := o.AwaitStarts(c); err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

// startNamed is Start without the wait.
func (o *Opener) startNamed(names []string) (*Copies, func(), error) {
	file, err := o.LoadConfig(names...)
	if err != nil {
		return nil, nil, err
	}
	specs, err := SelectSpecs(file, names)
	if err != nil {
		return nil, nil, err
	}
	return o.StartServers(file, specs)
}

// StartServers starts servers of a file and does not wait for them. It warns of
// the problems of their entries.
func (o *Opener) StartServers(file *config.File, specs []mcpvisor.ServerSpec) (*Copies, func(), error) {
	o.warnProblems(file, specs)
	specs, refused := o.withoutExclusive(specs)
	if len(specs) == 0 && refused != nil {
		return nil, nil, refused
	}
	if len(specs) == 0 {
		return nil, nil, NoServerError(file)
	}
	c := &Copies{Specs: make(map[string]mcpvisor.ServerSpec, len(specs))}
	once := slices.Clone(specs)
	c.after = o.orderOf(file, specs)
	for i, spec := range specs {
		c.Specs[spec.Name] = spec
		once[i].After, once[i].Start, once[i].IdleStop = c.after[spec.Name], mcpvisor.StartEager, 0 // it is wanted now
		// A standby needs a policy that retries.
		once[i].Policy, once[i].Standby, once[i].StartSupervised = supervisor.NoRetry(), false, true
	}
	var err error
	if c.Client, err = facade.New(append(o.formOptions(), o.guardOptions(file)...)...); err != nil {
		return nil, nil, err
	}
	stop := o.closer(c.Client)
	if err := c.Register(o.Context, once...); err != nil {
		stop()
		if o.Context.Err() != nil {
			err = cli.ErrInterrupted
		}
		return nil, nil, err
	}
	return c, stop, nil
}

// orderOf returns what each copy comes after of those that are started with it: members stand for their group. It
// says what is missing.
func (o *Opener) orderOf(file *config.File, specs []mcpvisor.ServerSpec) map[string][]string {
	after := map[string][]string{}
	for _, spec := range specs {
		var add func(name string)
		add = func(name string) {
			if i := slices.IndexFunc(file.Groups, func(g mcpvisor.Group) bool { return g.Name == name }); i >= 0 {
				for _, member := range file.Groups[i].Members {
					add(member)
				}
				return
			}
			if slices.ContainsFunc(specs, func(s mcpvisor.ServerSpec) bool { return s.Name == name }) {
				after[spec.Name] = append(after[spec.Name], name)
				return
			}
			o.Note("a copy of %s starts without %s, which it comes after", spec.Name, name)
		}
		for _, name := range spec.After {
			add(name)
		}
	}
	return after
}

// awaitReady waits until a copy has been ready, or it or what it comes after has failed.
func (c *Copies) awaitReady(ctx context.Context, name string) error {
	for _, before := range c.after[name] {
		if err := c.awaitReady(ctx, before); err != nil {
			return err
		}
	}
	return c.WaitReady(ctx, name)
}

// closer returns what ends the servers of a command.
func (o *Opener) closer(c *facade.Client) func() {
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			o.Warn("", "mcpvisor: %v", err)
		}
	}
}

// withoutExclusive returns specs without those of exclusive servers, if a `mcpvisor run` of the
// configuration may have them: copies would be second processes. It warns of each, and refused is an error
// with the last one.
func (o *Opener) withoutExclusive(specs []mcpvisor.ServerSpec) (rest []mcpvisor.ServerSpec, refused error) {
	exclusive := func(s mcpvisor.ServerSpec) bool { return s.Exclusive }
	if !slices.ContainsFunc(specs, exclusive) {
		return specs, nil
	}
	running, info, err := attach.Find(o.Context, o.Sources.Key)
	if err != nil {
		return specs, nil
	}
	running.Close()
	return slices.DeleteFunc(slices.Clone(specs), func(s mcpvisor.ServerSpec) bool {
		if exclusive(s) {
			text := fmt.Sprintf("server %s is exclusive, and mcpvisor run (pid %d) has it; no second process was started", s.Name, info.PID)
			refused = cli.UsageError("%s; leave out --fresh, or end mcpvisor run", text)
			o.Warn("", "%s", text)
		}
		return exclusive(s)
	}), refused
}

// warnProblems warns of the problems of the entries that specs were made from, or
// of all problems of the file if specs are all its servers.
func (o *Opener) warnProblems(file *config.File, specs []mcpvisor.ServerSpec) {
	var entries []string
	for _, spec := range specs {
		entries = append(entries, spec.Name, EntryName(file, spec.Name))
	}
	all := len(specs) == len(file.Specs()) && !slices.ContainsFunc(file.Servers, func(s config.Server) bool { return s.Skipped })
	for _, p := range file.Problems {
		if all || slices.Contains(entries, p.Server) {
			o.Warn(p.Server, "%s", p)
		}
	}
}

// AwaitStarts waits until every server is ready or has failed: as long as --wait
// says, or as long as the servers' own timeouts allow. It returns cli.ErrInterrupted
// if the command is interrupted before.
func (o *Opener) AwaitStarts(c *Copies) error {
	wait := o.Wait
	if wait <= 0 {
		wait = c.startTimeout()
	}
	ctx, cancel := context.WithTimeout(o.Context, wait)
	defer cancel()
	return o.noticed(c.Status, wait, func() error {
		var wg sync.WaitGroup
		for _, name := range c.Servers() {
			wg.Go(func() { _ = c.awaitReady(ctx, name) })
		}
		wg.Wait()
		return nil
	})
}

// noticed calls await, which waits for servers for upTo at most. After NoticeDelay it says on stderr which of all are not
// ready. It returns the error of await, or cli.ErrInterrupted if the command is interrupted.
func (o *Opener) noticed(all func() []mcpvisor.ServerStatus, upTo time.Duration, await func() error) (err error) {
	done := make(chan error, 1)
	go func() { done <- await() }()
	notice := time.NewTimer(NoticeDelay)
	defer notice.Stop()
	select {
	case err = <-done:
	case <-notice.C:
		o.reportWaiting(all(), upTo)
		err = <-done
	}
	if o.Context.Err() != nil {
		return cli.ErrInterrupted
	}
	return err
}

// NoticeDelay is how long a command waits for servers before it says for which ones.
const NoticeDelay = 2 * time.Second

// reportWaiting says on stderr which servers are still starting, so that a command that
// waits for one of them is not silent. With --json stderr has no such line: it is not a
// report.
func (o *Opener) reportWaiting(all []mcpvisor.ServerStatus, wait time.Duration) {
	var names []string
	for _, s := range all {
		if isStarting(s) {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 && !o.JSON {
		flag := "--wait"
		if o.WaitFor != "" {
			flag = "--timeout" // of status
		}
		fmt.Fprintf(o.Err, "waiting for %s (up to %v; %s changes that)\n", strings.Join(names, ", "), wait.Round(time.Second), flag)
	}
}

// isStarting reports whether a start of the server is under way.
func isStarting(s mcpvisor.ServerStatus) bool {
	return s.State == supervisor.StateConnecting || s.State == supervisor.StateDiscovering
}

// WarnUnready warns of servers that are neither ready nor at rest. It is an error if none is.
func (o *Opener) WarnUnready(all []mcpvisor.ServerStatus) error {
	unready := slices.DeleteFunc(slices.Clone(all), func(s mcpvisor.ServerStatus) bool {
		return s.State == supervisor.StateReady || control.IsAtRest(s.State)
	})
	for _, s := range unready {
		verb := "is "
		if s.State == StateFailed {
			verb = "has "
		}
		o.Warn(s.Name, "server %s %s%s: %s", s.Name, verb, s.State, o.Reason(s))
	}
	if len(unready) == len(all) {
		return &cli.ExitError{Code: cli.ExitUnavailable, Report: cli.Report{Kind: mcpvisor.ErrUnavailable, Message: "no server is available; mcpvisor doctor explains why"}}
	}
	return nil
}

// Opener opens the servers of one invocation.
type Opener struct {
	cli.Invocation

	// Forms says that servers may ask the user. AskForms sets it.
	Forms bool
	// Progress is the line that forms replace; nil without a terminal, and before AskForms.
	Progress *ProgressLine

	// Guard looks at what copies offer; nil: that of the lock file of the configuration.
	Guard mcpvisor.CatalogGuard

	inputInterrupted bool              // an interrupt ended the question for an input
	answers          map[string]string // what the user has answered, by the id of the input
}

// Supervise starts copies of all servers with their own policies, as `mcpvisor run`
// does, and does not wait for them.
func (o *Opener) Supervise() (*Set, error) {
	file, err := o.LoadConfig()
	if err != nil {
		return nil, err
	}
	specs := file.Specs()
	o.warnProblems(file, specs)
	if len(specs) == 0 {
		return nil, NoServerError(file)
	}
	for _, u := range Unusable(file) {
		specs = append(specs, StandIn(u))
	}
	c, err := facade.New(o.guardOptions(file)...)
	if err != nil {
		return nil, err
	}
	stop := o.closer(c)
	h, err := control.New(c, control.Served{Masks: control.MasksOf(specs...)}, control.Info{})
	if err != nil {
		stop()
		return nil, err
	}
	// The view shows the starts; an error says only that the command was interrupted.
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		_ = c.SetGroups(o.Context, file.Groups)
		_ = c.Register(o.Context, specs...)
	}()
	return &Set{Client: attach.InProcess(h), Stop: func() {
		stop()
		<-applied
	}}, nil
}
