package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
)

// Settings are what can change while a gateway serves; see [SettingsVar]. The zero value changes
// nothing.
type Settings struct {
	// Names say how tools and prompts are listed. nil: as [WithNames] says.
	Names *Names
	// OnDown says what happens to the entries of a server that is down, and OnDownOf says it of
	// single servers. nil, and for servers without one: as [WithOnDown] says.
	OnDown   *OnDown
	OnDownOf map[string]OnDown
	// ShareOf says of single servers for how many clients one incarnation runs. For servers without
	// one: as [WithShare] says.
	ShareOf map[string]Share
	// MaxCopies is how many copies of servers ([ShareClient]) run for all clients, of all gateways
	// with these settings, and MaxCopiesOfPrincipal how many for one principal; clients without a
	// token are one. A request that needs one more is refused. 0 or less: [DefaultMaxCopies] and
	// [DefaultMaxCopiesOfPrincipal].
	MaxCopies, MaxCopiesOfPrincipal int
	// MaxResultBytes is the length above which the text of a result is shortened. 0 or less: as
	// [WithMaxResultBytes] says.
	MaxResultBytes int
	// Profiles are what parts of the servers are offered, by the name of the profile.
	Profiles map[string]Profile
}

// SettingsVar holds the [Settings] of gateways, and changes them while the gateways serve: sessions
// continue, and are told which lists have changed. The zero value has the zero Settings. Safe for
// concurrent use. It must not be copied.
type SettingsVar struct {
	current atomic.Pointer[settings]
	copies  copyCount

	elicitations elicited.Store

	mu       sync.Mutex // guards watchers
	watchers map[settingsWatcher]bool
}

// settingsWatcher is told that the settings have changed.
type settingsWatcher interface{ settingsChanged() }

// settings are checked Settings. They do not change.
type settings struct {
	Settings
	rules map[string]*offer.Rules // of the profiles
}

// Set changes the settings. If they are not valid it changes nothing, and returns an error that
// names each problem.
func (v *SettingsVar) Set(s Settings) error {
	made := &settings{Settings: s, rules: map[string]*offer.Rules{}}
	made.Profiles, made.OnDownOf, made.ShareOf = nil, maps.Clone(s.OnDownOf), maps.Clone(s.ShareOf)
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
	v.mu.Lock()
	told := slices.Collect(maps.Keys(v.watchers))
	v.mu.Unlock()
	for _, w := range told { // without mu: one that joins holds its own
		w.settingsChanged()
	}
	return nil
}

// Has reports whether there is a profile of that name.
func (v *SettingsVar) Has(profile string) bool { return v.load().rules[profile] != nil }

// load returns the settings of this moment.
func (v *SettingsVar) load() *settings {
	if s := v.current.Load(); s != nil {
		return s
	}
	return &noSettings
}

var noSettings settings

// watch reports changes to w until ignore.
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

// WithSettings lets v change what a gateway offers, also later. Several gateways may have the same
// v, and those of one facade.Client should: v counts what all of them have, and tells whose an interaction at
// a URL is. Default: nothing changes, and there are no profiles.
func WithSettings(v *SettingsVar) Option {
	return func(o *options) {
		if o.settings = v; v == nil {
			o.settings = new(SettingsVar)
		}
	}
}

// listedBy are the terms that follow from some settings.
type listedBy struct {
	settings *settings
	terms    listing.Terms
}

// terms are how entries are listed at this moment.
func (g *gateway) terms() *listing.Terms {
	s := g.opts.settings.load()
	if known := g.listed.Load(); known != nil && known.settings == s {
		return &known.terms
	}
	names := g.opts.names
	if s.Names != nil {
		names = s.Names
	}
	made := &listedBy{settings: s, terms: listing.Terms{Rules: g.rulesOf(s), Names: names.naming(), Keep: func(server string) (time.Duration, bool) {
		policy := g.opts.onDownNow(s, server)
		return policy.grace, policy.unlimited
	}}}
	g.listed.Store(made)
	return &made.terms
}

// onDownNow is what happens to the entries of a server that is down.
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
