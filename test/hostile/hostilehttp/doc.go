// Package hostilehttp holds MCP servers over Streamable HTTP, and over HTTP+SSE, that
// misbehave, to test a client with.
//
//	m, _ := hostilehttp.MisbehaviourNamed("call/html-400")
//	server := m.Serve()
//	defer server.Close()
//	spec := mcpvisor.ServerSpec{Name: "hostile", HTTP: &mcpvisor.HTTP{URL: server.URL}}
//
// A [Server] also counts what its client does: requests, connections, values of
// headers, and requests that followed a redirect to another origin.
//
// This package is large because it is a list of servers, one row for each, which share
// one fixture.
package hostilehttp
