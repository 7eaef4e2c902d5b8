package gateway

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
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/internal/headerparams"
)

// key is the place of an entry in a list: lists are sorted by server, and then by the server's
// own name.
type key = owner

func compareKeys(a, b key) int {
	return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.name, b.name))
}

// entry is one entry of a list, encoded.
type entry struct {
	key
	json []byte
}

// list is one list, encoded. It does not change.
type list struct {
	member  string    // that holds the entries in the result
	entries []entry   // sorted
	whole   [2][]byte // the result with all entries, before and since 2026-07-28; nil if it needs several pages
	digest  string    // of the entries
}

// listing is what the gateway lists at one moment. It does not change.
type listing struct {
	tools, prompts, resources, templates list
	toolByName                           map[string]string // qualified names
	promptByName                         map[string]owner
	headers                              map[string]*headerparams.Table // of each server
	withheld                             []Withheld
	settings                             *settings // that it was made with
}

// catalog makes the listings of a gateway. A listing is made again when the client offers
// something else, and of a server that has not changed the entries are used again.
type catalog struct {
	view    *offer.View
	rulesOf func(*settings) *offer.Rules
	opts    *options
	// changed is called when a grace period has ended.
	changed func()

	current atomic.Pointer[listing] // the newest

	mu        sync.Mutex              // guards the fields below
	seen      []seen                  // what current was made of
	offers    []offered               // reused
	down      map[string]time.Time    // since when a server is down whose entries may be kept
	encoded   map[string]*encodedPart // of each server
	shared    [2]map[string]bool      // of the namers of tools and prompts
	graceEnds *time.Timer
}

// offered is what a server offers, and whether its entries are listed.
type offered struct {
	mcpvisor.Catalog
	seen seen
}

// seen identifies what a server offered when it was looked at.
type seen struct {
	server  string
	version uint64 // mcpvisor.Catalog.Version
	listed  bool
}

// encodedPart has the entries of one server by the name or URI by which they are listed.
type encodedPart struct {
	seen                                 seen
	tools, prompts, resources, templates map[string]entry
	headers                              *headerparams.Table
}

// get returns the listing of this moment. It is safe for concurrent use.
func (c *catalog) get() *listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	settings := c.opts.settings.load()
	var wake time.Time // when the next grace period ends
	for known := range c.view.Catalogs(c.rulesOf(settings)) {
		listed, until := c.isListedLocked(settings, &known, now)
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
	if l != nil && l.settings == settings && slices.EqualFunc(c.offers, c.seen, func(o offered, s seen) bool { return o.seen == s }) {
		return l
	}
	l = c.makeLocked(settings)
	c.seen = c.seen[:0]
	for i := range c.offers {
		c.seen = append(c.seen, c.offers[i].seen)
	}
	c.current.Store(l)
	return l
}

// last returns the newest listing, which may be older than what the client offers.
func (c *catalog) last() *listing {
	if l := c.current.Load(); l != nil && l.settings == c.opts.settings.load() {
		return l
	}
	return c.get()
}

// isListedLocked reports whether the entries of a server are listed. until is when that ends, if it
// ends by itself.
func (c *catalog) isListedLocked(settings *settings, known *mcpvisor.Catalog, now time.Time) (listed bool, until time.Time) {
	if !known.Unavailable {
		delete(c.down, known.Server)
		return true, time.Time{}
	}
	policy := c.opts.onDownNow(settings, known.Server)
	if !mayReturn(known.State) || policy == Withdraw() {
		return false, time.Time{}
	}
	if policy.unlimited {
		return true, time.Time{}
	}
	since, ok := c.down[known.Server]
	if !ok {
		since = now
		c.down[known.Server] = now
	}
	until = since.Add(policy.grace)
	if !until.After(now) {
		return false, time.Time{}
	}
	return true, until
}

