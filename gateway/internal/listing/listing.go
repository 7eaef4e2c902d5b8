// Package listing makes the lists that clients get of what the servers offer, as text. A Catalog has the
// newest lists of one gateway; they are as long as what the servers offer, which package discovery
// bounds.
package listing

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// compareKeys orders the entries of a list by server, and then by the server's own name.
func compareKeys(a, b Owner) int {
	return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Name, b.Name))
}

// Lists is a set of kinds of lists.
type Lists uint8

const (
	// ToolList and the others are the kinds of lists.
	ToolList     Lists                                  = 1 << iota // the tools
	PromptList                                                      // the prompts
	ResourceList                                                    // resources and templates
	AllLists     = ToolList | PromptList | ResourceList             // all of them
)

// anyObject is listed as the schema of a tool that has none, as the specification requires one.
var anyObject = json.RawMessage(`{"type":"object"}`)

// entry is one entry of a list, encoded, and what it says.
type entry struct {
	Owner
	name string // under which it is listed
	json []byte
	sum  canonical.Digest
}

// List is one encoded list. It never changes.
type List struct {
	member  string    // the member of the result that has the entries
	entries []entry   // sorted
	whole   [2][]byte // the result with all entries, before and since 2026-07-28; nil if it needs several pages
	digest  string    // of what the entries say
}

// Listing has the lists of a gateway at one moment. It never changes.
type Listing struct {
	Tools, Prompts, Resources, Templates List
	ToolByName                           map[string]string // qualified names, by listed name
	PromptByName                         map[string]Owner
	Withheld                             []Withheld
	WithheldName                         map[Owner]string // reasons, by kind and by the names that a host may call
	NeverReady                           []string         // the offered servers whose lists are not known
	names                                []string         // the offered servers
	terms                                *Terms           // it was made with them
}

// Terms say how entries are listed. They never change: new settings have new terms.
type Terms struct {
	Rules *offer.Rules    // what is offered; nil: everything
	Names *settings.Names // nil: aliases
	Order []string        // the servers that come first if several have a resource
	// Keep says how long the entries of a server that is down are listed: without a bound, or for a time.
	Keep func(server string) (grace time.Duration, unlimited bool)
}

// namesUI reports whether the URI of a user interface always names its server, so that it stays the same when servers
// come and go, as the names of tools do.
func (t *Terms) namesUI() bool { return t.Names == nil || t.Names.Prefix != settings.PrefixNever }

// NamesServer reports whether a URI of a server has to be listed with its server, whatever other servers have: it is
// that of a user interface, or a client would take it for a URI that names one of these servers.
func (t *Terms) NamesServer(uri string, servers []string) bool {
	_, named := resource.Split(uri, servers)
	return named || resource.IsUI(uri) && t.namesUI()
}

// Catalog makes the listings of a gateway. It makes a new listing when the client offers something else,
// and reuses the encoded entries of servers that have not changed.
type Catalog struct {
	view     *offer.View
	now      func() *Terms // returns the current terms
	pageSize int
	// changed is called when a grace period has ended.
	changed func()

	current atomic.Pointer[Listing] // the newest

	mu        sync.Mutex             // guards the fields below
	seen      []seen                 // current was made of these
	offers    []offered              // empty between calls; its memory is reused
	down      map[string]time.Time   // by server: since when it is down, during its grace period
	encoded   map[string]encodedPart // by server
	shared    [2]map[string]bool     // see namer.shared; of tools and of prompts
	first     [2]map[string]string   // see namer.first
	had       map[string]bool        // see Had
	graceEnds *time.Timer
}

// offered is what a server offers, and whether its entries are listed.
type offered struct {
	relay.Catalog
	seen seen
}

// seen identifies what a server offered when a listing was made.
type seen struct {
	server  string
	version uint64 // relay.Catalog.Version
	listed  bool
}

// encodedPart has the encoded entries of one server, by the name or URI under which they are listed.
type encodedPart struct {
	seen                                 seen
	tools, prompts, resources, templates map[string]entry
}

