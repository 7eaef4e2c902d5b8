// Package oauth obtains and renews OAuth tokens for MCP servers over HTTP.
//
// An [Authorizer] belongs to one registration and outlives its sessions. The
// transport asks it for a token before each request ([Authorizer.Token]) and
// tells it of refusals ([Authorizer.Renew]). It follows the authorization
// chapter of MCP from 2025-03-26 to 2026-07-28: RFC 9728 and RFC 8414 (or
// OpenID Connect) for discovery, client ID metadata documents, RFC 7591 and
// registered clients, PKCE, RFC 8707 resources, RFC 9207 issuers, step-up, the
// client credentials grant, and that of RFC 7523 for assertions.
//
// What it promises to its callers:
//
//   - Nobody waits for a person, and for a token endpoint at most OAuth.TokenWait. All
//     requests run in the background, none under a lock and none on a caller's
//     context: a caller that leaves spoils nothing for the others.
//   - However many requests are refused at once, there is one renewal.
//   - A token is renewed ahead of its end while a session is attached.
//   - A refresh token that was rotated is stored before anybody uses the access
//     token that came with it.
//   - A function of the host's that hangs or panics, as a Store or a Visit, holds
//     up and brings down nobody.
//   - Secrets are in no error of it: see [Authorizer.Hide].
package oauth
