package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

const (
	// anchorLife is how long it is remembered from where an anchor is reached.
	anchorLife = time.Minute
	// anchorWait bounds the connection that finds it out.
	anchorWait = 10 * time.Second
)

// dialer makes the connections to authorization servers. What a server names may
// lead into networks that only this host can reach (server-side request forgery),
// so that each address is looked at when it is known: after its name was resolved,
// for each redirect, and before anything is sent.
//
// Addresses that the host itself names are its anchors: that of the server, an
// issuer, an identity provider. They are connected to wherever they lead, and what
// a server names may lead to where an anchor is.
type dialer struct {
	anchors []*anchor
	proxy   func(*http.Request) (*url.URL, error) // nil: none
	dial    guard.DialFunc                        // unchecked; nil: a RoundTripper of the host's connects
}

// anchor is an address that the host named.
type anchor struct {
	url *url.URL

	mu    sync.Mutex
	reach reach
	seen  time.Time // zero: never
}

// anchorsOf are the addresses that a spec names.
func anchorsOf(server *url.URL, spec *mcpvisor.HTTP) []*anchor {
	all := []*anchor{{url: server}}
	add := func(text string) {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			all = append(all, &anchor{url: u})
		}
	}
	if o := spec.Auth; o != nil {
		add(o.Issuer)
		if o.Enterprise != nil {
			add(o.Enterprise.TokenEndpoint)
		}
	}
	return all
}

// hop is one request, redirected ones included. It travels in the context.
type hop struct {
	host    string
	anchor  *anchor // nil: a server named the address
	proxied bool    // set before the connection is made
}

type hopKey struct{}

// check makes the connections of t checked ones, which is a clone of another
// transport.
func (d *dialer) check(t, of *http.Transport) {
	standard := t.DialContext == nil && t.Dial == nil || //nolint:staticcheck // net/http still calls it
		of == http.DefaultTransport && guard.IsFuncNamed(t.DialContext, "net.(*Dialer).DialContext-fm")
	guard.Transport(t)
	d.proxy = t.Proxy
	if proxy := t.Proxy; proxy != nil {
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			u, err := proxy(req)
			if h, ok := req.Context().Value(hopKey{}).(*hop); ok {
				h.proxied = u != nil
			}
			return u, err
		}
	}
	if standard {
		t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, ControlContext: d.control}).DialContext
	}
	d.dial = t.DialContext
	t.DialContext, t.DialTLSContext = d.checked(t.DialContext), d.checked(t.DialTLSContext)
}

// control looks at an address before it is connected to.
func (d *dialer) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	h, ok := ctx.Value(hopKey{}).(*hop)
	if !ok || h.proxied || h.anchor != nil {
		return nil
	}
	ip, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil //nolint:nilerr // no address of IP
	}
	return d.permits(ctx, h.host, reachOf(ip.Addr()), ip.Addr().String())
}

// checked is a dial function that hands out no connection to where a server must
// not point. Behind a proxy that is for the proxy to look after.
func (d *dialer) checked(dial guard.DialFunc) guard.DialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		h, ok := ctx.Value(hopKey{}).(*hop)
		if err != nil || !ok || h.proxied {
			return c, err
		}
		r, address, known := reachOfConn(c)
		switch {
		case !known:
			return c, nil
		case h.anchor != nil:
			h.anchor.note(r)
			return c, nil
		}
		if err := d.permits(ctx, h.host, r, address); err != nil {
			_ = c.Close()
			return nil, err
		}
		return c, nil
	}
}

// hopTo is the request to an address. It fails if the text of the address already
// says that it leads to where it must not.
func (d *dialer) hopTo(ctx context.Context, u *url.URL) (*hop, error) {
	h := &hop{host: u.Host, anchor: d.anchorAt(u)}
	if h.anchor != nil {
		return h, nil
	}
	if r, known := reachOfName(u.Hostname()); known {
		return h, d.permits(ctx, h.host, r, u.Hostname())
	}
	return h, nil
}

// anchorAt is the anchor at an address; nil if a server has named it.
func (d *dialer) anchorAt(u *url.URL) *anchor {
	for _, a := range d.anchors {
		if strings.EqualFold(a.url.Scheme, u.Scheme) && hostPort(a.url) == hostPort(u) {
			return a
		}
	}
	return nil
}

// permits reports as an error that an address must not be named. The error may pass
// if it cannot be found out at the moment.
func (d *dialer) permits(ctx context.Context, host string, r reach, address string) error {
	if r == reachPublic {
		return nil
	}
	if address != host {
		host += " (" + address + ")"
	}
	var unknown error
	for _, a := range d.anchors {
		if r == reachNowhere {
			break // none permits it
		}
		own, err := d.reachOf(ctx, a)
		switch {
		case err != nil:
			unknown = fmt.Errorf("%s: %w", a.url.Host, err)
		case own.permits(r):
			return nil
		}
	}
	if unknown != nil {
		return &passing{err: fmt.Errorf("the address %s is %s, and at the moment it cannot be found out whether the server is reached by such a one; if that is meant, set Issuer: %w", shown(host), r, unknown)}
	}
	return &barred{fmt.Errorf("the address %s is %s, and the server itself is not reached by such a one; if that is meant, set Issuer", shown(host), r)}
}

// reachOf is from where an anchor is reached: what its text says, what was seen a
// moment ago, or what a connection shows. The error means that it is not known, as
// when the anchor is down: then nothing but a public address is permitted.
func (d *dialer) reachOf(ctx context.Context, a *anchor) (reach, error) {
	if r, known := reachOfName(a.url.Hostname()); known && r != reachNowhere {
		return r, nil
	}
	if r, known := a.last(); known {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(guard.Trace(ctx), anchorWait)
	defer cancel()
	if d.dial == nil {
		return resolved(ctx, a.url.Hostname())
	}
	if d.proxy != nil {
		req := (&http.Request{Method: http.MethodGet, URL: a.url, Host: a.url.Host, Header: http.Header{}}).WithContext(ctx)
		if proxy, err := d.proxy(req); err != nil || proxy != nil {
			return reachPublic, err
		}
	}
	// Without a hop in its context the connection is not looked at.
	c, err := guard.Wait(context.WithValue(ctx, hopKey{}, nil), "dial function", func(c net.Conn) { _ = c.Close() },
		func(ctx context.Context) (net.Conn, error) { return d.dial(ctx, "tcp", hostPort(a.url)) })
	if err != nil {
		return reachPublic, err
	}
	defer func() { _ = c.Close() }()
	if r, _, known := reachOfConn(c); known {
		a.note(r)
		return r, nil
	}
	return reachPublic, nil
}

// resolved is the reach of a name of the host's, where the host itself connects.
func resolved(ctx context.Context, host string) (reach, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return reachPublic, err
	}
	if len(ips) == 0 {
		return reachPublic, errors.New("its name has no address")
	}
	return reachOf(ips[0]), nil
}

func (a *anchor) note(r reach) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reach, a.seen = r, time.Now()
}

func (a *anchor) last() (r reach, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reach, !a.seen.IsZero() && lived(a.seen, time.Now()) < anchorLife
}
