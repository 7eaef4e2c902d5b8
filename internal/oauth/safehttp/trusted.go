package safehttp

import (
	"net/url"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth/clock"
)

// trustedLifetime is how long the class of a trusted address is remembered.
const trustedLifetime = time.Minute

// trustedAddress is an address that the host configured.
type trustedAddress struct {
	url *url.URL // never changes

	mu    sync.Mutex
	class addrClass // guarded by mu
	seen  time.Time // when class was recorded; zero: never. Guarded by mu
}

// trustedAddresses returns the addresses that a spec names: the MCP server, the
// issuer and the token endpoint of an identity provider.
func trustedAddresses(server *url.URL, spec *mcpvisor.HTTP) []*trustedAddress {
	// The server comes first, because its class usually decides.
	all := []*trustedAddress{{url: server}}
	add := func(text string) {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			all = append(all, &trustedAddress{url: u})
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

// record remembers the class that a connection to the address showed.
func (a *trustedAddress) record(c addrClass) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.class, a.seen = c, time.Now()
}

// recent returns the recorded class. known is false if it is too old or missing.
func (a *trustedAddress) recent() (c addrClass, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.class, !a.seen.IsZero() && clock.Elapsed(a.seen, time.Now()) < trustedLifetime
}
