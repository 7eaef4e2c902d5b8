// Package inbound serves the requests of servers: ping, sampling, elicitation and roots.
//
// A legacy server sends a request. [Requests] accepts it by its method and size, and
// answers it in a goroutine of its own. A server of 2026-07-28 answers a call with the
// inputs that it needs. [Handler.ContinueWithInput] gets these inputs and repeats the call
// (SEP-2322, multi round-trip requests). Both use the [Handler] of the session, which
// checks a request and runs a handler of the host.
//
// A [HandlerPool] belongs to one registration and outlives its sessions, because a handler
// of the host may ignore the end of its context.
//
// Start with request_sender.go for the requests of this client, and with requests.go, then
// handler.go, for those of servers.
package inbound