// New returns the catalog of a gateway. changed is called when a grace period has ended.
func New(view *offer.View, pageSize int, now func() *Terms, changed func()) *Catalog {
	return &Catalog{view: view, pageSize: pageSize, now: now, changed: changed, down: map[string]time.Time{}, shared: [2]map[string]bool{{}, {}}, first: [2]map[string]string{{}, {}}, had: map[string]bool{}}
}

// Get returns the current listing. Safe for concurrent use.
func (c *Catalog) Get() *Listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	terms := c.now()
	unknown := c.view.NeverReady(terms.Rules)
	var wake time.Time // when the next grace period ends
	for known := range c.view.Catalogs(terms.Rules) {
		listed, until := c.isListedLocked(terms, &known, now)
		if !until.IsZero() && (wake.IsZero() || until.Before(wake)) {
			wake = until
		}
		c.offers = append(c.offers, offered{known, seen{known.Server, known.Version, listed}})
	}
	defer func() {
		clear(c.offers)
		c.offers = c.offers[:0]
	}()
	c.awaitLocked(wake, now)
	l := c.current.Load()
	if l != nil && l.terms == terms && slices.Equal(l.NeverReady, unknown) && slices.EqualFunc(c.offers, c.seen, func(o offered, s seen) bool { return o.seen == s }) {
		return l
	}
	l = c.makeLocked(terms, unknown)
	c.seen = c.seen[:0]
	for i := range c.offers {
		c.seen = append(c.seen, c.offers[i].seen)
	}
	c.current.Store(l)
	return l
}

// Last returns the newest listing that was made, which may be older than what the client offers.
func (c *Catalog) Last() *Listing {
	if l := c.current.Load(); l != nil && l.terms == c.now() {
		return l
	}
	return c.Get()
}

// isListedLocked reports whether the entries of a server are listed. until is the end of its grace
// period, if it is in one.
func (c *Catalog) isListedLocked(terms *Terms, known *relay.Catalog, now time.Time) (listed bool, until time.Time) {
	if !known.Unavailable {
		delete(c.down, known.Server)
		return true, time.Time{}
	}
	grace, unlimited := terms.Keep(known.Server)
	if !mayReturn(known.State) || !unlimited && grace <= 0 {
		return false, time.Time{}
	}
	if unlimited {
		return true, time.Time{}
	}
	since, ok := c.down[known.Server]
	if !ok {
		since = now
		c.down[known.Server] = now
	}
	until = since.Add(grace)
	if !until.After(now) {
		return false, time.Time{}
	}
	return true, until
}

// awaitLocked calls changed at the end of the next grace period.
func (c *Catalog) awaitLocked(end, now time.Time) {
	if c.graceEnds != nil {
		c.graceEnds.Stop()
		c.graceEnds = nil
	}
	if !end.IsZero() {
		c.graceEnds = time.AfterFunc(end.Sub(now), c.changed)
	}
}

