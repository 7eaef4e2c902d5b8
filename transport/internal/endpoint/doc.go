// Package endpoint sends HTTP requests to the endpoint of one MCP server, and explains
// their failures. It has no notion of a session. Of JSON-RPC it reads only the message of
// an error, to quote it.
//
// [Endpoint.Do] sends every request. It adds the headers of the ServerSpec, a
// credential and cookies, follows redirects within the origin, and repeats a request only if
// the server has certainly not begun to work on it. [ConnTrace] holds the evidence for
// that.
//
// An [HTTPError] says what a failed request means for a call (its kind, and whether the
// server may have acted) and for a start (its cause, and whether a retry can help). Texts
// of servers are shortened, and the secrets of the endpoint are removed from them.
//
// Where to start reading: endpoint.go for the types, send.go for Do and one round trip,
// credential.go for what an authorizer adds, body.go for what wraps and bounds a body, error.go
// for HTTPError, status.go and session_loss.go for what a status means.
package endpoint
