package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Set is the servers that a command works with: those of a running `mcpvisor run` of the same
// configuration, or copies that the command has started.
type Set struct {
	*attach.Client
	// Run describes the running `mcpvisor run`; it is zero for own copies.
	Run control.Info
	// Stop ends the copies, and the connection.
	Stop func()

	own *Copies // nil for the servers of a running `mcpvisor run`
}

// Attached reports whether the servers are those of a running `mcpvisor run`.
func (c *Set) Attached() bool { return c.Run.Schema != "" }

// Attach connects to the running `mcpvisor run` of the configuration. It returns attach.ErrNotRunning without
// one, and if --fresh is set.
func (o *Opener) Attach() (*Set, error) {
	if o.Fresh {
		return nil, attach.ErrNotRunning
	}
	c, info, err := attach.Find(o.Context, o.Sources.Key)
	if err == nil {
		info, err = o.awaitRead(c, info)
	}
	switch {
	case errors.Is(err, attach.ErrNotRunning):
		return nil, err
	case o.Context.Err() != nil:
		return nil, cli.ErrInterrupted
	case err != nil:
		return nil, unavailable("", "%v", err)
	}
	switch {
	case o.Sources.Digest() != info.Digest:
		o.Warn("", "config %s has changed since mcpvisor run (pid %d) read it at %s; mcpvisor reload makes that read it again",
			o.Sources, info.PID, info.Read.Format(time.TimeOnly))
	case info.Problem != "":
		o.Warn("", "%s; mcpvisor run (pid %d) keeps its servers as they are", info.Problem, info.PID)
	}
	return &Set{Client: c, Run: info, Stop: c.Close}, nil
}

// unavailable is the error about what nothing was sent to.
func unavailable(server, format string, args ...any) error {
	return cli.UnavailableError(mcpvisor.ServerStatus{Name: server}, format, args...)
}

const (
	// readWait is how long a command waits until `mcpvisor run` has read a configuration that
	// has just changed. It follows the files, but not at once.
	readWait     = time.Second
	readInterval = 20 * time.Millisecond
)

// awaitRead waits until `mcpvisor run` has read the present configuration, for at most
// readWait.
func (o *Opener) awaitRead(c *attach.Client, info control.Info) (control.Info, error) {
	for began := time.Now(); o.Sources.Digest() != info.Digest && time.Since(began) < readWait; {
		if backoff.Sleep(o.Context, readInterval) != nil {
			return info, cli.ErrInterrupted
		}
		now, err := c.Info(o.Context)
		if err != nil {
			return info, err
		}
		info = now
	}
	return info, nil
}

// AttachOnly is attach for commands that need a running `mcpvisor run`.
func (o *Opener) AttachOnly(command string) (*Set, error) {
	c, err := o.Attach()
	if errors.Is(err, attach.ErrNotRunning) {
		err = unavailable("", "no mcpvisor run of %s is running, and %s needs one; start it with: mcpvisor %s run", o.Sources, command, o.Sources.Flags())
	}
	return c, err
}

// BesideRun returns the running `mcpvisor run` of the configuration for a command that starts
// copies anyway, and says so; nil without one. why says what the copies are for.
func (o *Opener) BesideRun(why string) *Set {
	if o.Fresh {
		return nil
	}
	c, info, err := attach.Find(o.Context, o.Sources.Key)
	if err != nil {
		return nil
	}
	o.Note("mcpvisor run (pid %d) continues; %s", info.PID, why)
	return &Set{Client: c, Run: info, Stop: c.Close}
}

// Open attaches, or starts copies of the named servers, or of all without names. It waits
// until each has become ready or has failed.
func (o *Opener) Open(names ...string) (*Set, error) {
	c, err := o.OpenPartly(names...)
	if err != nil && c != nil {
		c.Stop()
		c = nil
	}
	return c, err
}

// OpenPartly is Open, but beside cli.ErrInterrupted it returns the servers as they are then, unless it is nil.
func (o *Opener) OpenPartly(names ...string) (*Set, error) {
	c, err := o.Attach()
	if err == nil {
		return c, o.AwaitSettled(c, names)
	}
	if !errors.Is(err, attach.ErrNotRunning) {
		return nil, err
	}
	own, stop, err := o.startNamed(names)
	if err != nil {
		return nil, err
	}
	waited := o.AwaitStarts(own)
	c, err = ownSession(own, stop)
	if err == nil && waited == nil {
		o.noteFresh(len(own.Specs))
	}
	return c, cmp.Or(err, waited)
}

func (o *Opener) noteFresh(servers int) {
	o.Note("started own copies of %s for this command; mcpvisor run keeps servers running", display.Count(servers, "server"))
}

func ownSession(own *Copies, stop func()) (*Set, error) {
	h, err := control.New(own.Client, control.Served{Masks: control.MasksOf(slices.Collect(maps.Values(own.Specs))...)}, control.Info{})
	if err != nil {
		stop()
		return nil, err
	}
	return &Set{Client: attach.InProcess(h), own: own, Stop: stop}, nil
}

