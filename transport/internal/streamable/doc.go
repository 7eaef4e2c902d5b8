// Package streamable implements sessions with servers over Streamable HTTP (MCP
// 2025-03-26 and later), and over the deprecated HTTP+SSE (MCP 2024-11-05).
//
// This package is large because it contains both transports: one session may begin with
// Streamable HTTP and fall back to HTTP+SSE. The sse_ files use the session's exchanges,
// message handling and counters, and replace only the way in which one exchange gets its
// answer.
//
// A session has these parts. Read them in this order:
//
//   - session.go: session, which connects the parts; peer, which says where requests go
//     and how they name the session; dialer, which remembers between sessions
//   - liveness.go: whether the session lives, why it ended, and what its release waits for
//   - call.go: calls, the call channel, from a request to its result or error
//   - verify.go: probes, and the check whether a refused request means a lost session
//   - exchange.go: exchanger, which sends messages, and exchange, one HTTP request with its
//     answer
//   - answer.go, stream.go: how the answer is found in a body or on an event stream
//   - receiver.go: receiver, which handles all other messages of the server
//   - open.go: negotiation, the control channel, over which the go-sdk agrees on a version
//   - listen.go: standaloneStream, the event stream that belongs to no request
//   - sse_conn.go, sse_fallback.go: HTTP+SSE, and when it is tried
//
// What a call in flight receives when something is lost:
//
//	404 to the POST, with a session id; the body is    not_sent: ErrUnavailable, the session ends
//	empty, repeats the status, or is the text of an
//	SDK (endpoint/session_loss.go)
//	404 to the POST with any other body                unknown: ErrCrashed, the session ends
//	400, or 401 without WWW-Authenticate, to the       not_sent: ErrUnavailable, the session ends
//	POST, with the text of an SDK about sessions
//	any other refusal: a JSON-RPC error, or a status   answered; the session ends if the server
//	other than those in verify.go                      also refuses two pings (verify.go)
//	400 or 404 with a JSON-RPC error that has the      answered: ErrRPC; the session ends if it is
//	call's id                                          a 404 whose message repeats the status, or
//	                                                   is that of an SDK
//	404 to the POST without a session id               answered: ErrProtocol
//	404 to the GET that resumes the call's stream      unknown: ErrCrashed, the session ends
//	404 to the standalone stream, once it was open     unknown: ErrCrashed, the session ends
//	connection refused                                 not_sent: ErrUnavailable, the session ends
//	connection broken, and the server does not         unknown: ErrCrashed, the session ends
//	answer a check within a second
//	connection broken, and the server answers          unknown: ErrProtocol
//	idle connection closed, and nothing was written    the request is sent again
//
// The statuses are interpreted in endpoint/session_loss.go. An error body that breaks off turns
// not_sent into unknown. So does a RoundTripper of the host, which may have repeated the request.
// ErrUnavailable is made of ErrCrashed with not_sent in actors/call.go. With
// facade.WithWaitReady, facade/request.go sends such a call again, on the next session. It
// repeats only calls that are not_sent.
//
// Package jsonrpc provides the request table, deadlines, progress and notifications.
// Package inbound serves requests of the server.
package streamable
