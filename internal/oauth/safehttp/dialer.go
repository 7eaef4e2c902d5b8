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

var errNoConn = errors.New("the host's dial function returned neither a connection nor an error")

// checkedDialer checks the peer of each connection before a request is sent over
// it. All fields are set by New and never change.
type checkedDialer struct {
	trusted []*trustedAddress
	proxy   func(*http.Request) (*url.URL, error) // nil: no proxy
	dial    hostcall.DialFunc                     // without checks; nil: a RoundTripper of the host connects
}

// target is where one request goes. Each redirect has a target of its own. It
// travels from RoundTrip to the dial function in the context of the request,
// because net/http offers no other way.
type target struct {
	host    string
	trusted *trustedAddress // nil: a server named the address
	proxied bool            // a proxy makes the connection; set before the dial
}

// targetKey is the key of a *target in the context of a request.
type targetKey struct{}

// install makes t check its connections. t is a clone of original.
func (d *checkedDialer) install(t, original *http.Transport) {
	dial, dialTLS := hostcall.DialFuncs(t)
	// net/http calls Proxy before it dials, so the dial functions know whether a proxy
	// connects.
	if proxy := t.Proxy; proxy != nil {
		d.proxy = func(req *http.Request) (*url.URL, error) {
			return hostcall.Value("Proxy function", func() (*url.URL, error) { return proxy(req) })
		}
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			u, err := d.proxy(req)
			if to, ok := req.Context().Value(targetKey{}).(*target); ok {
				to.proxied = u != nil
			}
			return u, err
		}
	}
	// Only a dialer of our own can check before it connects. With a dial function of the
	// host, checkAfterDial closes the connection before anything is sent. The functions of
	// http.DefaultTransport are not the host's: a host that wants others sets HTTP.Client.
	if dial == nil || original == http.DefaultTransport {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, ControlContext: d.checkBeforeConnect}).DialContext
	}
	// classOf dials without checks. DialTLSContext, if set, replaces DialContext for https.
	d.dial = dial
	t.DialContext, t.DialTLSContext = d.checkAfterDial(dial), d.checkAfterDial(dialTLS)
}

// checkBeforeConnect is net.Dialer.ControlContext: it checks a resolved address
// before the socket connects to it.
func (d *checkedDialer) checkBeforeConnect(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, ok := ctx.Value(targetKey{}).(*target)
	if !ok || to.proxied || to.trusted != nil {
		return nil
	}
	ip, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil //nolint:nilerr // not an IP address
	}
	return d.check(ctx, to.host, classify(ip.Addr()), ip.Addr().String())
}

// checkAfterDial wraps a dial function so that it closes a connection to a peer
// that is not allowed. A proxy is responsible for its own connections.
func (d *checkedDialer) checkAfterDial(dial hostcall.DialFunc) hostcall.DialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		to, ok := ctx.Value(targetKey{}).(*target)
		if err != nil || conn == nil || !ok || to.proxied {
			return conn, err
		}
		class, address, known := classifyConn(conn)
		switch {
		case !known: // for example a Unix socket, which the host's dial function chose
			return conn, nil
		case to.trusted != nil:
			to.trusted.record(class)
			return conn, nil
		}
		if err := d.check(ctx, to.host, class, address); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}
}

// newTarget returns the target of a request to u. It fails if the text of the
// host already shows that the address is not allowed.
func (d *checkedDialer) newTarget(ctx context.Context, u *url.URL) (*target, error) {
	to := &target{host: u.Host, trusted: d.trustedAt(u)}
	if to.trusted != nil {
		return to, nil
	}
	if class, known := classifyHost(u.Hostname()); known {
		return to, d.check(ctx, to.host, class, u.Hostname())
	}
	return to, nil
}

// trustedAt returns the trusted address with the origin of u; nil if a server
// named u.
func (d *checkedDialer) trustedAt(u *url.URL) *trustedAddress {
	for _, a := range d.trusted {
		if strings.EqualFold(a.url.Scheme, u.Scheme) && HostPort(a.url) == HostPort(u) {
			return a
		}
	}
	return nil
}

// check returns an error if a server must not name an address of that class. The
// error is a [Temporary] if the class of a trusted address is not known now.
func (d *checkedDialer) check(ctx context.Context, host string, class addrClass, address string) error {
	if class == classPublic {
		return nil
	}
	if address != host {
		host += " (" + address + ")"
	}
	// One trusted address that allows the class is enough. If none does and one could not
	// be checked, the answer is open.
	var unknown error
	for _, a := range d.trusted {
		if class == classInvalid {
			break // no trusted address allows it
		}
		own, err := d.classOf(ctx, a)
		switch {
		case err != nil:
			unknown = fmt.Errorf("%s: %w", a.url.Host, err)
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

// classOf returns the class of a trusted address: from its text, from a recent
// connection, or from a new one. It fails if the class is not known now, for
// example because the server is down. Then only public addresses are allowed.
func (d *checkedDialer) classOf(ctx context.Context, a *trustedAddress) (addrClass, error) {
	if class, known := classifyHost(a.url.Hostname()); known && class != classInvalid {
		return class, nil
	}
	if class, known := a.recent(); known {
		return class, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trustedDialTimeout)
	defer cancel()
	if d.dial == nil {
		return resolve(ctx, a.url.Hostname())
	}
	// A server behind a proxy counts as public: its address is not known here.
	if d.proxy != nil {
		req := (&http.Request{Method: http.MethodGet, URL: a.url, Host: a.url.Host, Header: http.Header{}}).WithContext(ctx)
		if proxy, err := d.proxy(req); err != nil || proxy != nil {
			return classPublic, err
		}
	}
	// Without a target in its context the connection is not checked.
	conn, err := d.dial(context.WithValue(ctx, targetKey{}, nil), "tcp", HostPort(a.url))
	if conn == nil {
		return classPublic, cmp.Or(err, errNoConn)
	}
	defer func() { _ = conn.Close() }() // nothing is sent over it
	if class, _, known := classifyConn(conn); known {
		a.record(class)
		return class, nil
	}
	return classPublic, nil
}

// resolve returns the class of the first address of a name. It is for clients
// whose RoundTripper connects on its own.
func resolve(ctx context.Context, host string) (addrClass, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return classPublic, err
	}
	if len(ips) == 0 {
		return classPublic, errors.New("the name has no address")
	}
	return classify(ips[0]), nil
}
