// Package stdio keeps sessions with servers behind a pair of streams: a process over
// stdin and stdout (MCP, transports, stdio), or a goroutine in memory.
//
// Two channels share the streams. Requests of the call channel have ids from
// jsonrpc.FirstID up; their answers go straight to their callers. Everything else is the
// control channel: the handshake and the notifications, which the go-sdk's client drives
// as an mcp.Connection.
//
// One goroutine reads lines. A caller writes its own line, together with those that
// others have queued; a writing goroutine takes over only when the pipe is full.
//
// Start with piped.go (a session), link.go (one process and its streams) and wire.go
// (framing, and the requests in flight).
package stdio
