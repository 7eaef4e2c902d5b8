// Package oauth obtains and renews OAuth tokens for MCP servers over HTTP.
//
// An [authorizer] belongs to one registration and outlives its sessions. The
// transport asks it for a token before each request ([authorizer.Token]) and calls
// it after each refused one ([authorizer.Renew]). It implements the authorization
// chapter of MCP from 2025-03-26 to 2026-07-28:
//
//   - discovery by RFC 9728 and RFC 8414 or OpenID Connect (package metadata),
//   - client ID metadata documents, dynamic registration (RFC 7591) and
//     pre-registered clients (registration.go),
//   - the authorization code grant of OAuth 2.1 with PKCE (RFC 7636), resource
//     indicators (RFC 8707) and the issuer check (RFC 9207) (auth_request.go),
//   - refresh tokens (refresh.go) and step-up authorization (code_grant.go),
//   - client credentials and JWT assertions (RFC 7523) (grants.go),
//   - tokens that are bound to a key of this client (DPoP, RFC 9449) (dpop.go).
//
// The life of a token:
//
//	request → Token: memory ───────────────────────────→ the server
//	             └ expired: one renewal, awaited for Config.TokenWait at most
//	401 ← the server
//	      → Renew: one renewal for all rejected requests → the request again
//	         refresh token → FetchAuthorizationCode of the host
//	         else AuthRequired with the authorization URL, for the user
//
// What callers may rely on:
//
//   - No caller waits for the user, and none waits for a token endpoint longer than
//     Config.TokenWait. A renewal runs in a goroutine of its own, without a lock and
//     without the context of a caller, so a caller that leaves does not disturb it.
//   - However many requests are rejected at once, there is one renewal.
//   - However often the server wants another token, renewals start at a bounded rate.
//   - While a session is attached, tokens are renewed ahead of their expiry.
//   - A rotated refresh token is stored before its access token is used.
//   - A function of the host that hangs or panics, such as a Store, blocks no caller and
//     does not end the process.
//   - Errors hold no secrets: see [authorizer.Redact].
package oauth
