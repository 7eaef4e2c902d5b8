package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/difference"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/rules"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// reloader makes the servers of a client those of the configuration, again and again. Its
// methods may be called by several goroutines; one reload runs at a time.
type reloader struct {
	inv     *servers.Opener
	client  *facade.Client
	printer *changePrinter
	socket  *control.Handler // nil without a socket
	masks   *control.Masks   // of the servers that run or will run

	settings *gateway.SettingsVar // of all gateways of this run
	lists    *gateway.Server      // says what they withhold
	gateway  gateway.Settings     // that settings has; owned by who has the turn
	groups   []mcpvisor.Group     // that the client has, or is given at the start; owned by who has the turn
	rules    []rules.Rule         // that gate has; owned by who has the turn
	lock     string               // that guard does; owned by who has the turn

	// turn holds one value while a goroutine uses the fields below.
	turn   chan struct{}
	info   control.Info
	guard  *servers.LockGuard             // of the client
	gate   *rules.Gate                    // of the client
	paths  []string                       // of the files that were read
	specs  map[string]mcpvisor.ServerSpec // wanted by the last reading; set before Apply
	usable map[string]bool                // the names in specs whose entries were usable
	warned map[string]bool                // the problems of the last reading

	published atomic.Pointer[control.Info] // what info was when publish was called
	explained explanations

	// complete, partial and refused count reloads: all of the files could be used, something could not, nothing could.
	complete, partial, refused atomic.Int64
}

// reloads counts reloads by their result.
func (r *reloader) reloads() map[string]int64 {
	return map[string]int64{"complete": r.complete.Load(), "partial": r.partial.Load(), "refused": r.refused.Load()}
}

// attention lists what is wrong with the configuration, for the page.
func (r *reloader) attention() []api.Attention {
	info := *r.published.Load()
	info.Withheld = r.withheld()
	return info.Attention()
}

// withheld are the tools and prompts that hosts are not offered, with the reasons.
func (r *reloader) withheld() []gateway.Withheld { return r.lists.Status().Withheld }

// usableConfig is 1 if all that was read last could be used, else 0.
func (r *reloader) usableConfig() float64 {
	if info := r.published.Load(); info.Problem+info.GatewayProblem+info.GroupsProblem+info.TrustProblem != "" || len(info.Kept)+len(info.Unusable) > 0 {
		return 0
	}
	return 1
}

// newReloader returns the reloader of a configuration that was read as file, and warns of its
// problems. It applies nothing yet.
func newReloader(inv *servers.Opener, c *facade.Client, guard *servers.LockGuard, gate *rules.Gate, info control.Info, file *config.File) *reloader {
	r := &reloader{inv: inv, client: c, guard: guard, gate: gate, turn: make(chan struct{}, 1), info: info, paths: file.Paths, settings: new(gateway.SettingsVar), masks: new(control.Masks),
		groups: file.Groups, rules: file.Rules, lock: file.Lock}
	r.lists = newLists(c, r.settings)
	r.useGateway(file, nil)
	var kept map[string]bool
	r.specs, r.usable, kept = r.wanted(file)
	r.describe(file, kept)
	warn(inv, r.newProblems(file))
	r.printer = newChangePrinter(inv, r.all())
	r.publish(r.all())
	return r
}

func (r *reloader) all() []mcpvisor.ServerSpec {
	return slices.SortedFunc(maps.Values(r.specs), func(a, b mcpvisor.ServerSpec) int { return strings.Compare(a.Name, b.Name) })
}

// start registers the servers for the first time. A reload that is asked for meanwhile waits.
func (r *reloader) start(ctx context.Context) error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if err := r.client.SetGroups(ctx, r.groups); err != nil {
		return err
	}
	return r.client.Register(ctx, r.all()...)
}

// changed reads the configuration again if the content of its files or of its lock file has changed. It returns the
// files to follow.
func (r *reloader) changed() []string {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.sources().Digest() != r.info.Digest || r.guard.Changed() {
		r.apply(false)
	}
	return r.files()
}

