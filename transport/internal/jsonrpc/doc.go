// Package jsonrpc is the request engine under every transport. It has no goroutine and
// does no I/O; the sessions in stdio and streamable do.
//
//	message    Envelope finds the members of a message; AppendRequest writes one
//	request    Table holds the requests in flight and sweeps their deadlines; each Entry has
//	           Clocks and a ProgressQueue. RequestIDs assigns the ids
//	session    Lifetime (why and when it ended), LastReceived, SessionInfo, RequestMeta
//	inbound    Notifications.Dispatch is the switch for notifications; Discarded counts what is
//	           skipped, Remarks keeps what may explain a failure; HandshakeWatch
//	errors     OpenCause, RequestError, DeathError, ServerError: every foreign error becomes
//	           a *supervisor.Cause or a *mcpvisor.Error here
//
// Requests of servers are served by package inbound, which imports this one.
package jsonrpc