// makeLocked makes a listing of c.offers.
func (c *Catalog) makeLocked(terms *Terms, unknown []string) *Listing {
	l := &Listing{terms: terms, NeverReady: unknown, names: slices.Clone(unknown)}
	known := c.offers
	for i := range known {
		l.names = append(l.names, known[i].Server)
		if len(c.had) < maxHeld {
			c.had[known[i].Server] = true
		}
	}
	names := terms.Names
	tools, prompts := namer{names: names, shared: c.shared[0], first: c.first[0]}, namer{names: names, shared: c.shared[1], first: c.first[1]}
	if len(unknown) > 0 {
		tools.bare = func(o Owner, short string) bool { return c.encoded[o.Server].tools[short].Owner == o }
		prompts.bare = func(o Owner, short string) bool { return c.encoded[o.Server].prompts[short].Owner == o }
	}
	var allTools, allPrompts []Owner
	uris := map[string][]string{} // the servers that have it
	for i := range known {
		for j := range known[i].Tools {
			t := &known[i].Tools[j]
			o := toolOwner(t)
			if problem := schemaProblem(t); problem != "" {
				l.withhold("tool", o, "its "+problem)
				continue
			}
			allTools = append(allTools, o)
		}
		for j := range known[i].Prompts {
			allPrompts = append(allPrompts, promptOwner(&known[i].Prompts[j]))
		}
		countURIs(uris, &known[i], known[i].Resources, func(r *mcpvisor.Resource) string { return r.URI })
	}
	templates := map[string][]string{}
	for i := range known {
		countURIs(templates, &known[i], known[i].Templates, func(t *mcpvisor.ResourceTemplate) string { return t.URITemplate })
	}
	for i := range known { // a server may have what another one lists
		if len(known[i].Templates) == 0 {
			continue
		}
		steps, matched := resource.MaxListSteps, map[string]bool{}
		for uri := range uris {
			matched[uri] = resource.Matches(known[i].Templates, uri, &steps)
		}
		for uri, servers := range uris {
			if (matched[uri] || steps <= 0) && !slices.Contains(servers, known[i].Server) {
				uris[uri] = append(servers, known[i].Server)
			}
		}
	}
	tools.add(allTools)
	prompts.add(allPrompts)
	l.WithheldName = map[Owner]string{}
	for kind, n := range map[string]*namer{"tool": &tools, "prompt": &prompts} {
		for name, owners := range n.conflict {
			for _, o := range owners {
				l.withhold(kind, o, conflictReason(name, owners))
			}
		}
	}
	for _, w := range l.Withheld {
		o, listed := Owner{w.Server, w.Name}, tools.name
		if w.Kind == "prompt" {
			listed = prompts.name
		}
		for _, name := range []string{listed(o), o.Qualified(), mcpvisor.Alias(o.Server, o.Name)} {
			l.WithheldName[Owner{w.Kind, name}] = w.Reason
		}
	}
	slices.SortFunc(l.Withheld, func(a, b Withheld) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	l.PromptByName, l.ToolByName = prompts.byName, make(map[string]string, len(tools.byName))
	for name, o := range tools.byName {
		l.ToolByName[name] = o.Qualified()
	}
	encoded := map[string]encodedPart{}
	for i := range known {
		if known[i].seen.listed {
			encoded[known[i].Server] = c.encodeLocked(l, &known[i], &tools, &prompts, uris, templates)
		}
	}
	c.encoded = encoded
	for _, one := range []struct {
		list   *List
		member string
	}{{&l.Tools, "tools"}, {&l.Prompts, "prompts"}, {&l.Resources, "resources"}, {&l.Templates, "resourceTemplates"}} {
		one.list.member = one.member
		one.list.finish(c.pageSize)
	}
	return l
}

// countURIs records which servers have a URI.
func countURIs[T any](uris map[string][]string, known *offered, entries []T, uriOf func(*T) string) {
	for i := range entries {
		uri := uriOf(&entries[i])
		uris[uri] = append(uris[uri], known.Server)
	}
}

func (l *Listing) withhold(kind string, o Owner, reason string) {
	l.Withheld = append(l.Withheld, Withheld{Server: o.Server, Name: o.Name, Kind: kind, Reason: reason})
}

// ListsBare reports whether the listing that was made last has a resource or template under its bare URI.
func (c *Catalog) ListsBare(o Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	part := c.encoded[o.Server]
	return part.resources[o.Name].Owner == o || part.templates[o.Name].Owner == o
}

// Had reports whether there has been a server of that name. A client may still have URIs that name it.
func (c *Catalog) Had(server string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.had[server]
}

// encodeLocked appends the entries of one server to the lists. It reuses entries that are encoded
// already, and those that say the same in the server's new lists.
func (c *Catalog) encodeLocked(l *Listing, known *offered, tools, prompts *namer, uris, templates map[string][]string) encodedPart {
	part := encodedPart{seen: known.seen, tools: map[string]entry{}, prompts: map[string]entry{}, resources: map[string]entry{}, templates: map[string]entry{}}
	old := c.encoded[known.Server]
	read := old.seen.version == part.seen.version
	uriIn := func(servers map[string][]string, old map[string]entry) func(Owner) (string, bool) {
		return func(o Owner) (string, bool) {
			if l.terms.NamesServer(o.Name, l.names) || resource.First(servers[o.Name], l.terms.Order) != o.Server || len(resource.Before(l.NeverReady, o.Server, l.terms.Order, old[o.Name].Owner == o)) > 0 {
				return resource.Name{Server: o.Server, URI: o.Name}.Qualified(), true
			}
			return o.Name, true
		}
	}
	shown := resource.References(func(uri string) string {
		if resource.IsUI(uri) { // it need not be listed
			uri, _ = uriIn(uris, old.resources)(Owner{known.Server, uri})
		}
		return uri
	})
	// Where user interfaces need not be named by their server, those of other servers decide how a tool is listed.
	addAll(&l.Tools, read && l.terms.namesUI(), old.tools, part.tools, known.Tools, toolOwner, tools.listed, func(t *mcpvisor.Tool, name string) (any, json.RawMessage) {
		tool := *t.Definition
		tool.Name = name
		if tool.InputSchema == nil {
			tool.InputSchema = anyObject
		}
		return visibleTool(tool), shown.InTool(t.Raw)
	})
	addAll(&l.Prompts, read, old.prompts, part.prompts, known.Prompts, promptOwner, prompts.listed, func(p *mcpvisor.Prompt, name string) (any, json.RawMessage) {
		prompt := *p.Definition
		prompt.Name = name
		return visiblePrompt(prompt), p.Raw
	})
	addAll(&l.Resources, read, old.resources, part.resources, known.Resources, func(r *mcpvisor.Resource) Owner { return Owner{r.Server, r.URI} }, uriIn(uris, old.resources), func(r *mcpvisor.Resource, uri string) (any, json.RawMessage) {
		listed := *r.Definition
		listed.URI = uri
		return visibleResource(listed), r.Raw
	})
	addAll(&l.Templates, read, old.templates, part.templates, known.Templates, func(t *mcpvisor.ResourceTemplate) Owner { return Owner{t.Server, t.URITemplate} }, uriIn(templates, old.templates), func(t *mcpvisor.ResourceTemplate, uri string) (any, json.RawMessage) {
		listed := *t.Definition
		listed.URITemplate = uri
		return visibleTemplate(listed), t.Raw
	})
	return part
}

func toolOwner(t *mcpvisor.Tool) Owner { return Owner{t.Server, t.OriginalName} }

func promptOwner(p *mcpvisor.Prompt) Owner { return Owner{p.Server, p.OriginalName} }

// addAll appends the entries of one server to a list. It takes those in old if they were read from the same
// lists (read), and encodes the others; what says the same as before stays as it was encoded. nameOf returns
// the name or URI under which an entry is listed, or false if it is not listed. An entry that cannot be
// encoded is left out.
func addAll[T any](l *List, read bool, old, made map[string]entry, from []T, ownerOf func(*T) Owner, nameOf func(Owner) (string, bool), definition func(*T, string) (any, json.RawMessage)) {
	for i := range from {
		o := ownerOf(&from[i])
		name, ok := nameOf(o)
		if !ok {
			continue
		}
		e, ok := old[name]
		if ok = ok && e.Owner == o; !ok || !read {
			text, err := encodeAsSent(definition(&from[i], name))
			if err != nil {
				continue
			}
			if sum := canonical.Sum(text); !ok || e.sum != sum {
				e = entry{o, name, text, sum}
			}
		}
		made[name] = e
		l.entries = append(l.entries, e)
	}
}

// finish sets the digest of the list and, if one page is enough, its whole result.
func (l *List) finish(pageSize int) {
	hash := sha256.New()
	for i := range l.entries {
		hash.Write(l.entries[i].sum[:])
	}
	l.digest = base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:9])
	if len(l.entries) <= pageSize {
		all := l.encode(l.entries, "")
		l.whole = [2][]byte{all, message.Modern(all)}
	}
}