// files are the files that may be read, whether they exist or not.
func (r *reloader) files() []string {
	files := cli.DefaultFiles()
	if r.inv.Sources.Chosen {
		files = r.paths
	}
	if path := r.guard.Path(); path != "" {
		files = append(slices.Clone(files), path)
	}
	return files
}

// reload reads the configuration again: its files, and what they refer to.
func (r *reloader) reload(dryRun bool) control.Reload {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	return r.apply(dryRun)
}

// sources are the files to read: those that were read before, and default files that exist by
// now. A file that was read before and is gone is a problem, because a program that writes it
// may have removed it for a moment.
func (r *reloader) sources() cli.Sources {
	sources := r.inv.Sources
	sources.Paths = r.paths
	if !sources.Chosen {
		if now := cli.NewSources(nil); len(now.Paths) > len(r.paths) {
			sources.Paths = now.Paths
		}
	}
	return sources
}

// apply is reload by the goroutine that has the turn.
func (r *reloader) apply(dryRun bool) control.Reload {
	began := time.Now()
	inv := *r.inv
	inv.Sources = r.sources()
	digest := inv.Sources.Digest() // before the content: a later change is seen as one
	file, err := inv.ReloadConfig()
	answer := control.Reload{DryRun: dryRun, Changes: []control.Change{}}
	if err != nil {
		answer.Problem = err.Error()
		if !dryRun {
			again := r.info.Problem == answer.Problem
			r.info.Digest, r.info.Read, r.info.Problem = digest, began.Round(0), answer.Problem
			r.publish(r.all())
			r.refused.Add(1)
			if r.guard.Reread() { // a broken configuration does not keep the lock file as it was
				r.recheck()
			}
			if !again {
				r.printer.later(func() { r.inv.Warn("", "%s; the servers stay as they are", answer.Problem) })
			}
		}
		return answer
	}
	before := maps.Clone(r.specs)
	specs, usable, kept := r.wanted(file)
	answer.Changes, answer.Unchanged = r.plan(file, specs, kept)
	answer.GatewayProblem, answer.GroupsProblem = gatewayProblem(file), groupsProblem(file)
	answer.TrustProblem = trustProblem(file)
	answer.Also = r.alsoChanged(file)
	if dryRun {
		return answer
	}
	r.info.Digest, r.info.Read, r.info.Problem, r.info.Config = digest, began.Round(0), "", inv.Sources.String()
	r.paths, r.specs, r.usable = file.Paths, specs, usable
	r.info.GroupsProblem = answer.GroupsProblem
	r.useGateway(file, kept) // before the servers change: a server is not offered before the profiles know it
	r.describe(file, kept)
	r.publish(append(slices.Collect(maps.Values(before)), r.all()...))
	problems, planned, all := r.newProblems(file), answer, r.all()
	planned.Changes = slices.Clone(planned.Changes) // note changes those of the answer
	r.printer.later(func() {
		warn(r.inv, problems)
		r.printer.plan(planned, all)
	})
	complete := r.setGroups(file)
	servers.UseRules(r.gate, file)
	r.rules, r.lock = file.Rules, file.Lock
	recheck := r.guard.Use(file) // before a server starts
	ended := r.countEnded(answer.Changes)
	r.explained.add(r.client, answer.Changes)
	err = r.client.Apply(r.inv.Context, r.all())
	ended()
	if err != nil {
		r.note(&answer, err, before)
	}
	if answer.GroupsProblem = complete(); err != nil || answer.GroupsProblem != "" {
		answer.Also = slices.DeleteFunc(answer.Also, func(key string) bool { return key == "groups" && answer.GroupsProblem != "" })
		r.info.GroupsProblem = answer.GroupsProblem
		r.publish(append(slices.Collect(maps.Values(before)), slices.Collect(maps.Values(specs))...))
	}
	if recheck {
		r.recheck()
	}
	if err == nil && r.usableConfig() == 1 {
		r.complete.Add(1)
	} else {
		r.partial.Add(1)
	}
	answer.TookMs = time.Since(began).Milliseconds()
	done := answer
	done.Changes = slices.Clone(done.Changes)
	r.printer.later(func() { r.printer.reloaded(done) })
	return answer
}

