package gateway

import "net/http"

// ProfilePath is the wildcard of a pattern of http.ServeMux that names the profile of a request:
//
//	mux.Handle("/mcp", handler)
//	mux.Handle("/mcp/{"+gateway.ProfilePath+"}", handler)
const ProfilePath = "profile"

// gatewayFor returns the gateway of a client whose token and path name profiles; empty: none. A status
// other than 0 refuses it. A client whose token names a profile has no other one, and does not learn
// which ones there are.
func (s *Server) gatewayFor(ofToken, ofPath string) (g *gateway, status int, why string) {
	name := ofPath
	if ofToken != "" {
		name = ofToken
	}
	known := s.gateway.opts.settings.load().rules
	switch {
	case ofPath != "" && (name != ofPath || known[ofPath] == nil):
		return nil, http.StatusNotFound, "there is no profile of that name here"
	case name == "" || name == s.gateway.opts.profile:
		return s.gateway, 0, ""
	case known[name] == nil:
		return nil, http.StatusForbidden, "the gateway does not have the profile of this token; ask its owner"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g = s.profiles[name]; g == nil {
		o := s.gateway.opts
		o.profile = name
		g = newGatewayOf(s.gateway.client, o, s.gateway.subscriptions, s.gateway.results, s.gateway.tasks, s.gateway.holds)
		s.profiles[name] = g
	}
	return g, 0, ""
}

// ownerName is whose a session is: a session of one profile is none of another.
func ownerName(principal, profile string) string {
	if profile == "" {
		return principal
	}
	return principal + "\x00" + profile
}
