package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/loopback"
)

// anyPort is the end of an origin that stands for all ports of its host.
const anyPort = ":*"

// ParseOrigin reads the origin of a web site, as in "http://localhost:6274". It returns the origin as browsers send it, in lower case
// and without the default port. The port may be *, for pages of a tool that takes any free port. No other part may:
// what one operator of a page can choose, all of them can.
func ParseOrigin(text string) (string, error) {
	site, anyOf := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(text, "/")), anyPort)
	u, err := url.Parse(site)
	switch {
	case text == "*" || text == "null":
		return "", fmt.Errorf("%q would let every web page use the servers; name the sites, as in \"http://localhost:6274\" or \"http://localhost:*\"", text)
	case strings.Contains(site, "*"):
		return "", fmt.Errorf("in the origin %q only the port may be *; name each site", text)
	case err != nil || u.Scheme == "" || u.Host == "" || site != u.Scheme+"://"+u.Host || anyOf && u.Port() != "" || strings.ContainsFunc(site, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }):
		return "", fmt.Errorf("%q is not the origin of a web site; write scheme, host and port only, as in \"http://localhost:6274\"", text)
	case anyOf:
		return site + anyPort, nil
	case u.Scheme == "http":
		site = strings.TrimSuffix(site, ":80")
	case u.Scheme == "https":
		site = strings.TrimSuffix(site, ":443")
	}
	return site, nil
}

// HasOrigin reports whether an origin that a browser has sent is one of those that [ParseOrigin] has returned.
func HasOrigin(allowed []string, origin string) bool {
	return slices.ContainsFunc(allowed, func(one string) bool {
		site, anyOf := strings.CutSuffix(one, anyPort)
		port, ok := strings.CutPrefix(origin, site)
		return !anyOf && origin == one || anyOf && ok && (port == "" || port[0] == ':' && len(port) > 1 && strings.Trim(port[1:], "0123456789") == "")
	})
}

// ParseHost reads a name that the Host header of requests may have, with or without a port, which does not count.
func ParseHost(text string) (string, error) {
	name := loopback.HostName(text)
	switch {
	case strings.Contains(text, "*"):
		return "", fmt.Errorf("%q would let web pages reach the servers by names that lead here (DNS rebinding); write the whole name, as in \"host.docker.internal\"", text)
	case name == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/,@?#", r) }):
		return "", fmt.Errorf("%q is not the name of a host; write it without scheme and path, as in \"host.docker.internal\"", text)
	}
	return name, nil
}