// recheck has the guard check again what the servers offer that run, or that it may have checked while they started. The
// guard checks the others when they start. recheck does not wait: a server that does not answer must not hold up the next
// reload.
func (r *reloader) recheck() {
	for _, s := range r.client.Status() {
		if s.State != supervisor.StateReady && s.State != supervisor.StateConnecting && s.State != supervisor.StateDiscovering {
			continue
		}
		go func() {
			if s.State != supervisor.StateReady && r.client.WaitReady(r.inv.Context, s.Name) != nil {
				return // its next start is looked at as a whole
			}
			if err := r.client.Refresh(r.inv.Context, s.Name); err != nil && r.inv.Context.Err() == nil {
				r.printer.later(func() {
					r.inv.Warn(s.Name, "the lock file has changed, and %s could not be looked at again: %v", s.Name, err)
				})
			}
		}()
	}
}

// setGroups gives the client the groups of a configuration, before its servers change. The caller calls complete when these
// have changed. complete returns why the client has the earlier groups; empty: it has those of the configuration.
func (r *reloader) setGroups(file *config.File) (complete func() (problem string)) {
	if file.GroupsBroken || reflect.DeepEqual(r.groups, file.Groups) {
		return func() string { return groupsProblem(file) }
	}
	set := func(groups []mcpvisor.Group) error {
		err := r.client.SetGroups(r.inv.Context, groups)
		if err == nil {
			r.groups = groups
		}
		return err
	}
	before := r.groups
	if set(file.Groups) == nil {
		return func() string { return "" }
	}
	_ = set(nil) // they do not fit the servers of before, and those of before may not fit the new servers
	return func() string {
		err := set(file.Groups)
		if err == nil {
			return ""
		}
		_ = set(before)
		if e := (*mcpvisor.Error)(nil); errors.As(err, &e) && e.Cause != nil {
			err = e.Cause
		}
		return cli.ConfigTerms(err.Error())
	}
}

// wanted returns the specs that a file wants, by name, and which of them are usable entries. An
// entry that is no longer usable keeps the spec of its last usable version, which is in
// kept.
func (r *reloader) wanted(file *config.File) (specs map[string]mcpvisor.ServerSpec, usable, kept map[string]bool) {
	specs, usable, kept = map[string]mcpvisor.ServerSpec{}, map[string]bool{}, map[string]bool{}
	for _, spec := range file.Specs() {
		specs[spec.Name], usable[spec.Name] = spec, true
	}
	for _, u := range servers.Unusable(file) {
		present, registered := r.specs[u.Name]
		switch {
		case registered && r.usable[u.Name]:
			specs[u.Name], usable[u.Name], kept[u.Name] = present, true, true
		case registered && present.Origin == u.Origin && r.reasonOf(u.Name) == u.Reason:
			specs[u.Name] = present // the same function, so that nothing changes
		default:
			specs[u.Name] = servers.StandIn(u)
		}
	}
	return specs, usable, kept
}

func (r *reloader) reasonOf(name string) string {
	for _, u := range r.info.Unusable {
		if u.Name == name {
			return u.Reason
		}
	}
	return ""
}

// plan says what specs change, and how many servers are left alone.
func (r *reloader) plan(file *config.File, specs map[string]mcpvisor.ServerSpec, kept map[string]bool) (changes []control.Change, unchanged int) {
	reasons := map[string]string{}
	for _, u := range servers.Unusable(file) {
		reasons[u.Name] = u.Reason
	}
	changes = []control.Change{}
	for name, spec := range specs {
		c := control.Change{Server: name, Reason: reasons[name]}
		before, registered := r.specs[name]
		switch {
		case kept[name]:
			c.Action = control.ActionKeep
		case c.Reason != "":
			c.Action = control.ActionUnusable
		case !registered:
			c.Action = control.ActionAdd
		case !before.Equal(spec):
			c.Action, c.Differences = control.ActionReplace, []string{"its entry can be used again"}
			if r.usable[name] {
				c.Differences = difference.Of(before, spec)
			}
		default:
			unchanged++
			continue
		}
		changes = append(changes, c)
	}
	for name := range r.specs {
		if _, wanted := specs[name]; !wanted {
			changes = append(changes, control.Change{Server: name, Action: control.ActionRemove})
		}
	}
	slices.SortFunc(changes, func(a, b control.Change) int { return strings.Compare(a.Server, b.Server) })
	return changes, unchanged
}

