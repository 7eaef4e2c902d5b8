package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
)

// Settings can change while a gateway serves; see [SettingsVar]. The zero value changes
// nothing.
type Settings struct {
	// Names say how tools and prompts are listed. If it is nil, [WithNames] applies.
	Names *Names
	// OnDown says what happens to the entries of a server that is down, and OnDownOf does so for
	// single servers. Without a value, [WithOnDown] applies.
	OnDown   *OnDown
	OnDownOf map[string]OnDown
	// ShareOf says for single servers whether clients share one incarnation. Without a value,
	// [WithShare] applies.
	ShareOf map[string]Share
	// MaxCopies bounds the copies of servers ([ShareClient]) for all clients of all gateways with
	// these settings, and MaxCopiesOfPrincipal those for one principal. All clients without a token
	// are one principal. A request that needs one more is refused. 0 or less: [DefaultMaxCopies] and
	// [DefaultMaxCopiesOfPrincipal].
	MaxCopies, MaxCopiesOfPrincipal int
	// MaxHeldByPrincipal bounds what one principal makes the gateways with these settings hold, in bytes: its active
	// sessions over HTTP, subscriptions with their URIs, bodies of requests, answers over 64 KiB and notifications that
	// it has not read, shortened results, and held calls. Without tokens all peers are one principal. A session, and a
	// principal, may hold at most as much as is still free, so that others find room. What would exceed it is
	// refused; a lower bound takes nothing away. 0 or less: [DefaultMaxHeldByPrincipal].
	MaxHeldByPrincipal int64
	// MaxHeldByAll bounds what all principals make them hold, in bytes. 0 or less: a quarter of the
	// memory limit of the process (GOMEMLIMIT, or that of its cgroup), or 1 GiB without one.
	MaxHeldByAll int64
	// MaxResultBytes bounds the text in the result of a tool, in bytes as it is encoded in JSON. A
	// longer text is cut, and a link to a resource with the whole text follows it. That resource is kept
	// for 10 minutes, and only the same principal with the same profile can read it. At most 64 MiB are
	// kept for one principal and 256 MiB for all; the oldest are dropped first. A text that is too long to
	// be kept is not shortened. Structured content, images and embedded resources are never shortened. 0
	// or less: nothing is shortened.
	MaxResultBytes int
	// ResourceOrder names the servers that come first, in this order, if several servers have a resource or a
	// template for it. Without one of them a URI that does not name its server is refused.
	ResourceOrder []string
	// Profiles are the parts of the servers that clients are offered, by the name of the profile.
	Profiles map[string]Profile
}

// SettingsVar holds the [Settings] of gateways, and changes them while the gateways serve: sessions
// continue, and are told which lists have changed. The zero value has the zero Settings. Safe for
// concurrent use. It must not be copied.
type SettingsVar struct {
	current atomic.Pointer[settings]
	copies  copyCount

	legacyMu sync.Mutex // guards legacy, and users and idle of its tenants
	legacy   map[*facade.Client]*tenant

	elicitations elicited.Store
	holdings     holdings
	tokens       atomic.Bool // a Handler with these settings has tokens, so that clients are different principals

	mu       sync.Mutex // guards watchers
	watchers map[settingsWatcher]bool
}

// settingsWatcher is told that the settings have changed.
type settingsWatcher interface{ settingsChanged() }

// settings are checked Settings. They never change.
type settings struct {
	Settings
	rules map[string]*offer.Rules // of the profiles
}

// Set changes the settings. If they are not valid it changes nothing, and returns an error that
// names each problem.
func (v *SettingsVar) Set(s Settings) error {
	made := &settings{Settings: s, rules: map[string]*offer.Rules{}}
	made.Profiles, made.OnDownOf, made.ShareOf = nil, maps.Clone(s.OnDownOf), maps.Clone(s.ShareOf)
	made.ResourceOrder = slices.Clone(s.ResourceOrder)
	if s.Names != nil {
		names := *s.Names
		made.Names = &names
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		profile := s.Profiles[name].clone()
		if err := profile.validate(name); err != nil {
			problems = append(problems, err)
		}
		made.rules[name] = profile.rules()
	}
	if len(problems) > 0 {
		return fmt.Errorf("gateway: %w", errors.Join(problems...))
	}
	v.current.Store(made)
	v.holdings.resize(v)
	v.tell()
	return nil
}

