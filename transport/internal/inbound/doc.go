// Package inbound serves what servers ask of this client: ping, sampling, elicitation and
// roots.
//
// A legacy server sends a request; [Requests] judges it by method and size, and answers
// it in a goroutine of its own. A server of 2026-07-28 answers a call with what it needs;
// [Handler.ContinueWithInput] has that answered and repeats the call (SEP-2322). Both use
// one [Handler] for each session, which asks the handlers of the host.
//
// A [HandlerPool] belongs to one registration and outlives its sessions, because a
// handler of the host's may ignore its context.
package inbound