// alsoChanged returns the keys at the top of a file whose values have changed, except those of the servers.
func (r *reloader) alsoChanged(file *config.File) (keys []string) {
	if next := settingsOf(file); gatewayProblem(file) == "" {
		next.ShareOf, next.OnDownOf = r.gateway.ShareOf, r.gateway.OnDownOf // they are keys of servers
		if !reflect.DeepEqual(next, r.gateway) {
			keys = append(keys, "gateway")
		}
	}
	if !file.GroupsBroken && !reflect.DeepEqual(r.groups, file.Groups) {
		keys = append(keys, "groups")
	}
	samePlace := func(a, b rules.Rule) bool { a.Source = b.Source; return reflect.DeepEqual(a, b) }
	if !slices.EqualFunc(r.rules, file.Rules, samePlace) {
		keys = append(keys, "rules")
	}
	if before, now := cmp.Or(r.lock, "off"), cmp.Or(file.Lock, "off"); before != now {
		keys = append(keys, "lock: "+before+" → "+now)
	} else if r.guard.Changed() {
		keys = append(keys, "mcpvisor.lock")
	}
	return keys
}

// note adds the errors of Apply to an answer. A server whose change has failed is changed by the
// next reload, even if its entry is the same. Until then one that was to be replaced, and is still
// registered, continues as before, and its entry counts as kept.
func (r *reloader) note(answer *control.Reload, failed error, before map[string]mcpvisor.ServerSpec) {
	all := []error{failed}
	if joined, ok := failed.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		e := (*mcpvisor.Error)(nil)
		if !errors.As(err, &e) {
			e = &mcpvisor.Error{}
		}
		text := cli.ConfigTerms(err.Error())
		i := slices.IndexFunc(answer.Changes, func(c control.Change) bool { return c.Server == e.Server })
		if i < 0 {
			i = len(answer.Changes)
			answer.Changes = append(answer.Changes, control.Change{Server: e.Server, Action: control.ActionReplace})
		}
		answer.Changes[i].Error = text
		spec, replaced := before[e.Server]
		if _, continues := r.client.ServerStatus(e.Server); replaced && continues {
			r.specs[e.Server] = spec
			r.info.Kept = append(r.info.Kept, control.Unusable{Name: e.Server, Origin: spec.Origin, Reason: text})
			continue
		}
		delete(r.specs, e.Server)
		delete(r.usable, e.Server)
	}
}

// describe puts into info what only the files know.
func (r *reloader) describe(file *config.File, kept map[string]bool) {
	r.info.Servers, r.info.Entries, r.info.Unusable, r.info.Kept, r.info.TrustProblem = nil, nil, nil, nil, trustProblem(file)
	for _, u := range servers.Unusable(file) {
		if kept[u.Name] {
			r.info.Kept = append(r.info.Kept, u)
		} else {
			r.info.Unusable = append(r.info.Unusable, u)
		}
	}
	for _, spec := range r.all() {
		if r.usable[spec.Name] {
			r.info.Servers = append(r.info.Servers, spec.Name)
		}
	}
	for _, list := range [][]config.Server{file.Servers, file.Unusable} {
		for _, s := range list {
			if _, listed := r.specs[s.Spec.Name]; listed && s.Entry != s.Spec.Name {
				if r.info.Entries == nil {
					r.info.Entries = map[string]string{}
				}
				r.info.Entries[s.Spec.Name] = s.Entry
			}
		}
	}
}

