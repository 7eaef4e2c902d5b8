package oauth

import (
	"fmt"
	"net/url"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth/callback"
	"github.com/mcpvisor/mcpvisor/internal/oauth/safehttp"
)

// defaultRedirectURI is used if the spec has no RedirectURL. Its port is chosen.
const defaultRedirectURI = "http://127.0.0.1/callback"

// redirectURI returns the redirect URI of an authorization request: that of the
// callback server, or without one the URI that the spec names, the registered one,
// or one with a free port. A loopback redirect URI may have any port (RFC 8252, section
// 7.3).
func (a *Authorizer) redirectURI(known *mcpvisor.Authorization, server *callback.Server) (string, error) {
	if server != nil {
		return server.RedirectURI(), nil
	}
	preferred, anyPort := a.preferredRedirectURI(known)
	if !anyPort {
		return preferred.String(), nil
	}
	uri, err := callback.FreePort(preferred)
	if err != nil {
		return "", fmt.Errorf("there is no free port for the redirect: %w; set RedirectURL", err)
	}
	return uri, nil
}

// preferredRedirectURI returns the redirect URI to try first: with the port that was
// registered, because some servers ignore section 7.3 of RFC 8252 and compare it.
// anyPort means that any free port will do.
func (a *Authorizer) preferredRedirectURI(known *mcpvisor.Authorization) (u *url.URL, anyPort bool) {
	text := a.config.RedirectURL
	if text == "" {
		text = defaultRedirectURI
	}
	u, _ = url.Parse(text) // the spec was validated
	if !safehttp.IsLoopback(u.Hostname()) || u.Scheme != "http" || u.Port() != "" && u.Port() != "0" {
		return u, false
	}
	if known != nil && known.RedirectURL != "" {
		if v, err := url.Parse(known.RedirectURL); err == nil && v.Hostname() == u.Hostname() && v.Path == u.Path && v.Port() != "" {
			return v, false
		}
	}
	return u, true
}

// listenForRedirect starts a callback server at the preferred redirect URI. If the
// port of an earlier registration is taken, it uses another one, unless the spec
// names the port.
func (a *Authorizer) listenForRedirect(known *mcpvisor.Authorization) (*callback.Server, error) {
	u, anyPort := a.preferredRedirectURI(known)
	if !safehttp.IsLoopback(u.Hostname()) || u.Scheme != "http" {
		return nil, fmt.Errorf("the redirect URL %s is not on this machine; pass the URL that arrives there to FinishAuthorization", safehttp.Redacted(u))
	}
	port := u.Port()
	if anyPort {
		port = "0"
	}
	s, err := callback.Listen(u, port)
	if _, free := a.preferredRedirectURI(nil); err != nil && free {
		s, err = callback.Listen(u, "0")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the redirect at %s: %w; free the port, or set another RedirectURL", u.Host, err)
	}
	return s, nil
}
