// Package metadata finds the authorization server of an MCP server and says how
// to get tokens from it.
//
// The search follows the authorization chapter of MCP (2025-11-25, "Authorization
// Server Location"):
//
//  1. A refused request carries a challenge, the header WWW-Authenticate, which
//     may name the address of the metadata document ([ParseChallenge]; RFC 6750,
//     section 3, and RFC 9728, section 5.1).
//  2. The protected resource metadata of the MCP server names its authorization
//     servers (RFC 9728).
//  3. The authorization server metadata names the endpoints (RFC 8414, or OpenID
//     Connect Discovery 1.0).
//
// A server of 2025-03-26 publishes no protected resource metadata. Its own origin
// is then the authorization server ([Discover]).
package metadata