const (
	// listHead and listTail enclose the entries of a page. Its ttlMs is 0 because lists change when a
	// server does, and its cacheScope is private because they belong to the peer that asked.
	listHead = `{"`
	listTail = `],"ttlMs":0,"cacheScope":"` + CacheScope + `"}`
)

// encode returns the result for a page.
func (l *List) encode(entries []entry, next string) []byte {
	n := len(listHead) + len(l.member) + len(listTail) + len(next) + 32
	for i := range entries {
		n += len(entries[i].json) + 1
	}
	b := make([]byte, 0, n)
	b = append(append(append(b, listHead...), l.member...), `":[`...)
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, entries[i].json...)
	}
	if next != "" {
		b = append(append(append(b, `],"nextCursor":"`...), next...), '"')
		return append(b, listTail[1:]...)
	}
	return append(b, listTail...)
}

// Page returns the result for a cursor. See page for what a cursor names.
func (l *List) Page(cursor string, size int, modern bool) (json.RawMessage, error) {
	whole := l.whole[0]
	if modern {
		whole = l.whole[1]
	}
	if cursor == "" && whole != nil {
		return whole, nil
	}
	part, next, err := page(l.entries, func(e *entry) Owner { return e.Owner }, cursor, size)
	if err != nil {
		return nil, err
	}
	if text := l.encode(part, next); !modern {
		return text, nil
	} else {
		return message.Modern(text), nil
	}
}

