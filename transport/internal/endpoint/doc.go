// Package endpoint sends HTTP requests to the endpoint of one MCP server, and explains
// their failures. It has no notion of a session. Of JSON-RPC it reads only the message of
// an error, to quote it.
//
// [Endpoint.Do] sends every request. It adds the headers of the ServerSpec, an access
// token and cookies, follows redirects within the origin, and repeats a request only if
// the server has certainly not begun to work on it. [ConnTrace] holds the evidence for
// that.
//
// An [HTTPError] says what a failed request means for a call (its kind, and whether the
// server may have acted) and for a start (its cause, and whether a retry can help). Texts
// of servers are shortened, and the secrets of the endpoint are removed from them.
//
// A POST to a server without TLS goes over a pool of HTTP/1.1 connections, which costs less
// than that of http.Transport; see connPool. All other requests go over the RoundTripper.
//
// Where to start reading: endpoint.go for the types, tokens.go for Do, send.go for one
// round trip, conn_pool.go for the connections, error.go for HTTPError, status.go and
// session_loss.go for what a status means.
package endpoint