// awaitLocked calls changed at the end of the next grace period.
func (c *catalog) awaitLocked(end, now time.Time) {
	if c.graceEnds != nil {
		c.graceEnds.Stop()
		c.graceEnds = nil
	}
	if !end.IsZero() {
		c.graceEnds = time.AfterFunc(end.Sub(now), c.changed)
	}
}

// makeLocked makes a listing of the offers.
func (c *catalog) makeLocked(settings *settings) *listing {
	l := &listing{settings: settings}
	known := c.offers
	names := c.opts.namesNow(settings)
	tools, prompts := namer{names: names, shared: c.shared[0]}, namer{names: names, shared: c.shared[1]}
	var allTools, allPrompts []owner
	uris := map[string]bool{} // true: several servers have it
	for i := range known {
		for j := range known[i].Tools {
			t := &known[i].Tools[j]
			o := owner{t.Server, t.OriginalName}
			if problem := schemaProblem(t); problem != "" {
				l.withhold("tool", o, "its "+problem)
				continue
			}
			allTools = append(allTools, o)
		}
		for j := range known[i].Prompts {
			p := &known[i].Prompts[j]
			allPrompts = append(allPrompts, owner{p.Server, p.OriginalName})
		}
		countURIs(uris, known[i].Resources, func(r *mcpvisor.Resource) string { return r.URI })
	}
	templates := map[string]bool{}
	for i := range known {
		countURIs(templates, known[i].Templates, func(t *mcpvisor.ResourceTemplate) string { return t.URITemplate })
	}
	tools.add(allTools)
	prompts.add(allPrompts)
	for kind, n := range map[string]*namer{"tool": &tools, "prompt": &prompts} {
		for name, owners := range n.conflict {
			for _, o := range owners {
				l.withhold(kind, o, conflictReason(name, owners))
			}
		}
	}
	slices.SortFunc(l.withheld, func(a, b Withheld) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	l.promptByName, l.toolByName = prompts.byName, make(map[string]string, len(tools.byName))
	for name, o := range tools.byName {
		l.toolByName[name] = o.qualified()
	}
	encoded := map[string]*encodedPart{}
	l.headers = map[string]*headerparams.Table{}
	for i := range known {
		if known[i].seen.listed {
			part := c.encodeLocked(l, &known[i], &tools, &prompts, uris, templates)
			encoded[known[i].Server], l.headers[known[i].Server] = part, part.headers
		}
	}
	c.encoded = encoded
	for _, one := range []struct {
		list   *list
		member string
	}{{&l.tools, "tools"}, {&l.prompts, "prompts"}, {&l.resources, "resources"}, {&l.templates, "resourceTemplates"}} {
		one.list.member = one.member
		one.list.finish(c.opts.pageSize)
	}
	return l
}

// countURIs notes which URIs several servers have.
func countURIs[T any](uris map[string]bool, entries []T, uriOf func(*T) string) {
	for i := range entries {
		uri := uriOf(&entries[i])
		_, again := uris[uri]
		uris[uri] = again
	}
}

func (l *listing) withhold(kind string, o owner, reason string) {
	l.withheld = append(l.withheld, Withheld{Server: o.server, Name: o.name, Kind: kind, Reason: reason})
}

// encodeLocked appends the entries of one server to the lists. What is encoded already is used
// again.
func (c *catalog) encodeLocked(l *listing, known *offered, tools, prompts *namer, uris, templates map[string]bool) *encodedPart {
	part := &encodedPart{seen: known.seen, tools: map[string]entry{}, prompts: map[string]entry{}, resources: map[string]entry{}, templates: map[string]entry{}}
	old := c.encoded[known.Server]
	if old == nil || old.seen.version != part.seen.version {
		old = &encodedPart{headers: new(headerparams.Table)}
		old.headers.Replace(known.Tools)
	}
	part.headers = old.headers
	for i := range known.Tools {
		t := &known.Tools[i]
		o := owner{t.Server, t.OriginalName}
		name := tools.name(o)
		if tools.byName[name] != o {
			continue
		}
		l.tools.add(old.tools, part.tools, o, name, func() any {
			tool := *t.Definition
			tool.Name = name
			if tool.InputSchema == nil {
				tool.InputSchema = anyObject
			}
			return visibleTool(tool)
		})
	}
	for i := range known.Prompts {
		p := &known.Prompts[i]
		o := owner{p.Server, p.OriginalName}
		name := prompts.name(o)
		if prompts.byName[name] != o {
			continue
		}
		l.prompts.add(old.prompts, part.prompts, o, name, func() any {
			prompt := *p.Definition
			prompt.Name = name
			return visiblePrompt(prompt)
		})
	}
	listedURI := func(shared map[string]bool, r resource.Name) string {
		if shared[r.URI] {
			return r.Qualified()
		}
		return r.URI
	}
	for i := range known.Resources {
		r := &known.Resources[i]
		uri := listedURI(uris, resource.Name{Server: r.Server, URI: r.URI})
		l.resources.add(old.resources, part.resources, owner{r.Server, r.URI}, uri, func() any {
			listed := *r.Definition
			listed.URI = uri
			return visibleResource(listed)
		})
	}
	for i := range known.Templates {
		t := &known.Templates[i]
		uri := listedURI(templates, resource.Name{Server: t.Server, URI: t.URITemplate})
		l.templates.add(old.templates, part.templates, owner{t.Server, t.URITemplate}, uri, func() any {
			listed := *t.Definition
			listed.URITemplate = uri
			return visibleTemplate(listed)
		})
	}
	return part
}

// add appends an entry, encoded now or before. What cannot be encoded is left out.
func (l *list) add(old, made map[string]entry, k key, name string, definition func() any) {
	e, ok := old[name]
	if !ok || e.key != k {
		text, err := message.Result(definition(), false)
		if err != nil {
			return
		}
		e = entry{k, text}
	}
	made[name] = e
	l.entries = append(l.entries, e)
}

// finish computes what is needed of the list as a whole.
func (l *list) finish(pageSize int) {
	hash := sha256.New()
	for i := range l.entries {
		hash.Write(l.entries[i].json)
		hash.Write([]byte{'\n'})
	}
	l.digest = base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:9])
	if len(l.entries) <= pageSize {
		all := l.encode(l.entries, "")
		l.whole = [2][]byte{all, message.Modern(all)}
	}
}

