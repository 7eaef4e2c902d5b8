package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/internal/grouptree"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// groupRows are the keys of a group.
var groupRows = []row{
	keyRow((*entry).readMembersOfGroup, configkeys.Key{
		Name: "members", Type: "list of strings", Example: `["browser", "scraper"]`,
		Meaning: "Servers and groups, in the order of their start: each starts when the one before it is ready, and ends before that one. Each is a member of one group at most."}),
	choiceRow(func(e *entry) *supervisor.Strategy { return &e.group.Strategy }, configkeys.Key{
		Name: "strategy", Default: `"one_for_one"`, Example: `"rest_for_one"`,
		Meaning: "Which members are restarted when one fails: that one, that one and those behind it, or all."}, supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll),
	keyRow(func(e *entry, v *hujson.Value) {
		e.readObject(v, `{"restarts": 3, "window": "1m"}`, intensityRows)
		e.group.Intensity = e.spec.Policy.Intensity
	}, configkeys.Key{
		Name: "intensity", Type: "object", Default: "no bound", Example: `{"restarts": 3, "window": "1m"}`,
		Meaning: "How many failures of members the group allows within a window of time. One more, and the group has failed. Set both of its keys."}).nesting(intensityRows),
	choiceRow(func(e *entry) *supervisor.WhenSpent { return &e.group.WhenSpent }, configkeys.Key{
		Name: "when_spent", Default: `"parent"`, Example: `"park"`,
		Meaning: "What follows when the group has failed: its members end, and start afresh after park_every (park) or when an operator starts them (evict), or a member of its parent group has failed (parent; a group without a parent is evicted)."}, supervisor.SpentPark, supervisor.SpentEvict, supervisor.SpentParent),
	durationRow(func(e *entry) *time.Duration { return &e.group.ParkEvery }, configkeys.Key{
		Name: "park_every", Default: shortDuration(mcpvisor.Group{}.WithDefaults().ParkEvery), Example: `"10m"`,
		Meaning: `The pause before a group with "when_spent": "park" starts afresh.`}),
	durationRow(func(e *entry) *time.Duration { return &e.group.StartBound }, configkeys.Key{
		Name: "start_bound", Default: "no bound", Example: `"30s"`,
		Meaning: "How long a member waits for the one before it. Then it starts nevertheless."}),
	boolRow(func(e *entry) *bool { return &e.group.Temporary }, configkeys.Key{
		Name: "temporary", Default: "false", Example: `true`,
		Meaning: "The parent of this group does not start it again when it has failed."}),
	keyRow(func(e *entry, v *hujson.Value) { e.group.After = e.readNames(v) }, configkeys.Key{
		Name: "after", Type: "list of strings", Example: `["db"]`,
		Meaning: "Servers and groups that must be ready before the first member starts."}),
}

// readChoice reads one of several texts.
func readChoice[T ~string](e *entry, v *hujson.Value, into *T, choices ...T) {
	text, ok := e.readString(v)
	if !ok {
		return
	}
	if *into = T(text); !slices.Contains(choices, *into) {
		e.fail(v, "%q is %q; use %s", e.key, text, orTexts(choices))
	}
}

