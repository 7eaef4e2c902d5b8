package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
)

// The types of package settings, under the names that they have here.
type (
	Settings    = settings.Settings
	Names       = settings.Names
	Prefix      = settings.Prefix
	OnDown      = settings.OnDown
	Share       = settings.Share
	Profile     = settings.Profile
	Annotations = settings.Annotations
	Filter      = mcpvisor.ToolFilter
)

// The values of package settings, under the names that they have here.
const (
	PrefixAlways, PrefixOnConflict, PrefixNever = settings.PrefixAlways, settings.PrefixOnConflict, settings.PrefixNever
	Keep, Withdraw                              = settings.Keep, settings.Withdraw
	ShareAll, ShareClient                       = settings.ShareAll, settings.ShareClient
)

// SettingsVar holds the [Settings] of gateways, and changes them while the gateways serve: sessions
// continue, and are told which lists have changed. The zero value has the zero Settings. Safe for
// concurrent use. It must not be copied.
type SettingsVar struct {
	current atomic.Pointer[checked]
	copies  copyCount

	legacyMu sync.Mutex // guards legacy, and use of its tenants
	legacy   map[*facade.Client]*tenant

	elicitations elicited.Store
	holdings     holdings
	tokens       atomic.Bool // a Handler with these settings has tokens, so that clients are different principals

	mu       sync.Mutex // guards watchers
	watchers map[settingsWatcher]bool
}

// settingsWatcher is told that the settings have changed.
type settingsWatcher interface{ settingsChanged() }

// checked are valid Settings. They never change.
type checked struct {
	Settings
	rules map[string]*offer.Rules // of the profiles
}

// Set changes the settings. If they are not valid it changes nothing, and returns an error that
// names each problem.
func (v *SettingsVar) Set(s Settings) error {
	made := &checked{Settings: s, rules: map[string]*offer.Rules{}}
	made.Profiles, made.OnDownOf, made.ShareOf = nil, maps.Clone(s.OnDownOf), maps.Clone(s.ShareOf)
	made.ResourceOrder = slices.Clone(s.ResourceOrder)
	if s.Names != nil {
		names := *s.Names
		made.Names = &names
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		profile := cloneProfile(s.Profiles[name])
		if err := validateProfile(name, &profile); err != nil {
			problems = append(problems, err)
		}
		made.rules[name] = offer.New(profile)
	}
	var wrongOrigins, wrongHosts error
	made.Origins, wrongOrigins = parseEach(s.Origins, settings.ParseOrigin)
	made.Hosts, wrongHosts = parseEach(s.Hosts, settings.ParseHost)
	if err := errors.Join(wrongOrigins, wrongHosts); err != nil {
		problems = append(problems, err)
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
func (v *SettingsVar) load() *checked {
	if s := v.current.Load(); s != nil {
		return s
	}
	return &noSettings
}

var noSettings checked

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
	settings *checked
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
	made := &listedBy{settings: s, terms: listing.Terms{Rules: g.rulesOf(s), Names: names, Order: s.ResourceOrder, Keep: func(server string) (time.Duration, bool) {
		policy := s.onDown(server)
		return max(time.Duration(policy), 0), policy < 0
	}}}
	g.listed.Store(made)
	return &made.terms
}

// WithNames sets how tools and prompts are listed. Default: for [Handler] the zero value of Names,
// for [Transport] the alias (mcpvisor.Alias), as in "mcp__server__tool".
func WithNames(n Names) Option { return func(o *options) { o.names = &n } }

// onDown returns what happens to the entries of a server that is down.
func (s *checked) onDown(server string) OnDown {
	if d, ok := s.OnDownOf[server]; ok {
		return d
	}
	if s.OnDown != nil {
		return *s.OnDown
	}
	return Keep
}

// shareNow returns whether clients share one incarnation of a server now.
func (o *options) shareNow(server string) Share {
	s := o.settings.load()
	if share, ok := s.ShareOf[server]; ok {
		return share
	}
	return s.Share
}

// sharesAll reports whether no server has copies.
func (o *options) sharesAll() bool {
	s := o.settings.load()
	return s.Share != ShareClient && len(s.ShareOf) == 0
}

// ProfileKey is the member of auth.TokenInfo.Extra in which a verifier of tokens
// ([WithTokenVerifier]) names the profile of the client, or several, a string as in [Token]. Without it the path decides.
const ProfileKey = "mcpvisor/profile"

// WithProfile names the profile of the sessions of a [Transport], and of those clients of a [Handler]
// whose token and path name none. The profile is one of the settings ([WithSettings]); while they
// do not have it, nothing is offered. Default: everything is offered.
func WithProfile(name string) Option { return func(o *options) { o.profile = name } }

func cloneProfile(p Profile) Profile {
	for _, f := range []*Filter{&p.Servers, &p.Tools, &p.Prompts, &p.Resources} {
		*f = Filter{Allow: slices.Clone(f.Allow), Deny: slices.Clone(f.Deny)}
	}
	return p
}

// maxPattern is the longest pattern, in bytes.
const maxPattern = 1000

func validateProfile(name string, p *Profile) error {
	var problems []error
	if name == "" || strings.ContainsAny(name, "/?#%, \t\r\n") {
		problems = append(problems, fmt.Errorf("the name of profile %s cannot be part of a path; use letters, digits, - and _", message.Quote(name)))
	}
	check := func(what string, f Filter, never, why string) {
		for _, pattern := range slices.Concat(f.Allow, f.Deny) {
			switch {
			case pattern == "":
				problems = append(problems, fmt.Errorf("profile %s: a pattern of %s is empty; remove it, or write \"*\" for all", message.Quote(name), what))
			case len(pattern) > maxPattern:
				problems = append(problems, fmt.Errorf("profile %s: a pattern of %s has %d bytes; use at most %d", message.Quote(name), what, len(pattern), maxPattern))
			case strings.ContainsAny(pattern, never):
				problems = append(problems, fmt.Errorf("profile %s: the pattern %s of %s matches nothing, because %s", message.Quote(name), message.Quote(pattern), what, why))
			}
		}
	}
	const special = "only * and ? are special in a pattern"
	check("servers", p.Servers, "/[]{}", "a server has no slash in its name, and "+special)
	check("tools", p.Tools, "[]{}", special)
	check("prompts", p.Prompts, "[]{}", special)
	check("resources", p.Resources, "", "")
	return errors.Join(problems...)
}

// rulesOf returns what the clients of a gateway are offered by these settings; nil: everything.
func (g *gateway) rulesOf(s *checked) *offer.Rules {
	if g.opts.profile == "" {
		return nil
	}
	if r := s.rules[g.opts.profile]; r != nil {
		return r
	}
	return offer.Nothing
}
