// Package transport is not part of the stable API. It is the contract between the actors
// and the transports: one session with one MCP server. A transport starts or connects to the
// server, negotiates the protocol version, frames messages, matches answers to requests, and shuts the session
// down. It knows no actors, no supervision policy and no other servers.
//
// A [Dialer] belongs to one registration and remembers what it learned about the server,
// such as its era. Each [Session] is one incarnation: it is opened at most once, it ends
// once with its first cause, and it is released when no process, connection or goroutine of
// it is left. A new transport needs a new Dialer; no package above changes.
//
// This package holds no implementation. Package dial chooses one of those below internal:
// stdio (processes, and servers in memory) or streamable (HTTP). Both use the request
// engine in internal/jsonrpc. Package discovery lists what a session offers. Start with
// transport.go.
package transport