func (r *reloader) newProblems(file *config.File) (problems []config.Problem) {
	warned := map[string]bool{}
	for _, p := range file.Problems {
		text := p.String()
		if warned[text] = true; !r.warned[text] {
			problems = append(problems, p)
		}
	}
	r.warned = warned
	return problems
}

func warn(inv *servers.Opener, problems []config.Problem) {
	for _, p := range problems {
		inv.Warn(p.Server, "%s", p)
	}
}

// publish tells the page, and the commands that attach. specs are those whose secrets are hidden.
func (r *reloader) publish(specs []mcpvisor.ServerSpec) {
	info := r.info
	r.published.Store(&info)
	r.masks.Update(specs...)
	if r.socket != nil {
		r.socket.Update(r.info)
	}
}

// settingsOf returns what a configuration says about the gateway. Its "gateway" must not be broken.
func settingsOf(file *config.File) gateway.Settings {
	s := gateway.Settings{Names: &gateway.Names{HostPrefix: settings.DefaultHostPrefix}}
	if file.Gateway != nil {
		s = file.Gateway.Settings
	}
	s.OnDownOf = map[string]gateway.OnDown{}
	for _, server := range file.Servers {
		if server.OnDown != nil {
			s.OnDownOf[server.Spec.Name] = *server.OnDown
		}
	}
	return s
}

// gatewayProblem says why "gateway" of a configuration cannot be used, with its places in the files;
// empty if it can.
func gatewayProblem(file *config.File) string { return gatewayProblems(file, config.Problem.String) }

func gatewayProblems(file *config.File, textOf func(config.Problem) string) string {
	if file.Gateway == nil || !file.Gateway.Broken {
		return ""
	}
	return problemsOf(file, "gateway", textOf)
}

// groupsProblem says why "groups" of a configuration cannot be used; empty if they can.
func groupsProblem(file *config.File) string {
	if !file.GroupsBroken {
		return ""
	}
	return problemsOf(file, "groups", config.Problem.String)
}

// trustProblem says which rules, and which "lock", of a configuration cannot be used; empty if all can.
func trustProblem(file *config.File) string {
	return strings.Trim(problemsOf(file, "rules", config.Problem.String)+"; "+problemsOf(file, "lock", config.Problem.String), "; ")
}

// problemsOf says what is wrong with a key at the top of the files.
func problemsOf(file *config.File, key string, textOf func(config.Problem) string) string {
	var problems []string
	for _, p := range file.Problems {
		if p.Key == key && p.Severity == config.SeverityError {
			problems = append(problems, cli.ConfigTerms(textOf(p)))
		}
	}
	return strings.Join(problems, "; ")
}

// sharesOf returns which servers of a configuration run once for each client. Those in kept have an entry
// that is no longer usable, and run as before.
func sharesOf(file *config.File, kept map[string]bool, before map[string]gateway.Share) map[string]gateway.Share {
	shares := map[string]gateway.Share{}
	for _, server := range file.Servers {
		if server.Share != "" {
			shares[server.Spec.Name] = server.Share
		}
	}
	for name := range kept {
		shares[name] = before[name]
	}
	return shares
}

// useGateway applies what a configuration says about the gateway. What cannot be used leaves it as it
// is, and is a problem until the next reading. But each server is shared as its entry says in any case:
// two clients must not meet in one process because of another mistake.
func (r *reloader) useGateway(file *config.File, kept map[string]bool) {
	shares := sharesOf(file, kept, r.gateway.ShareOf)
	r.info.GatewayProblem = gatewayProblem(file)
	if r.info.GatewayProblem == "" {
		next := settingsOf(file)
		next.ShareOf = shares
		err := r.settings.Set(next)
		if err == nil {
			r.gateway = next
			return
		}
		r.info.GatewayProblem = err.Error()
	}
	r.gateway.ShareOf = shares
	_ = r.settings.Set(r.gateway) // it was valid before
}

// newLists returns a gateway that is not served: its status says which tools are withheld.
func newLists(c *facade.Client, settings *gateway.SettingsVar) *gateway.Server {
	return gateway.Handler(c, gateway.WithSettings(settings))
}
