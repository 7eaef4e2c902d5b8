package safehttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
)

// trustedDialTimeout bounds the connection that finds out the class of a trusted
// address.
const trustedDialTimeout = 10 * time.Second

var errNoAddress = errors.New("the server has no address")

// destination is where one request goes. Each redirect has its own. It travels from
// RoundTrip to the dial function in the context of the request, because net/http
// offers no other way.
type destination struct {
	host    string
	trusted bool // the host configured the address; otherwise a server named it
	proxied bool // a proxy makes the connection; set before the dial
}

// destinationKey is the key of a *destination in the context of a request.
type destinationKey struct{}

// checkConnections makes t check the peer of each connection before a request is sent
// over it. standard says that t is a clone of http.DefaultTransport: its dial
// functions are not the host's. A host that wants others sets HTTP.Client.
func (c *Client) checkConnections(t *http.Transport, standard bool) {
	// net/http calls Proxy before it dials, so the check knows whether a proxy connects.
	if proxy := t.Proxy; proxy != nil {
		c.proxy = func(req *http.Request) (*url.URL, error) {
			return hostcall.Value("Proxy function", func() (*url.URL, error) { return proxy(req) })
		}
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			u, err := c.proxy(req)
			if to, ok := req.Context().Value(destinationKey{}).(*destination); ok {
				to.proxied = u != nil
			}
			return u, err
		}
	}
	// Only a dialer of our own can check before it connects. After a dial function of the
	// host, the connection is closed before anything is sent.
	dial, dialTLS := hostcall.DialFuncs(t)
	if dial == nil || standard {
		c.dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
			ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
				return c.checkPeer(ctx, address)
			}}).DialContext
		t.DialContext = c.dial
	} else {
		c.dial = dial
		t.DialContext = c.checkAfterDial(dial)
	}
	if dialTLS != nil { // it replaces DialContext for https
		t.DialTLSContext = c.checkAfterDial(dialTLS)
	}
}

// checkAfterDial wraps a dial function so that it closes a connection to a peer that is
// not allowed.
func (c *Client) checkAfterDial(dial hostcall.DialFunc) hostcall.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || conn == nil || conn.RemoteAddr() == nil {
			return conn, err
		}
		if err := c.checkPeer(ctx, conn.RemoteAddr().String()); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}
}

// checkPeer checks the resolved address of the peer of a connection. A proxy is
// responsible for its own connections.
func (c *Client) checkPeer(ctx context.Context, address string) error {
	to, ok := ctx.Value(destinationKey{}).(*destination)
	if !ok || to.proxied || to.trusted {
		return nil
	}
	ip, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil //nolint:nilerr // not an IP address, but for example a Unix socket, which the host's dial function chose
	}
	return c.check(ctx, to.host, classify(ip.Addr()), ip.Addr().String())
}

// newDestination returns the destination of a request to u. It fails if the text of u
// already shows that the address is not allowed.
func (c *Client) newDestination(ctx context.Context, u *url.URL) (*destination, error) {
	if err := c.checkScheme(u); err != nil {
		return nil, err
	}
	to := &destination{host: u.Host}
	for _, a := range c.trusted {
		if strings.EqualFold(a.Scheme, u.Scheme) && HostPort(a) == HostPort(u) {
			to.trusted = true
			return to, nil
		}
	}
	if class, known := classifyHost(u.Hostname()); known {
		return to, c.check(ctx, to.host, class, u.Hostname())
	}
	return to, nil
}

// check returns an error if a server must not name an address of that class. The
// error is a [Temporary] if the class of a trusted address is not known now.
func (c *Client) check(ctx context.Context, host string, class addrClass, address string) error {
	if class == classPublic {
		return nil
	}
	if address != host {
		host += " (" + address + ")"
	}
	// One trusted address that allows the class is enough. If none does and one could not
	// be checked, the answer is open.
	var unknown error
	for _, a := range c.trusted {
		if class == classInvalid {
			break // no trusted address allows it
		}
		own, err := c.classOf(ctx, a)
		switch {
		case err != nil:
			unknown = fmt.Errorf("%s: %w", a.Host, err)
		case own.allows(class):
			return nil
		}
	}
	host = display.Shorten(host, display.MaxQuoteBytes)
	if unknown != nil {
		return &Temporary{Err: fmt.Errorf("the address %s is %s, and it cannot be checked now whether the server itself is reached by such an address; if that is intended, set Issuer: %w", host, class, unknown)}
	}
	return &blockedError{fmt.Errorf("the address %s is %s, and the server itself is not reached by such an address; if that is intended, set Issuer", host, class)}
}

// classOf returns the class of a trusted address: from its text, or from a connection.
// It fails if the class is not known now, for example because the server is down. Then
// only public addresses are allowed.
func (c *Client) classOf(ctx context.Context, trusted *url.URL) (addrClass, error) {
	if class, known := classifyHost(trusted.Hostname()); known && class != classInvalid {
		return class, nil
	}
	// Without a destination in its context the connection is not checked.
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, destinationKey{}, nil), trustedDialTimeout)
	defer cancel()
	if c.dial == nil { // a RoundTripper of the host connects on its own
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", trusted.Hostname())
		if len(ips) == 0 {
			return classPublic, cmp.Or(err, errNoAddress)
		}
		return classify(ips[0]), nil
	}
	// A server behind a proxy counts as public: its address is not known here.
	if c.proxy != nil {
		req := (&http.Request{Method: http.MethodGet, URL: trusted, Host: trusted.Host, Header: http.Header{}}).WithContext(ctx)
		if proxy, err := c.proxy(req); err != nil || proxy != nil {
			return classPublic, err
		}
	}
	conn, err := c.dial(ctx, "tcp", HostPort(trusted))
	if err != nil || conn == nil {
		return classPublic, cmp.Or(err, errNoAddress)
	}
	defer func() { _ = conn.Close() }() // nothing is sent over it
	if remote := conn.RemoteAddr(); remote != nil {
		if ip, err := netip.ParseAddrPort(remote.String()); err == nil {
			return classify(ip.Addr()), nil
		}
	}
	return classPublic, nil
}
