// Package transport moves bytes and keeps sessions. It knows how a server is
// spawned or reached, how a protocol version is agreed on, how messages are
// framed and matched, how a catalog is listed, and how everything is taken
// down again. It knows no actor, no policy and no other server.
//
// A [Dialer] belongs to one registration and remembers what it learned about
// the server, such as its era. Each [Session] it makes is one life: opened at
// most once, dead for good at its first end, released when nothing of it is
// left. Adding a transport means adding a Dialer; nobody above must change.
//
// Over stdio and in memory the wire is our own: framing, request ids and the
// matching of answers. It has two lanes. The go-sdk's client drives the
// control lane (handshake, notifications, requests from the server) as an
// [mcp.Connection]; requests of ours travel on the call lane, with ids of
// their own, and come back raw.
package transport
