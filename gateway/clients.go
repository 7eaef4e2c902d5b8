package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// WithClients sets the registry that counts the clients. Several gateways can share one. Default: a
// registry for this gateway alone. [Server.Status] describes its clients.
func WithClients(r *clients.Registry) Option {
	return func(o *options) {
		if r != nil {
			o.clients = r
		}
	}
}

// keyOf returns the key of a session over HTTP in the registry.
func keyOf(n nonce) string { return "session " + string(n[:]) }

// infoOf describes a client over HTTP, without what the client says of itself.
func (x *httpExchange) infoOf(protocol string) clients.Info {
	return clients.Info{Protocol: protocol, Principal: x.principal.name, Profile: x.gateway.opts.profile, Transport: "http"}
}

// openModern returns the client of a request of 2026-07-28, which belongs to no session. Requests with
// the same principal, profile, name and version are of one client.
func (x *httpExchange) openModern(client json.RawMessage) *clients.Client {
	info := x.infoOf(modernVersion)
	info.Name, info.Version = readClientInfo(client)
	key := "client " + strings.Join([]string{info.Principal, info.Profile, message.Shorten(info.Name), message.Shorten(info.Version)}, "\x00")
	return x.server.gateway.opts.clients.Open(key, info)
}

// readClientInfo reads the name and the version of a client.
func readClientInfo(said json.RawMessage) (name, version string) {
	name, _ = jsonscan.ReadString(jsonscan.Member(said, "name"))
	version, _ = jsonscan.ReadString(jsonscan.Member(said, "version"))
	return name, version
}

// introduce tells the registry the name and version of a client of a Transport. It does so once: in
// initialize, or in the first request of 2026-07-28 that has them.
func (s *session) introduce(said json.RawMessage, protocol string) {
	if s.peer == nil || s.introduced.Load() {
		return
	}
	name, version := readClientInfo(said)
	if name == "" {
		return
	}
	s.introduced.Store(true)
	s.peer.Introduce(clients.Info{Name: name, Version: version, Protocol: protocol})
}

// tokenWriter counts the requests that are refused for want of a valid token.
type tokenWriter struct {
	http.ResponseWriter
	clients *clients.Registry
}

// WriteHeader implements http.ResponseWriter.
func (w tokenWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		w.clients.Refuse(clients.RefusedToken)
	}
	w.ResponseWriter.WriteHeader(status)
}

// refuse counts a refused request.
func (x *httpExchange) refuse(why clients.Refusal) { x.server.gateway.opts.clients.Refuse(why) }

// offer describes what the clients of the gateway can see and call.
func (g *gateway) offer() clients.Offer {
	l := g.catalog.Get()
	return clients.Offer{Profile: g.opts.profile, Tools: l.Tools.Len(), Prompts: l.Prompts.Len(), Resources: l.Resources.Len(), Templates: l.Templates.Len(), Withheld: len(l.Withheld), Servers: l.Servers()}
}

// outcomeOf returns how a request has ended.
func outcomeOf(r *request, err error) clients.Outcome {
	switch {
	case r.canceled.Load():
		return clients.OutcomeCanceled
	case err != nil:
		return clients.OutcomeError
	case r.failed:
		return clients.OutcomeFailed
	}
	return clients.OutcomeAnswered
}
