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
//
// # How to add a hostile server
//
//  1. Choose the place and a name, as "call/html-400". The places are listed at
//     [Misbehaviour]; each table holds a few of them: start.go, version.go (version,
//     list), status.go (statuses of calls, redirect), body.go and answer.go (call),
//     wire.go (wire, head), events.go, resume.go, server_request.go (answers),
//     session.go (session, shutdown), stream.go (stream, secret), sse_rows.go (sse).
//  2. Add a row: onCall(name, about, handler) for a misbehaviour in calls,
//     onKeys(…, keys…) for one elsewhere. legacyOnly(…) marks what needs sessions
//     of 2025-11-25. The handler answers with the methods of reply.go: reply,
//     replyMessage, events, drip, flood, waitForClient, and takeOverConn for bytes that
//     are not HTTP.
//  3. Run go test ./mcptest/hostile/hostilehttp.
//  4. State what a client must do: add a row of the same name to a table in
//     test/integration/hostile_http_*_test.go. TestHostileHTTP fails without it.
package hostilehttp
