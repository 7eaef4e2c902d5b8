// Package streamable implements sessions with servers over Streamable HTTP (MCP
// 2025-03-26 and later), and over the deprecated HTTP+SSE (MCP 2024-11-05).
//
// This package is large because it contains both transports: one session may begin with
// Streamable HTTP and fall back to HTTP+SSE. The sse_ files use the session's exchanges,
// message handling and counters, and replace only the way in which one exchange gets its
// answer.
//
// Where to start reading:
//
//   - dialer.go: what is remembered between sessions
//   - session.go: the session and its end
//   - open.go: the negotiation; sdk_transport.go: the HTTP client of the go-sdk
//   - call.go: a call, from its request to its result or error
//   - exchange.go: one HTTP request with its answer, and when it ends
//   - answer.go, stream.go: how the answer is found in a body or on an event stream
//   - listen.go: the standalone event stream; server_message.go: messages of the server
//   - sse_conn.go, sse_request.go, sse_fallback.go: HTTP+SSE, and when it is tried
//
// Package jsonrpc provides the request table, deadlines, progress and notifications.
// Package inbound serves requests of the server.
package streamable
