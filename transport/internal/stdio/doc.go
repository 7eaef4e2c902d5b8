// Package stdio keeps sessions with servers behind a pair of streams: a process over
// stdin and stdout (MCP, transports, stdio), or a goroutine in memory.
//
// Each response goes straight to the caller that waits for it. Requests and notifications of the
// server go to the handlers of the host. The go-sdk's client negotiates, and has no part in what
// follows. Its requests have small ids; those of callers have ids from jsonrpc.FirstID up.
//
// A caller writes its own line, together with lines that other callers have queued. A
// goroutine takes over when the pipe is full, when others keep queueing lines, and where a write cannot be tried
// without blocking. Package reader says who reads.
//
// # Where to start reading
//
//	session.go       one incarnation: open, request, abort
//	open.go          negotiation of the era, and the explanation of a failed start
//	handshake.go     the requests of the go-sdk, and late answers to server/discover
//	process_conn.go  one process and the connection to it, until both are gone
//	conn.go          what is done with each line of the server
//	call.go          one request, from its line to its answer
//	line_queue.go    who writes, and whether a request counts as sent
//	reader/doc.go    who reads
package stdio
