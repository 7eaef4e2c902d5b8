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

// addrClass says from where an IP address can be reached.
type addrClass int

const (
	classPublic    addrClass = iota // from the internet
	classPrivate                    // from its own network: RFC 1918, 4193, 6598, 2544
	classLinkLocal                  // from the same link: RFC 3927, 4291; metadata services of clouds live here
	classLoopback                   // from this machine
	classInvalid                    // not the address of a server, for example multicast
)

// String returns the class with an article, for errors.
func (c addrClass) String() string {
	return [...]string{"a public address", "a private address", "a link-local address", "a loopback address", "not the address of a server"}[c]
}

// allows reports whether a server in class c may name an address in another
// class. A server on this machine or on the same link may use an authorization
// server in the private network around it.
func (c addrClass) allows(other addrClass) bool {
	switch other {
	case classPublic:
		return true
	case classInvalid:
		return false
	case classPrivate:
		return c == classPrivate || c == classLinkLocal || c == classLoopback
	case classLinkLocal, classLoopback:
	}
	return c == other
}

// specialPrefixes are special-purpose networks (RFC 6890) that package netip has
// no method for.
var specialPrefixes = []struct {
	netip.Prefix
	class addrClass
}{
	{netip.MustParsePrefix("0.0.0.0/8"), classLoopback}, // Linux connects to this machine
	{netip.MustParsePrefix("100.64.0.0/10"), classPrivate},
	{netip.MustParsePrefix("192.0.0.0/24"), classPrivate},
	{netip.MustParsePrefix("198.18.0.0/15"), classPrivate},
	{netip.MustParsePrefix("240.0.0.0/4"), classInvalid},
	{netip.MustParsePrefix("::/96"), classLoopback},
	{netip.MustParsePrefix("64:ff9b:1::/48"), classPrivate}, // local-use NAT64 (RFC 8215)
	{netip.MustParsePrefix("fec0::/10"), classPrivate},
}

// embeddedIPv4 are IPv6 prefixes whose addresses hold an IPv4 address, from the
// given byte on.
var embeddedIPv4 = []struct {
	netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64 (RFC 6052)
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4 (RFC 3056)
}

// classify returns the class of an IP address.
func classify(ip netip.Addr) addrClass {
	// ::ffff:127.0.0.1 and fe80::1%eth0 are the same addresses in another form.
	ip = ip.Unmap().WithZone("")
	switch {
	case !ip.IsValid(), ip.IsMulticast():
		return classInvalid
	case ip.IsLoopback(), ip.IsUnspecified():
		return classLoopback
	case ip.IsLinkLocalUnicast():
		return classLinkLocal
	case ip.IsPrivate():
		return classPrivate
	}
	for _, p := range specialPrefixes {
		if p.Contains(ip) {
			return p.class
		}
	}
	for _, p := range embeddedIPv4 {
		if p.Contains(ip) {
			b := ip.As16()
			return classify(netip.AddrFrom4([4]byte(b[p.offset : p.offset+4])))
		}
	}
	return classPublic
}

// classifyHost returns the class that the text of a host shows. known is false
// for a name that has to be resolved first.
func classifyHost(host string) (c addrClass, known bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".") // "localhost." is fully qualified
	if ip, err := netip.ParseAddr(host); err == nil {
		return classify(ip), true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, section 6.3
		return classLoopback, true
	}
	// Resolvers read 127.1 and 0x7f000001 as addresses. The last label of a name is
	// never a number.
	if isNumber(host[strings.LastIndexByte(host, '.')+1:]) {
		return classInvalid, true
	}
	return classPublic, false
}

// isNumber reports whether the last label of a host makes the host an IPv4
// address for browsers and resolvers.
func isNumber(label string) bool {
	digits := "0123456789"
	if rest, hex := strings.CutPrefix(label, "0x"); hex {
		label, digits = rest, digits+"abcdef"
	}
	return strings.Trim(label, digits) == ""
}
