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
	title       string
	gateway     func() clients.Status
	program     api.Program
}

// WithGateway shows the clients of a gateway of the same program: status is called for each
// request, such as Status of a clients.Registry. Default, and for nil: there is no gateway.
func WithGateway(status func() clients.Status) Option {
	return func(o *options) { o.gateway = status }
}

// WithProgram adds to the page what its program knows and the client does not. Default: nothing.
func WithProgram(p api.Program) Option { return func(o *options) { o.program = p } }

// WithControls allows actions: calls of tools, and restarts, stops and starts of servers. Every user who can open
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
// yet to register them, is ready: name them here if that is too early. By default a server that is asleep or
// resting, or that an operator has stopped, counts as ready; one that is named here does not. Whatever is required, a
// client whose Close has begun is not ready. A request with ?server= overrides it; a client that
// may not see the page can name only servers of this option.
func WithRequired(servers ...string) Option {
	return func(o *options) { o.required, o.requiredSet = slices.Clone(servers), true }
}

// WithTitle sets the name of the page, such as the name of the service. Default:
// "mcpvisor".
func WithTitle(title string) Option {
	return func(o *options) {
		if o.title = strings.TrimSpace(title); o.title == "" {
			o.title = "mcpvisor"
		}
	}
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