// OpenServer opens one server. For a copy it is an error if it does not become ready. A
// server of a running `mcpvisor run` says itself why a call fails.
func (o *Opener) OpenServer(name string) (*Set, error) {
	c, err := o.Open(name)
	if err != nil || c.own == nil {
		return c, err
	}
	if s := c.own.ServerStatus(name); s.State != supervisor.StateReady && !control.IsAtRest(s.State) {
		c.Stop()
		return nil, cli.UnavailableError(s, "server %s is not available: %s; mcpvisor doctor explains more", name, o.Reason(s))
	}
	return c, nil
}

// Statuses returns the status of all servers.
func (c *Set) Statuses(ctx context.Context) ([]mcpvisor.ServerStatus, error) {
	if c.own != nil {
		return c.own.Status(), nil
	}
	status, err := c.Status(ctx)
	return status.Servers, err
}

// Described returns what is known about one server.
func (c *Set) Described(ctx context.Context, name string) (api.Server, error) {
	server, err := c.Server(ctx, name)
	if errors.Is(err, mcpvisor.ErrUnknownServer) {
		err = c.UnknownServer(name)
	}
	return server, err
}

// UnknownServer is the error about a server that `mcpvisor run` does not have. The user may have meant one of others, too.
func (c *Set) UnknownServer(name string, others ...string) error {
	if slices.Contains(c.Run.Servers, name) { // it was asked before it had registered them
		return unavailable(name, "mcpvisor run has only begun, and does not have server %s yet; try again", name)
	}
	names := slices.Concat(c.Run.Servers, others)
	for _, u := range c.Run.Unusable {
		names = append(names, u.Name)
	}
	text := fmt.Sprintf("mcpvisor run has no server %q; %s", name, cli.NameOneOf(name, names))
	for _, u := range c.Run.Unusable {
		if u.Name == name {
			text = fmt.Sprintf("server %s is not configured: %s", name, u.Reason)
		}
	}
	return &cli.ExitError{Code: cli.ExitUsage, Report: cli.Report{Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent, Server: name, Message: text}}
}

func (o *Opener) serverNames() (names []string, err error) {
	c, err := o.Attach()
	if err == nil {
		defer c.Stop()
		status, err := c.Status(o.Context)
		return status.Names, err
	}
	if !errors.Is(err, attach.ErrNotRunning) {
		return nil, err
	}
	return o.enabledNames()
}

// lifecycleEvents are the events after which a server may have another state.
var lifecycleEvents = slices.DeleteFunc(mcpvisor.EventKinds(), mcpvisor.EventKind.FromServer)

