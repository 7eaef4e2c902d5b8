// Package transport moves bytes and keeps sessions. It knows how a server is
// spawned or reached, how a protocol version is agreed on, how messages are
// framed and matched, how a catalog is listed, and how everything is taken
// down again. It knows no actor, no policy and no other server.
//
// A [Dialer] belongs to one registration and remembers what it learned about
// the server, such as its era. Each [Session] it makes is one life: opened at
// most once, dead for good at its first end, released when nothing of it is
// left. Adding a transport means adding a Dialer; no package above it changes.
//
// This package is the contract only. Package dial chooses an implementation; they are
// below internal: stdio (processes, and servers in memory) and streamable (HTTP), both on
// the request engine in jsonrpc. Package discovery lists what a session offers.
package transport
