package mcpvisor

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// HTTP describes a remote server that speaks Streamable HTTP, or HTTP+SSE, the
// transport that preceded it.
type HTTP struct {
	// URL is the MCP endpoint, http or https. Required.
	URL string
	// Headers are sent with every request to the endpoint's origin, and to no other
	// origin. They are treated as secrets: no log, error or status shows them. An
	// Authorization header together with Auth is an error. The headers
	// Accept, Content-Type, Content-Length, Last-Event-Id and Mcp-* are ignored, because
	// the protocol sets them.
	Headers map[string]string
	// Client, if set, supplies connections and cookies. Only its Transport and Jar are
	// used: Timeout would cut event streams, and redirects are followed within the origin
	// only. An *http.Transport is cloned, with its TLS and proxy settings. Requests to an
	// authorization server use the Transport and no Jar. Default: a clone of
	// http.DefaultTransport.
	Client *http.Client
	// Auth, if set, obtains OAuth tokens for the server; the zero OAuth is enough for most.
	// Default: no OAuth, only Headers.
	Auth *OAuth
	// SSE says that the server speaks HTTP+SSE (2024-11-05) and that URL is the address
	// of its event stream. Without it Streamable HTTP is tried first, and HTTP+SSE when
	// the server refuses initialize with status 400, 404 or 405. What works is
	// remembered for the next incarnation, so SSE only saves the first attempt.
	SSE bool
}

func (c *HTTP) clone() *HTTP {
	if c == nil {
		return nil
	}
	d := *c
	d.Headers, d.Auth = maps.Clone(c.Headers), c.Auth.Clone()
	return &d
}

func (c *HTTP) validate() (errs []error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		errs = append(errs, errors.New("http transport: URL cannot be parsed; write it as https://host/path"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		errs = append(errs, errors.New("http transport: URL must begin with http:// or https:// and name a host"))
	}
	for name, value := range c.Headers {
		if name == "" || strings.ContainsFunc(name, isNotTokenRune) || strings.ContainsFunc(value, isControlRune) {
			errs = append(errs, fmt.Errorf("http transport: header %q is not usable; names hold letters, digits and '-', no spaces or colons, values no line breaks or other control characters", name))
		}
	}
	return append(errs, c.Auth.validate(c)...)
}

// isNotTokenRune reports whether a header name must not hold r (RFC 9110, 5.6.2).
func isNotTokenRune(r rune) bool {
	alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// isControlRune reports whether a header value must not hold r (RFC 9110, 5.5).
func isControlRune(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
