// Package jsonrpc is the request engine under every transport. It has no goroutine and
// does no I/O; the sessions in stdio and streamable do.
//
//	message    Envelope finds the members of a message; AppendRequest writes one
//	request    RequestIDs, Clocks, DeadlineTimer, ProgressQueue: what a request in flight has
//	session    Lifetime (why and when it ended), LastReceived, SessionInfo, RequestMeta
//	inbound    Notifications (what is passed on), Discarded (what is not), Remarks (what may
//	           explain a failure), HandshakeWatch
//	errors     OpenCause, RequestError, DeathError, ServerError: every foreign error becomes
//	           a *supervisor.Cause or a *mcpvisor.Error here
//
// Requests of servers are served by package inbound, which imports this one.
package jsonrpc
