package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
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

// Limits bound what one peer, which has one session, may cost this process and the other peers. A field
// of 0 or less has its default.
type Limits struct {
	// MaxRequests bounds the requests of the session that are in flight at once, from their
	// beginning until their answers are read. Further ones wait, and can be canceled meanwhile.
	// Default 128.
	MaxRequests int
	// MaxWaiting bounds the requests that wait because MaxRequests are in flight. The Write of a
	// further request waits until there is room; cancellations and other notifications pass.
	// Default 1,024.
	MaxWaiting int
	// MaxRequestBytes bounds the params and ids of all requests in flight and waiting, in bytes.
	// Beyond it Write waits, too. A single request may exceed it. Default 16 MiB.
	MaxRequestBytes int
	// MaxUnreadBytes bounds the answers that the peer has not read, in bytes. Beyond it the
	// session ends. A single answer may exceed it. Default 64 MiB.
	MaxUnreadBytes int
	// MaxQueuedBytes bounds the answers and questions that wait behind the message that is being
	// written while the peer reads nothing, in bytes. The session ends if more wait for StallTimeout
	// and the peer has read nothing meanwhile, not even 64 KiB of the message. A peer that reads
	// slowly keeps its session. Default 1 MiB.
	MaxQueuedBytes int
	// StallTimeout is how long the peer may read nothing while more than MaxQueuedBytes wait. Default 10 s.
	StallTimeout time.Duration
	// MaxSubscriptions bounds the subscriptions to resources of the session. Further ones are
	// refused. A subscription counts until its server has been told that it ended.
	// Default 1,000.
	MaxSubscriptions int
	// MaxListens bounds the subscriptions/listen requests of the session that are in flight at
	// once. They do not count for MaxRequests. Further ones are refused. Default 16.
	MaxListens int
	// MaxHeld bounds the held calls of a client of 2026-07-28: they stay in flight at servers of
	// earlier versions while the client answers a question. In a Handler it counts per principal,
	// as such a client has no session. The question of a further call is refused. Default 64.
	MaxHeld int
	// MaxHeldBytes bounds the params of held calls, their questions, and results that came before
	// the answers, in bytes. Default 16 MiB.
	MaxHeldBytes int
}

// DefaultStallTimeout is the default of [Limits].StallTimeout.
const DefaultStallTimeout = 10 * time.Second

// ErrPeerDoesNotRead is the error of a session that was ended because its answers were not
// read. See [Limits].
var ErrPeerDoesNotRead = errors.New("the peer does not read its answers")

// WithLimits sets what one session may cost.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l.withDefaults() } }

func (l Limits) withDefaults() Limits {
	setDefault(&l.MaxRequests, 128)
	setDefault(&l.MaxWaiting, 1_024)
	setDefault(&l.MaxRequestBytes, 16<<20)
	setDefault(&l.MaxUnreadBytes, 64<<20)
	setDefault(&l.MaxQueuedBytes, 1<<20)
	setDefault(&l.MaxSubscriptions, 1_000)
	setDefault(&l.MaxListens, 16)
	setDefault(&l.MaxHeld, 64)
	setDefault(&l.MaxHeldBytes, 16<<20)
	setDefault(&l.StallTimeout, DefaultStallTimeout)
	return l
}

// unreadError is the error of a session whose peer has left too much unread, even if it still reads.
func (l Limits) unreadError() error {
	return fmt.Errorf("gateway: %w: more than %d bytes wait for it; read faster, or raise Limits.MaxUnreadBytes", ErrPeerDoesNotRead, l.MaxUnreadBytes)
}

// stallError is the error of a session whose peer reads nothing.
func (l Limits) stallError() error {
	return fmt.Errorf("gateway: %w: more than %d bytes wait for it, and it has read nothing for %v; read, or raise Limits.MaxQueuedBytes or StallTimeout", ErrPeerDoesNotRead, l.MaxQueuedBytes, l.StallTimeout)
}

// HTTPLimits bound what the requests to a [Handler] may cost. A field of 0 or less has its default.
type HTTPLimits struct {
	// MaxBodyBytes bounds the body of one request. A larger one is answered with 413. Default
	// 16 MiB.
	MaxBodyBytes int
	// ReadTimeout is how long the body of a request may take. Default 30 s. The header is
	// read by the http.Server: set its ReadHeaderTimeout.
	ReadTimeout time.Duration
	// WriteTimeout is how long a peer may take to read a message, or 64 KiB of a larger one. A
	// peer that takes longer is disconnected, and its requests are canceled. Raise it for peers that
	// read less than about 20 KB/s: the system may wait for more room than 64 KiB. Default 30 s.
	WriteTimeout time.Duration
	// KeepAlive is the interval between the comments that keep a stream without messages open.
	// Default 25 s.
	KeepAlive time.Duration
	// SessionLifetime is how long the id of a session is valid after initialize. Default 30 days.
	SessionLifetime time.Duration
	// SessionIdle is how long a session keeps its subscriptions, its log level, its copies of servers
	// ([ShareClient]) and its notifications about tasks while it has no request in flight and no
	// stream. A principal keeps its copies as long while it has no request in flight. A session
	// without any of these costs nothing between its requests. Default 30 minutes.
	SessionIdle time.Duration

	// MaxInFlight is how many requests of one principal may be in flight at once. Without tokens
	// all requests belong to one principal. A request beyond it is answered with 429. Default
	// 1,024.
	MaxInFlight int
	// MaxSessions is how many sessions of one principal may be active at once. An active session has
	// a request in flight, a stream, a subscription, a log level, a task that is watched or a copy of
	// a server. A request that needs one more is answered with 429. Default 10,000.
	MaxSessions int
	// MaxBytes bounds the bodies of the requests in flight of one principal, in bytes. A request
	// beyond it is answered with 429. It also bounds the answers over 64 KiB that the principal has not read: an
	// answer beyond it becomes an error, which says that the request was carried out. One answer may exceed
	// it. Default 128 MiB.
	MaxBytes int
	// MaxTasks is how many tasks of one principal may be open at once. An open task has not ended,
	// and the principal has asked about it within the last 10 minutes. Beyond it, a call that may
	// become a task is refused. Default 1,000.
	MaxTasks int
}

