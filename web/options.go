package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/loopback"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Option configures a [Handler]. Of options that set the same thing the last one counts.
type Option func(*options)

// options are what New was given. They do not change afterwards.
type options struct {
	controls    bool
	token       string
	tokenSet    bool
	ownAuth     bool
	hosts       []string
	metrics     http.Handler
	required    []string
	requiredSet bool
	leaving     func() bool
	title       string
	attention   func() []api.Attention
	terms       func(string) string
	mask        func(server, text string) string
	gateway     func() clients.Status
	fleet       func() api.FleetStatus
}

// WithFleet shows the fleet that the client is a node of: which nodes there are, and which of them
// runs each server. status is called for each request that asks for it, by several goroutines at
// once, and must not block. Default, and for nil: the client is no node of a fleet.
func WithFleet(status func() api.FleetStatus) Option {
	return func(o *options) { o.fleet = status }
}

// WithGateway shows the clients of a gateway of the same program: status is called for each
// request, such as Status of a clients.Registry. Default, and for nil: there is no gateway.
func WithGateway(status func() clients.Status) Option {
	return func(o *options) { o.gateway = status }
}

// WithControls allows actions: calls of tools and restarts of servers. Every user who can open
// the page can then do both, so combine it with [WithToken] or with an authentication of
// the host. Default: the handler is read only, and every POST gets 403.
func WithControls() Option { return func(o *options) { o.controls = true } }

// WithToken requires a secret for everything but the probes /healthz and /readyz: as
// "Authorization: Bearer TOKEN", or once by a browser: in the form that it gets, or as
// ?token=TOKEN in the address of the page. The token then becomes a session cookie and is removed
// from the address. An empty token is an error of [New]. Default: no token, and then only
// connections on loopback addresses are answered.
func WithToken(token string) Option {
	return func(o *options) { o.token, o.tokenSet = token, true }
}

// WithOwnAuthentication says that the host authenticates requests before they reach the
// handler. Without a token the handler then also answers on addresses other than loopback.
// Default: it does not.
func WithOwnAuthentication() Option { return func(o *options) { o.ownAuth = true } }

// WithHosts sets the names that the Host header may have besides those of loopback, without
// ports; "*" accepts any name. All others get 421, so that a foreign page cannot reach the
// handler through a name that it makes resolve to this machine. Accepting any name requires
// a token, or an authentication of the host. Default: loopback names only.
func WithHosts(names ...string) Option {
	return func(o *options) { o.hosts = slices.Clone(names) }
}

// WithMetrics serves a handler under /metrics, such as that of Prometheus. Default, and for
// nil: /metrics answers 404.
func WithMetrics(metrics http.Handler) Option { return func(o *options) { o.metrics = metrics } }

// WithRequired names the servers that /readyz requires to be ready. With no names it requires
// none. Default: all registered servers, so that a client without servers, such as one that has
// yet to register them, is ready: name them here if that is too early. Whatever is required, a
// client whose Close has begun is not ready. A request with ?server= overrides it; a client that
// may not see the page can name only servers of this option.
func WithRequired(servers ...string) Option {
	return func(o *options) { o.required, o.requiredSet = slices.Clone(servers), true }
}

// WithLeaving lets /readyz answer as after the Close of the client from when leaving returns true: a host that ends
// its work first says so, and should get no new one. It is called by several goroutines at once.
func WithLeaving(leaving func() bool) Option { return func(o *options) { o.leaving = leaving } }

// WithTitle sets the name of the page, such as the name of the service. Default:
// "mcpvisor".
func WithTitle(title string) Option {
	return func(o *options) {
		if o.title = strings.TrimSpace(title); o.title == "" {
			o.title = "mcpvisor"
		}
	}
}

// WithAttention adds what the host itself knows to the list of what needs attention, such as a
// configuration file that cannot be used. list is called for each status, by several goroutines
// at once, and must not block. Default, and for nil: nothing is added.
func WithAttention(list func() []api.Attention) Option {
	return func(o *options) { o.attention = list }
}

// WithTerms passes every text about what failed, and what to do about it, through a function:
// causes, events, errors, and what needs attention. The library's texts name what a Go program
// sets, such as Timeouts.Start; a host whose users set something else replaces these names. f is
// called by several goroutines at once. Default, and for nil: texts stay as they are.
func WithTerms(f func(text string) string) Option {
	return func(o *options) { o.terms = f }
}

// WithMask passes what servers say about their tools through a function, which hides the secrets that it knows a server to
// repeat. It gets texts, and JSON. f is called by several goroutines at once. Default, and for nil: texts stay as they are.
func WithMask(f func(server, text string) string) Option {
	return func(o *options) { o.mask = f }
}

// anyHost is the name in WithHosts that accepts all names.
const anyHost = "*"

func (o *options) validate() error {
	if o.tokenSet && o.token == "" {
		return errors.New("web: the token is empty; pass a secret to WithToken, or leave the option out")
	}
	for i, name := range o.hosts {
		plain := loopback.HostName(name)
		o.hosts[i] = plain
		if plain == anyHost {
			if !o.tokenSet && !o.ownAuth {
				return errors.New("web: WithHosts(\"*\") accepts requests of any web page; add WithToken or WithOwnAuthentication, or name the hosts")
			}
			continue
		}
		if plain == "" || strings.ContainsAny(name, "/ *") {
			return fmt.Errorf("web: %q in WithHosts is not a host name; write it without scheme, port, path and \"*\"", name)
		}
	}
	return nil
}