// Len returns the number of entries.
func (l *List) Len() int { return len(l.entries) }

// Similar returns names of listed tools or prompts that are similar to an unknown one. What servers call their
// entries themselves counts only for a name without a server: else one could call its tool as that of another is
// listed. For a name with a server, and one that a server has had first, only entries of that server count, or of
// those with similar names.
func (c *Catalog) Similar(kind, name string) []string {
	l, asked := c.Last(), name
	entries, first := l.Tools.entries, c.first[0]
	if kind == "prompt" {
		entries, first = l.Prompts.entries, c.first[1]
	}
	plain := func(name string) string {
		return strings.Replace(strings.TrimPrefix(name, toolname.AliasPrefix), "/", toolname.Separator, 1)
	}
	if l.terms.Names != nil {
		name = strings.TrimPrefix(name, l.terms.Names.HostPrefix)
	}
	name = plain(name)
	server, _, named := strings.Cut(name, toolname.Separator)
	only := named
	if !named {
		c.mu.Lock()
		server, only = first[name]
		c.mu.Unlock()
	}
	servers := append(nearest.Names(server, l.Servers()), server) // nearest leaves out the name itself
	for i := range entries {
		if e := &entries[i]; e.name != asked && plain(e.name) == name && (!only || e.Server == server) {
			return []string{e.name} // the name that was asked for has a prefix that the list does not have
		}
	}
	return nearest.AmongSpellings(name, func(yield func(spelling, name string) bool) {
		for i := range entries {
			e := &entries[i]
			if only && !slices.Contains(servers, e.Server) {
				continue
			}
			if !yield(plain(e.name), e.name) || !named && !yield(e.Name, e.name) {
				return
			}
		}
	})
}

// Servers returns the servers that have listed entries, sorted.
func (l *Listing) Servers() []string {
	names := []string{}
	for _, all := range []List{l.Tools, l.Prompts, l.Resources, l.Templates} {
		for _, e := range all.entries {
			if n := len(names); n == 0 || names[n-1] != e.Server {
				names = append(names, e.Server)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Changes returns which lists differ between two listings.
func (l *Listing) Changes(other *Listing) (changed Lists) {
	if l == other {
		return 0
	}
	return ChangedDigests(l.Digests(), other.Digests())
}

// Digests returns the digests of the tools, of the prompts, and of resources and templates together.
func (l *Listing) Digests() [3]string {
	return [3]string{l.Tools.digest, l.Prompts.digest, l.Resources.digest + l.Templates.digest}
}

// ChangedDigests returns the lists whose digests differ.
func ChangedDigests(a, b [3]string) (changed Lists) {
	for i, kind := range []Lists{ToolList, PromptList, ResourceList} {
		if a[i] != b[i] {
			changed |= kind
		}
	}
	return changed
}

// mayReturn reports whether a server in this state, which is not available, becomes ready by itself. The
// state may still be ready just after the end of a session.
func mayReturn(s supervisor.State) bool {
	switch s {
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateReady, supervisor.StateClosing, supervisor.StateBackoff,
		supervisor.StateStopping, // it is replaced, or leaves the client in a moment
		supervisor.StateWaiting, supervisor.StateAsleep, supervisor.StateResting:
		return true
	case supervisor.StateParked, supervisor.StateUnauthorized, supervisor.StateEvicted, supervisor.StateStopped, supervisor.StateUnregistered:
	}
	return false
}