// WithHTTPLimits sets what the requests to a [Handler] may cost. [WithLimits] bounds each session.
func WithHTTPLimits(l HTTPLimits) Option { return func(o *options) { o.http = l.withDefaults() } }

func (l HTTPLimits) withDefaults() HTTPLimits {
	setDefault(&l.MaxBodyBytes, 16<<20)
	setDefault(&l.ReadTimeout, 30*time.Second)
	setDefault(&l.WriteTimeout, 30*time.Second)
	setDefault(&l.KeepAlive, 25*time.Second)
	setDefault(&l.SessionLifetime, 30*24*time.Hour)
	setDefault(&l.SessionIdle, 30*time.Minute)
	setDefault(&l.MaxInFlight, 1024)
	setDefault(&l.MaxSessions, 10_000)
	setDefault(&l.MaxBytes, 128<<20)
	setDefault(&l.MaxTasks, 1000)
	return l
}

// wire returns the limits for the body and the answer of one request.
func (l HTTPLimits) wire() httpwire.Limits {
	return httpwire.Limits{MaxBodyBytes: l.MaxBodyBytes, ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout}
}

func setDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// holdings counts what the peers make the gateways with the same settings hold, in bytes: sessions,
// subscriptions, bodies of requests, large answers and notifications that wait to be read, shortened results,
// open questions of tasks and held calls. Each principal has a budget, and all of them are children of one. A session has a budget below that
// of its principal: without tokens all peers are one principal. No client may hold more than is still free, at each of the two
// levels (budget.Take). The zero value is ready for use.
type holdings struct {
	mu    sync.Mutex // guards the fields below
	total *budget.Budget
	of    map[string]*holder // by principal
}

// holder is the budget of a principal. It is kept while something refers to it, or is held.
type holder struct {
	*budget.Budget
	users int
}

// enter returns the budget of a principal. Each call needs one of leave.
func (v *SettingsVar) enter(principal string) *budget.Budget {
	h := &v.holdings
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &v.load().Settings
	if h.of == nil {
		h.total, h.of = budget.New(0, nil), map[string]*holder{}
		h.total.Resize(heldByAll(s))
	}
	p := h.of[principal]
	if p == nil {
		for name, idle := range h.of {
			if idle.users == 0 && idle.Used() == 0 {
				delete(h.of, name)
			}
		}
		p = &holder{Budget: budget.New(0, h.total)}
		p.Resize(heldByPrincipal(s))
		h.of[principal] = p
	}
	p.users++
	return p.Budget
}

// resize gives all budgets the bounds of the settings that v has now.
func (h *holdings) resize(v *SettingsVar) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := v.load()
	if h.total != nil {
		h.total.Resize(heldByAll(&s.Settings))
	}
	for _, p := range h.of {
		p.Resize(heldByPrincipal(&s.Settings))
	}
}

func heldByPrincipal(s *Settings) int64 {
	if s.MaxHeldByPrincipal > 0 {
		return s.MaxHeldByPrincipal
	}
	return settings.DefaultMaxHeldByPrincipal
}

// heldByAll is by default a quarter of the memory limit of the process; without one, a fixed number of bytes.
func heldByAll(s *Settings) int64 {
	if n := defaults.Within(math.MaxInt, 4); s.MaxHeldByAll <= 0 && n < math.MaxInt/4 {
		return int64(n)
	}
	return cmp.Or(max(s.MaxHeldByAll, 0), 1<<30)
}

// leave ends what enter has begun.
func (h *holdings) leave(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil {
		if p.users--; p.users == 0 && p.Used() == 0 {
			delete(h.of, principal)
		}
	}
}

// hold counts bytes of a principal that refers to no budget. Negative bytes are given back.
func (v *SettingsVar) hold(principal string, bytes int) bool {
	p := v.enter(principal)
	defer v.holdings.leave(principal)
	if bytes < 0 {
		p.Return(-bytes)
		return true
	}
	return p.Take(bytes)
}

const (
	// sessionCost is what an active session over HTTP takes, in bytes, and subscriptionCost what a subscription takes
	// in addition to its URI, which is kept uriCopies times: by the session, for it and its server, and as an update.
	sessionCost      = 8 << 10
	subscriptionCost = 4 << 10
	uriCopies        = 4
)

// manyHeld says that a peer holds too much.
const manyHeld = "the gateway keeps too much for this client, or for all of its principal: read what waits, end subscriptions, or use fewer sessions; the operator can raise max_held_mib_per_principal and max_held_mib of the gateway"

// subscriptionBytes is what a subscription to a URI takes.
func subscriptionBytes(uri string) int { return subscriptionCost + uriCopies*len(uri) }