// orTexts writes choices as in "a", "b" or "c".
func orTexts[T ~string](choices []T) string {
	quoted := make([]string, len(choices))
	for i, c := range choices {
		quoted[i] = fmt.Sprintf("%q", c)
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// place is where something is in the files.
type place struct {
	at   *hujson.Value
	text *text
}

// groupPlaces are the places of what groups and servers say about each other.
type groupPlaces struct {
	groups  map[string]place // by name
	members map[string]place // by the name of the member
	after   map[string]place // of "after" in an entry, by server
	first   place            // of "groups"
}

// findGroups finds "groups" in the present text.
func (t *text) findGroups(top *hujson.Object) {
	for m := range membersNamed(top, "groups") {
		t.groupsAt = append(t.groupsAt, &m.Value)
		object, _ := m.Value.Value.(*hujson.Object)
		for name := range members(object) {
			t.groups = append(t.groups, name)
		}
	}
}

// readGroups reads "groups" at the top of the present text, without those that a later text replaces.
func (p *parser) readGroups(later []*text) {
	e := &entry{p: p, key: "groups", strict: true}
	for i, v := range p.text.groupsAt {
		p.places.first = place{v, p.text}
		object, ok := v.Value.(*hujson.Object)
		switch {
		case i > 0:
			e.fail(v, "\"groups\" is there twice; remove one of them")
		case !ok:
			e.failType(v, "an object", `{"web": {"members": ["browser", "scraper"]}}`)
		default:
			for name, m := range members(object) {
				if !slices.ContainsFunc(later, func(t *text) bool { return slices.Contains(t.groups, name) }) {
					e.within("."+name, func() { e.readGroup(name, m) })
				}
			}
		}
	}
	p.file.GroupsBroken = p.file.GroupsBroken || e.broken
}

// readGroup reads one group.
func (e *entry) readGroup(name string, m *hujson.ObjectMember) {
	p := e.p
	before := p.places.groups[name]
	switch server := slices.Contains(p.servers(), name); {
	case before.at != nil:
		e.fail(&m.Name, "group %q is defined twice (first on line %d); rename or remove one", name, before.text.line(before.at))
		return
	case server:
		e.fail(&m.Name, "%q is also the name of a server; rename one of them", name)
	}
	p.places.groups[name] = place{&m.Name, p.text}
	p.secrets, e.spec, e.group = nil, mcpvisor.ServerSpec{}, &mcpvisor.Group{Name: name}
	known := len(p.file.Problems)
	e.readObject(&m.Value, `{"members": ["browser", "scraper"]}`, groupRows)
	if len(p.file.Problems) == known {
		if err := e.group.Validate(); err != nil {
			e.fail(&m.Name, "%s", keyTerms(strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	p.file.Groups = append(p.file.Groups, *e.group)
}

// readMembersOfGroup reads "members" of a group.
func (e *entry) readMembersOfGroup(v *hujson.Value) {
	e.group.Members = e.readNames(v)
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		return
	}
	members := e.p.places.members
	for i, name := range e.group.Members {
		at := &list.Elements[i]
		if before, again := members[name]; again {
			e.fail(at, "%q is a member of a group already (%s:%d), and has one place; remove it here or there", name, before.text.path, before.text.line(before.at))
			continue
		}
		members[name] = place{at, e.p.text}
	}
}

// readAfter reads "after" of an entry.
func (e *entry) readAfter(v *hujson.Value) {
	e.spec.After = e.readNames(v)
	e.p.places.after[e.spec.Name] = place{v, e.p.text}
}

// readNames reads a list of servers and groups, as the file calls them.
func (e *entry) readNames(v *hujson.Value) []string {
	before := len(e.p.file.Problems)
	names := e.readList(v)
	list, ok := v.Value.(*hujson.Array)
	if !ok || len(e.p.file.Problems) > before {
		return names
	}
	known := append(e.p.servers(), e.p.groupNames...)
	for i, name := range names {
		if server, isEntry := e.p.names[name]; isEntry {
			names[i] = server
		} else if !slices.Contains(known, name) && (!e.p.others || e.group != nil) {
			e.fail(&list.Elements[i], "no server or group is called %q, which %q names; %s", name, e.key, didYouMean(name, known, "remove it, or add the server"))
		}
	}
	return names
}

// didYouMean suggests the known name that is nearest to another one, or else what otherwise says.
func didYouMean(name string, known []string, otherwise string) string {
	if near := nearest.Names(name, known); len(near) > 0 {
		return fmt.Sprintf("did you mean %q?", near[0])
	}
	return otherwise
}

// servers returns the names of all servers of the files, in order.
func (p *parser) servers() []string {
	names := make([]string, 0, len(p.names))
	for _, name := range p.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// finishGroups finds what waits for itself. Entries that do so alone cannot be used; if it takes groups, no group can.
func (p *parser) finishGroups() {
	e := &entry{p: p, key: "groups", strict: true, broken: p.file.GroupsBroken}
	specs := map[string]*mcpvisor.ServerSpec{}
	for _, s := range p.file.Servers {
		specs[s.Spec.Name] = &s.Spec
	}
	for {
		circle := (*group.CircleError)(nil)
		if !errors.As(grouptree.Check(nil, specs), &circle) {
			break
		}
		for _, name := range circle.Path[1:] {
			delete(specs, name)
			p.dropServer(name, circle)
		}
	}
	if err := grouptree.Check(p.file.Groups, specs); err != nil && !e.broken {
		at, circle := p.places.first, (*group.CircleError)(nil)
		if errors.As(err, &circle) {
			for _, name := range slices.Backward(circle.Path) {
				at = cmp.Or(p.places.groups[name], p.places.after[name], at)
			}
		}
		p.text = at.text
		e.fail(at.at, "%s", err)
	}
	if e.broken {
		p.file.Groups, p.file.GroupsBroken = nil, true
	}
}

// dropServer makes an entry unusable, because it waits for itself.
func (p *parser) dropServer(name string, circle *group.CircleError) {
	i := slices.IndexFunc(p.file.Servers, func(s Server) bool { return s.Spec.Name == name })
	s := p.file.Servers[i]
	s.Spec = mcpvisor.ServerSpec{Name: s.Spec.Name, Origin: s.Spec.Origin}
	p.file.Servers = slices.Delete(p.file.Servers, i, i+1)
	p.file.Unusable = append(p.file.Unusable, s)
	slices.SortStableFunc(p.file.Unusable, func(a, b Server) int {
		return cmp.Or(slices.Index(p.file.Paths, a.Path)-slices.Index(p.file.Paths, b.Path), a.Line-b.Line)
	})
	at := p.places.after[name]
	p.text = at.text
	p.addProblem(at.at, s.Entry, SeverityError, "%s", circle)
}
