// Package jsonrpc is the request engine under every transport. It has no goroutine and
// does no I/O; the sessions in stdio and streamable do.
//
//	table.go          Table holds the requests in flight and sweeps their deadlines; the ids
//	                  and the two timeouts of a request
//	progress.go       reports of progress, on their way to the caller
//	request_line.go   AppendRequest writes a request
//	envelope.go       Envelope finds the members of a message; what may be decoded
//	buffer.go         large messages: their memory, and the ends that are kept of skipped ones
//	notifications.go  Dispatch is the switch for notifications; Discarded counts skipped messages
//	remarks.go        output that belongs to no request and may explain a failure
//	handshake.go      versions, capabilities, SessionInfo; a server that was restarted behind
//	                  its session
//	lifetime.go       why and when a session ended; when its server last sent something
//	errors.go         every error of the go-sdk, the network and the server becomes a
//	                  *supervisor.Cause or a *mcpvisor.Error
//
// Start with table.go. Package inbound serves the requests of servers and imports this one.
package jsonrpc