// listHead and listTail surround the entries of a page. Lists change when a server does, and
// belong to the peer that asked.
const (
	listHead = `{"`
	listTail = `],"ttlMs":0,"cacheScope":"` + cacheScope + `"}`
)

// encode returns the result of a page.
func (l *list) encode(entries []entry, next string) []byte {
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

// page returns the result for a cursor. A cursor names the last entry of its page, so that no
// entry is left out or listed twice because others came or went meanwhile.
func (l *list) page(cursor string, size int, modern bool) (json.RawMessage, error) {
	whole := l.whole[0]
	if modern {
		whole = l.whole[1]
	}
	if cursor == "" && whole != nil {
		return whole, nil
	}
	part, next, err := page(l.entries, func(e *entry) key { return e.key }, cursor, size)
	if err != nil {
		return nil, err
	}
	if text := l.encode(part, next); !modern {
		return text, nil
	} else {
		return message.Modern(text), nil
	}
}

// changes returns which lists differ between two listings.
func (l *listing) changes(other *listing) (changed lists) {
	if l == other {
		return 0
	}
	return changedDigests(l.digests(), other.digests())
}

// digests are those of the lists, resources and templates together.
func (l *listing) digests() [3]string {
	return [3]string{l.tools.digest, l.prompts.digest, l.resources.digest + l.templates.digest}
}

func changedDigests(a, b [3]string) (changed lists) {
	for i, kind := range []lists{toolList, promptList, resourceList} {
		if a[i] != b[i] {
			changed |= kind
		}
	}
	return changed
}
