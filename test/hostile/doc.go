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
package hostile
