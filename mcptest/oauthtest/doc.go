// Package oauthtest is not part of the stable API. It is an OAuth authorization server for tests, and an MCP
// endpoint that accepts its tokens only.
//
// [NewServer] serves both on one loopback port. The server grants every
// authorization request without asking a user: a GET of the authorization URL
// redirects at once. It implements what MCP 2025-11-25 asks for: protected
// resource metadata (RFC 9728), authorization server metadata (RFC 8414),
// dynamic client registration (RFC 7591), PKCE with S256 (RFC 7636), resource
// indicators (RFC 8707), refresh tokens and client credentials, and the JWT
// assertion grant (RFC 7523) if [Rules.Assertion] is set, and the device grant (RFC
// 8628) if [Rules.Device] is.
//
// [Rules] make it misbehave: short tokens, no refresh tokens, edited metadata, a
// token endpoint that hangs. [Server.Counts] reports what clients requested.
package oauthtest
