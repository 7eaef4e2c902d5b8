// Package streamable keeps sessions with servers over Streamable HTTP (MCP 2025-03-26
// and later), and over the deprecated HTTP+SSE (MCP 2024-11-05). This
// package is large because it holds both: a session may begin with the first and fall
// back to the second, and they differ only in how one exchange gets its answer.
//
// Where to start reading:
//
//   - session.go: the dialer, the session, its end
//   - open.go: the negotiation; sdk_transport.go: HTTP as the go-sdk sees it
//   - call.go: a call, from its request to its result or error
//   - exchange.go: one HTTP request with its answer, and when it ends
//   - answer.go, stream.go: how the answer is found in a body or on an event stream
//   - listen.go: the standalone event stream; server_message.go: what comes on it
//   - sse_conn.go, sse_fallback.go: HTTP+SSE, and when it is tried
//
// The request table, deadlines, progress and notifications are those of package
// jsonrpc; requests of the server are served by package inbound.
package streamable
