// Package oauth gets and renews OAuth access tokens for MCP servers over HTTP. A [Config]
// is the Auth of a server:
//
//	mcpvisor.HTTP{URL: "https://mcp.example.com/mcp", Auth: &oauth.Config{}}
//
// The user consents once, through Client.Authorize of package facade or "mcpvisor authorize";
// package config reads a Config from "auth" of a file. The runtime does not import this
// package, so only programs that use OAuth link it. It implements the authorization chapter of
// MCP from 2025-03-26 to 2026-07-28:
//
//   - discovery by RFC 9728 and RFC 8414 or OpenID Connect,
//   - client ID metadata documents, dynamic registration (RFC 7591) and
//     pre-registered clients,
//   - the authorization code grant of OAuth 2.1 with PKCE (RFC 7636), resource
//     indicators (RFC 8707) and the issuer check (RFC 9207),
//   - refresh tokens and step-up authorization,
//   - login by a code on another device (RFC 8628), through Client.AuthorizeDevice,
//   - client credentials and JWT assertions (RFC 7523),
//   - tokens that are bound to a key of this client (DPoP, RFC 9449).
//
// The life of a token:
//
//	request → Credential: memory ──────────────────────→ the server
//	             └ expired: one renewal, awaited for Config.TokenWait at most
//	401 ← the server
//	      → Answered: one renewal for all refused requests → the request again
//	         refresh token → FetchAuthorizationCode of the host
//	         else AuthRequired with the authorization URL, for the user
//
// What a program may rely on:
//
//   - No call waits for the user, and none waits for a token endpoint longer than
//     Config.TokenWait. A renewal runs in a goroutine of its own, without a lock and
//     without the context of a call, so a call that ends does not disturb it.
//   - However many requests are refused at once, there is one renewal.
//   - However often the server wants another token, renewals start at a bounded rate.
//   - While a session is open, tokens are renewed ahead of their expiry.
//   - A rotated refresh token is stored before its access token is used.
//   - A function of the host that hangs or panics, such as a Store, blocks no call and
//     does not end the process.
//   - Addresses that a server names do not lead into a private network, unless the server
//     itself or Config.Issuer is in one. That is checked for each connection and redirect.
//   - Errors hold no secrets.
//
// This package is large because all grants replace the same tokens, under the same locks.
package oauth

// Where to start reading: config.go; authorizer.go for the fields, credential.go for what the
// runtime calls, renewal.go for the goroutine that gets another token. It uses grants.go,
// for the code with auth_request.go and registration.go, and all of these token_endpoint.go.
// auth_request.go and device.go have what the user starts, too, and store.go what is kept.
