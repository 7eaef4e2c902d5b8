// Package loopback tells whether an HTTP request came from this machine, and under which name.
package loopback

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// IsName reports whether a Host header names this machine: localhost, a name below it, or a
// loopback address. A page of another site that a browser shows has another one, even if its
// name leads to a loopback address (DNS rebinding).
func IsName(host string) bool {
	name := HostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}

// HostName returns the name or address of a Host header, in lower case, without port,
// brackets and the dot at its end.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// IsForwarded reports whether a proxy seems to forward a request. Its connection comes from this machine, the
// user may be anywhere. It is best effort: a proxy may say nothing. One of nginx without further configuration says
// nothing, and asks in HTTP/1.0.
func IsForwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Real-Ip", "Via", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Host"} {
		if _, set := r.Header[name]; set {
			return true
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return !r.ProtoAtLeast(1, 1)
}

// IsLocal reports whether a connection came in on a loopback address or on a unix socket, by
// the context of its request. It did not if its address is not known, as under FastCGI.
func IsLocal(ctx context.Context) bool {
	switch local := ctx.Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return local.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