// AwaitStatus waits until settled accepts a status: as long as --wait says, or about as long
// as a start may take. The end of that time is no error. It returns cli.ErrInterrupted if the
// command is interrupted before.
func (o *Opener) AwaitStatus(c *Set, settled func(api.Status) bool) error {
	wait := o.Wait
	if wait <= 0 {
		wait = defaults.StartTimeout + defaults.ListTimeout + StartSlack
	}
	ctx, cancel := context.WithTimeout(o.Context, wait)
	defer cancel()
	// The number of the last event is read before the states, so that no change is missed.
	before, err := c.Status(ctx)
	switch {
	case o.Context.Err() != nil:
		return cli.ErrInterrupted
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	err = o.noticed(func() []mcpvisor.ServerStatus { return before.Servers }, wait, func() (failed error) {
		check := func() (done bool) {
			status, err := c.Status(ctx)
			failed = err
			return err != nil || settled(status)
		}
		if !check() {
			ended := c.Events(ctx, before.Stats.Events, func(api.Event) bool { return !check() }, lifecycleEvents...)
			failed = cmp.Or(failed, ended)
		}
		return failed
	})
	if o.Context.Err() == nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// usualStart is how long a start takes as a rule.
const usualStart = 10 * time.Second

// AwaitSettled waits until no start of the named servers is under way, or of all servers without
// names. Without names and --wait it does not wait for a server whose last start has failed, and for usualStart at most.
func (o *Opener) AwaitSettled(c *Set, names []string) error {
	timed, patient := *o, len(names) > 0 || o.Wait > 0
	if !patient {
		timed.Wait = usualStart
	}
	return timed.AwaitStatus(c, func(status api.Status) bool {
		waiting := slices.DeleteFunc(slices.Clone(status.Servers), func(s mcpvisor.ServerStatus) bool {
			return !control.IsOnItsWay(&s, status.Servers) || len(names) > 0 && !slices.Contains(names, s.Name) || !patient && isMute(s, time.Now())
		})
		if len(waiting) == 0 || len(names) > 0 {
			return len(waiting) == 0
		}
		none := c.OnNoNode(o.Context)
		return !slices.ContainsFunc(waiting, func(s mcpvisor.ServerStatus) bool { return none[s.Name] == "" })
	})
}

// isMute reports whether a server that is on its way is known not to answer: its last attempt has failed, or this one
// takes longer than usual.
func isMute(s mcpvisor.ServerStatus, now time.Time) bool {
	n := len(s.History)
	return n > 0 && !s.History[n-1].Served || now.Sub(s.Since) > usualStart
}

// OnNoNode returns the servers of a fleet that no node runs, with the reasons: it is not known when they
// start. It is empty without a fleet.
func (c *Set) OnNoNode(ctx context.Context) map[string]string {
	none := map[string]string{}
	if nodes, err := c.Nodes(ctx); err == nil {
		for _, p := range nodes.Placements {
			if p.Node == "" {
				none[p.Server] = p.Reason
			}
		}
	}
	return none
}

// Reason says in one line why a server is not ready.
func (o *Opener) Reason(s mcpvisor.ServerStatus) string {
	switch s.State {
	case supervisor.StateWaiting:
		return WaitsText(s, nil)
	case supervisor.StateAsleep, supervisor.StateResting, supervisor.StateStopped:
		return RestText(s)
	default:
	}
	if s.LastCause != nil {
		return s.LastCause.Describe()
	}
	text := "not ready in time; raise --wait if it is slow to start"
	if n := MalformedCount(s); n > 0 {
		text = "not ready in time; " + MalformedText(s, n)
	}
	if o.Context.Err() != nil {
		text = "interrupted before it was ready"
	}
	if lines := Stderr(s); len(lines) > 0 {
		text += "; stderr: " + strings.Join(lines, " | ")
	}
	return text
}

// WaitsText says what a server in the state "waiting" waits for, and in which states that is, as far as all has it.
func WaitsText(s mcpvisor.ServerStatus, all []mcpvisor.ServerStatus) string {
	var names []string
	for _, name := range s.WaitsFor {
		i := slices.IndexFunc(all, func(other mcpvisor.ServerStatus) bool { return other.Name == name })
		switch {
		case i >= 0:
			name += " (" + string(all[i].State) + ")"
		case len(all) > 0:
			name += " (not registered)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		names = []string{"its group"}
	}
	return "waits for " + strings.Join(names, ", ")
}

// RestText says how a server that is asleep, resting or stopped starts.
func RestText(s mcpvisor.ServerStatus) string {
	switch s.State {
	case supervisor.StateStopped:
		return "mcpvisor start " + s.Name + " starts it, and a reload does not"
	case supervisor.StateResting:
		return "its work is done; it starts when it is wanted"
	default:
		return "it starts when it is wanted"
	}
}

// IsHealthy reports whether a server needs no attention: it is ready, at rest, or stopped by an operator.
func IsHealthy(s supervisor.State) bool {
	return s == supervisor.StateReady || control.IsAtRest(s) || s == supervisor.StateStopped
}

// costlyTokens is how many tokens the tools of one server may cost a model without a remark.
const costlyTokens = 20_000

// CostText says that the tools of a server cost a model much in each request, and what to do; "" if they do not. It fits a
// cell of a table.
func CostText(s *mcpvisor.ServerStatus) string {
	if s.Catalog.Tokens <= costlyTokens {
		return ""
	}
	return fmt.Sprintf("costs a model about %dk tokens; choose tools by \"tools\" in its entry, or by a profile of \"gateway\"", s.Catalog.Tokens/1000)
}

// Stderr returns what a server that is not ready has written to stderr.
func Stderr(s mcpvisor.ServerStatus) []string {
	switch {
	case s.LastCause != nil:
		return s.LastCause.Stderr
	case s.Session != nil:
		return s.Session.Stderr
	}
	return nil
}

// MalformedCount returns how many messages of a server's current session are not
// JSON-RPC.
func MalformedCount(s mcpvisor.ServerStatus) uint64 {
	if s.Session == nil {
		return 0
	}
	return s.Session.Discarded.Malformed
}

// MalformedText says that n messages of a server are not JSON-RPC, and what to do.
func MalformedText(s mcpvisor.ServerStatus, n uint64) string {
	if s.Transport != "stdio" {
		return fmt.Sprintf("messages that are not JSON-RPC: %d; look at the server's log", n)
	}
	return fmt.Sprintf("lines on its stdout that are not JSON-RPC: %d; a stdio server must write only JSON-RPC to stdout, and log to stderr", n)
}

// Unusable returns the entries of a file that cannot be used, each with all that is wrong
// with it.
func Unusable(file *config.File) (all []control.Unusable) {
	for _, s := range file.Unusable {
		var reasons []string
		for _, p := range file.Problems {
			if p.Server == s.Entry && p.Severity == config.SeverityError {
				reasons = append(reasons, cli.ConfigTerms(p.Message))
			}
		}
		all = append(all, control.Unusable{Name: s.Spec.Name, Origin: s.Spec.Origin,
			Reason: fmt.Sprintf("%s (%s)", display.Line(strings.Join(reasons, "; ")), s.Spec.Origin)})
	}
	return all
}

// StandIn returns a spec in place of that of an entry that cannot be used. Its server is
// evicted at once, with the reason as its cause, so that it is seen wherever servers are.
func StandIn(u control.Unusable) mcpvisor.ServerSpec {
	cause := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: u.Reason}
	return mcpvisor.ServerSpec{Name: u.Name, Origin: u.Origin, StartSupervised: true,
		Transport: &mcpvisor.Transport{Kind: "unusable", Target: u.Origin, New: func(context.Context) (mcp.Transport, error) { return nil, cause }}}
}
