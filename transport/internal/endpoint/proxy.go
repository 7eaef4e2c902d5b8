package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// proxyRefusal is the error of a proxy that rejected the CONNECT request for an https
// server.
type proxyRefusal struct {
	proxy  string // host:port
	status int
}

// Error implements error.
func (e *proxyRefusal) Error() string {
	return fmt.Sprintf("the proxy %s answered CONNECT with %s", e.proxy, statusText(e.status))
}

type proxyResponse = func(ctx context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error

// withProxyRefusal returns a hook for http.Transport.OnProxyConnectResponse. The hook
// first calls hostHook, the application's own hook, and then returns a *proxyRefusal for a
// rejected CONNECT. Without it the error of net/http does not mention the proxy.
func withProxyRefusal(hostHook proxyResponse) proxyResponse {
	return func(ctx context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error {
		if hostHook != nil {
			if err := hostcall.Call("OnProxyConnectResponse", func() error { return hostHook(ctx, proxy, req, resp) }); err != nil {
				return err
			}
		}
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &proxyRefusal{proxy: hostPort(proxy), status: resp.StatusCode}
	}
}

// proxyRefusedError makes the error of a request whose proxy rejected the connection. The
// server has not seen the request.
func (e *Endpoint) proxyRefusedError(refused *proxyRefusal) *HTTPError {
	httpErr := e.notSentError(fmt.Sprintf("the proxy %s refused to connect to %s: %s", refused.proxy, e.HostPort, statusText(refused.status)), "", refused)
	switch refused.status {
	case http.StatusProxyAuthRequired:
		httpErr.Kind, httpErr.CauseKind, httpErr.Permanent = mcpvisor.ErrAuthRequired, supervisor.CauseAuth, true
		httpErr.Hint = "put the proxy's user and password into the proxy URL (HTTPS_PROXY)"
	case http.StatusForbidden:
		httpErr.Hint = "allow this address in the proxy, or exempt it from the proxy (NO_PROXY)"
	default:
		httpErr.Hint = "check that the proxy can reach that address, or exempt it from the proxy (NO_PROXY)"
	}
	return httpErr
}

// proxyUnreachableError makes the error of a request whose proxy cannot be reached.
func (e *Endpoint) proxyUnreachableError(err error) *HTTPError {
	name := ""
	var dial *net.OpError
	var dns *net.DNSError
	if connecting := dialError(err); errors.As(connecting.Err, &dial) && dial.Addr != nil {
		name = dial.Addr.String() + " "
	} else if errors.As(err, &dns) {
		name = dns.Name + " "
	}
	return e.notSentError("the proxy "+name+"for "+e.HostPort+" cannot be reached", "check the proxy settings (HTTPS_PROXY, HTTP_PROXY)", err)
}

// statusText returns an HTTP status with its name, as in "HTTP 404 Not Found".
func statusText(code int) string {
	return "HTTP " + strings.TrimSpace(strconv.Itoa(code)+" "+http.StatusText(code))
}
