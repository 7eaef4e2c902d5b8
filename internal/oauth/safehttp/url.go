package safehttp

import (
	"net/netip"
	"net/url"
	"strings"
)

// Origin returns the scheme and authority of a URL (RFC 6454).
func Origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// HostPort returns host:port of a URL in lower case. The port defaults to that of
// the scheme.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// Redacted returns a URL without user, query and fragment, which may hold
// secrets. It is fit for errors and logs.
func Redacted(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.ForceQuery, v.Fragment, v.RawFragment = nil, "", false, "", ""
	return v.String()
}

// IsLoopback reports whether a host is "localhost" or a loopback address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