// tell tells all watchers.
func (v *SettingsVar) tell() {
	v.mu.Lock()
	told := slices.Collect(maps.Keys(v.watchers))
	v.mu.Unlock()
	for _, w := range told { // without mu: a watcher may call watch while it has its own mutex locked
		w.settingsChanged()
	}
}

// Has reports whether there is a profile of that name.
func (v *SettingsVar) Has(profile string) bool { return v.load().rules[profile] != nil }

// load returns the current settings.
func (v *SettingsVar) load() *settings {
	if s := v.current.Load(); s != nil {
		return s
	}
	return &noSettings
}

var noSettings settings

// watch tells w of changes until ignore.
func (v *SettingsVar) watch(w settingsWatcher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watchers == nil {
		v.watchers = map[settingsWatcher]bool{}
	}
	v.watchers[w] = true
}

func (v *SettingsVar) ignore(w settingsWatcher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.watchers, w)
}

// WithSettings lets v change what a gateway offers while it serves. Several gateways may have the same
// v, and gateways of one facade.Client should: v counts the copies of all of them, and knows which session
// an interaction at a URL belongs to. Default: nothing changes, and there are no profiles.
func WithSettings(v *SettingsVar) Option {
	return func(o *options) {
		if o.settings = v; v == nil {
			o.settings = new(SettingsVar)
		}
	}
}

// listedBy are the terms that were made of these settings.
type listedBy struct {
	settings *settings
	terms    listing.Terms
}

// terms returns how entries are listed now.
func (g *gateway) terms() *listing.Terms {
	s := g.opts.settings.load()
	if known := g.listed.Load(); known != nil && known.settings == s {
		return &known.terms
	}
	names := g.opts.names
	if s.Names != nil {
		names = s.Names
	}
	made := &listedBy{settings: s, terms: listing.Terms{Rules: g.rulesOf(s), Names: names.naming(), Order: s.ResourceOrder, Keep: func(server string) (time.Duration, bool) {
		policy := g.opts.onDownNow(s, server)
		return policy.grace, policy.unlimited
	}}}
	g.listed.Store(made)
	return &made.terms
}

// The defaults of [Settings].
const (
	DefaultMaxCopies            = 64
	DefaultMaxCopiesOfPrincipal = 32
	DefaultMaxHeldByPrincipal   = 256 << 20
)

// Prefix says when the name of a tool or prompt begins with that of its server.
type Prefix int

const (
	// PrefixAlways lists "server__tool". A name depends only on its server and its tool.
	PrefixAlways Prefix = iota
	// PrefixOnConflict lists "tool", and "server__tool" if several servers have had such a tool, or
	// if its name has "__". A name changes when another server with the same name comes, and does
	// not change back while the gateway runs. While it runs, a name of a server that has gone is
	// given to no other one.
	PrefixOnConflict
	// PrefixNever lists "tool". A tool that several servers have is withheld: rename one of them,
	// or hide it (mcpvisor.ServerSpec.Tools). [Status] has the conflicts.
	PrefixNever
)

// Names say how tools and prompts are listed.
type Names struct {
	// Prefix says whether a name begins with that of its server. Default: PrefixAlways.
	Prefix Prefix
	// HostPrefix is the prefix that the host puts before each name, as in "mcp__mcpvisor__". Names are
	// shortened by its length, so that prefix and name together fit the 64 characters that model
	// providers accept. At most 40 bytes count. Default: none.
	HostPrefix string
}

