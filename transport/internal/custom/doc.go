// Package custom runs a server that is reached over a transport of the host
// (mcpvisor.Transport). [Connection] implements process.Process: its stdin and stdout carry
// the messages of an mcp.Connection, one on each line, so that everything that holds for
// servers behind a pair of streams holds for these servers, too.
package custom
