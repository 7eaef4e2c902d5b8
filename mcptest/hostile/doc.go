// Package hostile holds MCP servers over stdio that misbehave, to test a client
// with. Each misbehaviour was seen in practice or can be written by an attacker.
// Package hostilehttp holds the servers over HTTP.
//
//	for _, m := range hostile.Misbehaviours() {
//		spec := mcpvisor.ServerSpec{Name: "hostile", Stdio: m.Stdio(t.TempDir())}
//		…
//	}
//
// Most servers are the current test binary, executed again: TestMain must call
// [mcptest.Main] first. No other registration is needed.
//
// # How to add a hostile server
//
// Over stdio:
//
//  1. Choose the stage and a name, as "call/half-line". The stages are listed at
//     [Misbehaviour.Stage]; each table of this package holds a few of them: spawn.go
//     (spawn), handshake.go (negotiation, handshake), list.go, call.go, answer.go (id,
//     answer, error), result.go (result, read, prompt), traffic.go (notification,
//     request), stream.go (stream, liveness), process.go and process_linux.go
//     (process, shutdown).
//  2. Add a row to that table. Use the first of these that can express it: scripted,
//     with faults of the fixture server ([mcptest.Fault]); handWritten, with a handler
//     for one method (onCall, onMethod, answersCall, results in server.go); shellRow
//     or fileRow, in spawn.go, for what is not an MCP server.
//  3. Run go test ./mcptest/hostile: it checks the name and starts the server once.
//  4. State what a client must do: add a row of the same name to a table in
//     test/integration/hostile_stdio_*_test.go. TestHostileStdio fails without it. Run
//     go test ./test/integration -run 'TestHostileStdio/call/half-line'.
//
// Over HTTP: the same, with a table in hostilehttp (onCall and onKeys take handlers
// of JSON-RPC methods) and a row in test/integration/hostile_http_*_test.go.
package hostile