// WithNames sets how tools and prompts are listed. Default: for [Handler] the zero value of Names,
// for [Transport] the alias (mcpvisor.Alias), as in "mcp__server__tool".
func WithNames(n Names) Option { return func(o *options) { o.names = &n } }

// naming returns the names for package listing; nil: aliases.
func (n *Names) naming() *listing.Naming {
	if n == nil {
		return nil
	}
	return &listing.Naming{Prefix: listing.Prefix(n.Prefix), HostPrefix: n.HostPrefix}
}

// OnDown says how long the entries of a server stay in the lists while it is down and its policy starts
// it again: [Keep], [Grace] or [Withdraw]. The entries of a server that was given up, parked or
// unregistered, or that needs an authorization, always leave the lists. The zero value is Withdraw.
type OnDown struct {
	grace     time.Duration
	unlimited bool
}

// Keep keeps the entries as long as the server may return by itself: the lists stay the same
// over a restart, byte for byte, if the server offers the same again.
func Keep() OnDown { return OnDown{unlimited: true} }

// Grace keeps the entries for d after the server went down. A negative d means 0.
func Grace(d time.Duration) OnDown { return OnDown{grace: max(d, 0)} }

// Withdraw takes the entries from the lists as soon as the server is down.
func Withdraw() OnDown { return OnDown{} }

// WithOnDown sets what happens to the entries of a server that is down. Without names it applies to all
// servers. With names it applies to those servers, and takes precedence there. Default: [Keep].
func WithOnDown(d OnDown, servers ...string) Option {
	return func(o *options) {
		if len(servers) == 0 {
			o.onDown = d
			return
		}
		if o.onDownOf == nil {
			o.onDownOf = map[string]OnDown{}
		}
		for _, server := range servers {
			o.onDownOf[server] = d
		}
	}
}

// onDownNow returns what happens now to the entries of a server that is down.
func (o *options) onDownNow(s *settings, server string) OnDown {
	if d, ok := s.OnDownOf[server]; ok {
		return d
	}
	if d, ok := o.onDownOf[server]; ok {
		return d
	}
	if s.OnDown != nil {
		return *s.OnDown
	}
	return o.onDown
}

// Share says whether the clients of a gateway share one incarnation of a server.
type Share int

const (
	// ShareAll: one incarnation serves all clients.
	ShareAll Share = iota
	// ShareClient: each client has an incarnation of its own, a copy. It is for servers that keep
	// something for their client, such as an open page or a login. The lists are those of the
	// server that is registered, the same for all clients; that incarnation gets no calls.
	//
	// A copy starts with the first request of its client that needs it. The request waits for the
	// copy as for a server that is down ([WithMaxWait]). A copy ends with the session or connection
	// of its client, and when the server is replaced, given up, removed or hidden by a profile. In a
	// [Handler] it also ends when its client has had no request and no stream for
	// HTTPLimits.SessionIdle. A client of 2026-07-28 over HTTP has no session: all clients with one
	// token are one, and without tokens their requests are refused.
	ShareClient
)

// WithShare sets whether clients share one incarnation of a server. Without names it applies to all
// servers. With names it applies to those servers, and takes precedence there. Default: [ShareAll].
func WithShare(s Share, servers ...string) Option {
	return func(o *options) {
		if len(servers) == 0 {
			o.share = s
			return
		}
		if o.shareOf == nil {
			o.shareOf = map[string]Share{}
		}
		for _, server := range servers {
			o.shareOf[server] = s
		}
	}
}

// shareNow returns whether clients share one incarnation of a server now.
func (o *options) shareNow(server string) Share {
	if s, ok := o.settings.load().ShareOf[server]; ok {
		return s
	}
	if s, ok := o.shareOf[server]; ok {
		return s
	}
	return o.share
}

// sharesAll reports whether no server has copies.
func (o *options) sharesAll() bool {
	return o.share == ShareAll && len(o.shareOf) == 0 && len(o.settings.load().ShareOf) == 0
}
