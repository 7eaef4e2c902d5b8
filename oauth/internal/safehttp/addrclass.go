package safehttp

import (
	"net/netip"
	"strings"
)

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
