// Package safehttp makes HTTP requests to addresses that an MCP server named:
// metadata documents, authorization servers and their endpoints.
//
// Such an address may lead into a network that only this host can reach
// (server-side request forgery, SSRF). [Client] therefore checks every address,
// those of redirects included, in three steps:
//
//   - The scheme must be https, or http where the MCP server itself is reached
//     by http.
//   - A literal IP address must not be private, link-local or loopback.
//   - A name must not resolve to such an address. The check runs after the name
//     was resolved and before any byte is sent.
//
// Addresses that the host configured are trusted: the MCP server, Config.Issuer
// and the token endpoint of an identity provider. A server may name addresses of
// the same class as a trusted one, for example an authorization server in the
// private network that the MCP server is in.
//
// The package also sorts failures: [IsTemporary] reports whether it makes sense
// to try again later.
package safehttp
