package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"sync"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// WebSocket is an entry of type "ws": a server behind a WebSocket.
type WebSocket struct {
	// URL begins with ws:// or wss://.
	URL string
	// Headers belong to the request that opens the WebSocket. They may hold secrets.
	Headers map[string]string
	// MaxMessageBytes is the longest message that may be read: Limits.MaxMessageBytes.
	MaxMessageBytes int
}

// WithWebSocket sets how servers behind WebSockets are reached. transport is called for each
// entry of type "ws", and returns what becomes ServerSpec.Transport; its Kind is "ws" and its
// Target the URL without secrets, unless it sets them. Without WithWebSocket such an entry is a
// problem: this package links no library for WebSockets.
//
// Make the option once in a program and use it for each reading: for equal values it then
// returns one Transport, so that specs of equal entries are equal, as facade.Client.Apply
// requires.
func WithWebSocket(transport func(WebSocket) *mcpvisor.Transport) Option {
	var mu sync.Mutex
	made := map[[sha256.Size]byte]*mcpvisor.Transport{} // one for each value that was ever read
	memo := func(w WebSocket) *mcpvisor.Transport {
		text, _ := json.Marshal(w) // texts and a number
		key := sha256.Sum256(text)
		mu.Lock()
		defer mu.Unlock()
		t := made[key]
		if t == nil {
			w.Headers = maps.Clone(w.Headers)
			t = named(transport(w), w.URL)
			made[key] = t
		}
		return t
	}
	return func(p *parser) {
		if p.webSocket = memo; transport == nil {
			p.webSocket = nil
		}
	}
}

// named returns a copy of t that has a Kind, and as Target the URL without its secrets, where
// t names none.
func named(t *mcpvisor.Transport, address string) *mcpvisor.Transport {
	if t == nil {
		return nil
	}
	own := *t
	own.Kind = cmp.Or(own.Kind, "ws")
	if u, err := url.Parse(address); err == nil {
		own.Target = cmp.Or(own.Target, secret.RedactURL(u))
	}
	return &own
}

// isWebSocket reports whether an entry is of type "ws", or has no type and such a URL.
func (e *entry) isWebSocket() bool {
	kind := plainKind(e.kind)
	return kind == "ws" || kind == "websocket" || kind == "" && hasWebSocketScheme(e.http.URL)
}

func hasWebSocketScheme(address string) bool {
	lower := strings.ToLower(address)
	return strings.HasPrefix(lower, "ws://") || strings.HasPrefix(lower, "wss://")
}

// setWebSocket makes the transport of an entry of type "ws". at is the value of "type", or the
// entry.
func (e *entry) setWebSocket(at *hujson.Value) {
	u, err := url.Parse(e.http.URL)
	switch {
	case e.p.webSocket == nil:
		e.failServer(at, "is behind a WebSocket, which this program does not reach; use the mcpvisor command, or config.WithWebSocket")
		return
	case e.http.Auth != nil:
		e.failServer(at, "has %q, which is for HTTP and not for WebSockets; put a token into \"headers\"", e.authKey())
		return
	case e.refuseConnection(e.fail, at):
		return
	case err != nil:
		e.failServer(at, "has a \"url\" that cannot be parsed; write it as wss://host/path")
		return
	case !hasWebSocketScheme(e.http.URL) || u.Host == "":
		e.failServer(at, "is behind a WebSocket, so its \"url\" must begin with ws:// or wss:// and name a host")
		return
	}
	// The rules for headers are those of HTTP.
	probe := mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: "http://localhost", Headers: e.http.Headers}}
	if err := probe.Validate(); err != nil {
		e.failServer(at, "cannot be reached: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", "; "), "http transport: "))
		return
	}
	e.p.secrets = append(e.p.secrets, webSocketSecrets(u, e.http.Headers)...)
	t := e.p.webSocket(WebSocket{URL: e.http.URL, Headers: e.http.Headers, MaxMessageBytes: e.spec.WithDefaults().Limits.MaxMessageBytes})
	if e.spec.Transport = t; t == nil {
		e.failServer(at, "is behind a WebSocket, and config.WithWebSocket returned no transport")
	}
}

// webSocketSecrets returns what a server must not show: what HTTP servers must not, either.
func webSocketSecrets(u *url.URL, headers map[string]string) []string {
	var found secret.List
	found.AddEndpoint(u)
	for name, value := range headers {
		found.AddHeader(name, value)
	}
	return found.Values()
}
