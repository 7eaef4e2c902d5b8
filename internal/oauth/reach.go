package oauth

import (
	"net"
	"net/netip"
	"strings"
)

// reach says from where an address can be reached.
type reach int

const (
	reachPublic    reach = iota
	reachPrivate         // from its own network: RFC 1918, 4193, 6598, 2544
	reachLinkLocal       // from the same link, as the metadata services of clouds are
	reachLoopback        // from this machine
	reachNowhere         // no address of a server
)

func (r reach) String() string {
	return [...]string{"a public address", "a private address", "a link-local address", "a loopback address", "no address of a server"}[r]
}

// permits reports whether a server that is reached by r may name addresses of
// another reach. A server on this machine, or on the same link, may be looked
// after by something in the private network around it.
func (r reach) permits(other reach) bool {
	switch other {
	case reachPublic:
		return true
	case reachNowhere:
		return false
	case reachPrivate:
		return r == reachPrivate || r == reachLinkLocal || r == reachLoopback
	case reachLinkLocal, reachLoopback:
	}
	return r == other
}

// prefixes that package netip does not know by name.
var prefixes = []struct {
	netip.Prefix
	reach reach
}{
	{netip.MustParsePrefix("0.0.0.0/8"), reachLoopback}, // Linux connects to this machine
	{netip.MustParsePrefix("100.64.0.0/10"), reachPrivate},
	{netip.MustParsePrefix("192.0.0.0/24"), reachPrivate},
	{netip.MustParsePrefix("198.18.0.0/15"), reachPrivate},
	{netip.MustParsePrefix("240.0.0.0/4"), reachNowhere},
	{netip.MustParsePrefix("::/96"), reachLoopback},
	{netip.MustParsePrefix("64:ff9b:1::/48"), reachPrivate}, // NAT64 of a network (RFC 8215)
	{netip.MustParsePrefix("fec0::/10"), reachPrivate},
}

// translated are prefixes of IPv6 that hold an address of IPv4 from some byte on.
var translated = []struct {
	netip.Prefix
	at int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64 (RFC 6052)
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4 (RFC 3056)
}

// reachOf is the reach of an address.
func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap().WithZone("")
	switch {
	case !ip.IsValid(), ip.IsMulticast():
		return reachNowhere
	case ip.IsLoopback(), ip.IsUnspecified():
		return reachLoopback
	case ip.IsLinkLocalUnicast():
		return reachLinkLocal
	case ip.IsPrivate():
		return reachPrivate
	}
	for _, p := range prefixes {
		if p.Contains(ip) {
			return p.reach
		}
	}
	for _, p := range translated {
		if p.Contains(ip) {
			b := ip.As16()
			return reachOf(netip.AddrFrom4([4]byte(b[p.at : p.at+4])))
		}
	}
	return reachPublic
}

// reachOfName is what the text of a host says about its reach. known is false for
// a name that has to be resolved.
func reachOfName(host string) (r reach, known bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return reachOf(ip), true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return reachLoopback, true
	}
	// Resolvers take 127.1 and 0x7f000001 for addresses; a name ends in no number.
	if isNumber(host[strings.LastIndexByte(host, '.')+1:]) {
		return reachNowhere, true
	}
	return reachPublic, false
}

// isNumber reports whether the last label of a host makes it an address of IPv4,
// as browsers and resolvers read it.
func isNumber(label string) bool {
	digits := "0123456789"
	if rest, hex := strings.CutPrefix(label, "0x"); hex {
		label, digits = rest, digits+"abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// reachOfConn is the reach of what a connection leads to; known is false for what
// has no address of IP.
func reachOfConn(c net.Conn) (r reach, address string, known bool) {
	a := c.RemoteAddr()
	if a == nil {
		return reachPublic, "", false
	}
	ip, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return reachPublic, "", false
	}
	return reachOf(ip.Addr()), ip.Addr().String(), true
}
