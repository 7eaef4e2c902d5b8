// Package jsonrpc is the request engine under every transport. It has no goroutine and
// does no I/O; the sessions in stdio and streamable do.
//
//	message    Envelope finds the members of a message; AppendRequest writes one
//	request    Table holds the requests in flight and sweeps their deadlines; each Entry has
//	           Clocks and a ProgressQueue. RequestIDs assigns the ids
//	session    Lifetime (why and when it ended), LastReceived, SessionInfo, RequestMeta
//	inbound    Notifications.Dispatch is the switch for notifications; Discarded counts skipped
//	           messages; Remarks keeps output that may explain a failure; HandshakeWatch
//	           detects a server that was restarted behind its session
//	errors     OpenCause, RequestError, DeathError, ServerError: every error of the go-sdk,
//	           the network and the server becomes a *supervisor.Cause or a *mcpvisor.Error
//
// Start with table.go (requests in flight) and envelope.go (reading a message). Package
// inbound serves the requests of servers and imports this one.
package jsonrpc
