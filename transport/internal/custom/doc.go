// Package custom runs a server that is reached over a transport of the host
// (mcpvisor.Transport). [Connection] implements process.Process: its stdin and stdout carry
// the messages of an mcp.Connection, one on each line. So the session of package stdio serves
// these servers, too. Start with connection.go.
package custom
