// Package mcptest is a scriptable MCP server for tests, with faults on demand. A
// [Script] sets what the server offers, which protocol versions it speaks, and which
// [Fault] happens at which [Stage].
//
// One script runs in three ways:
//
//   - [Stdio] executes the current binary again, as a real process with real pipes,
//     exit codes and signals. TestMain or main must call [Main] first.
//   - [InMemory] runs it in a goroutine, on a pair of pipes. It needs only channels and
//     timers, so it works inside a testing/synctest bubble.
//   - [NewHTTP] serves it over Streamable HTTP on a loopback port, with the server of
//     the go-sdk.
//
// A script without content of its own offers a default set of tools, two resources, a
// template and two prompts; see [DefaultTools].
//
// With a StateDir, counts outlive the process: [Starts], [Executions] of the tool count, and
// [PIDs]. One StateDir belongs to one server.
//
// Package mcptest/oauthtest is an OAuth authorization server, and mcptest/chaos injects
// faults into servers of any kind.
//
// docs/testing.md shows how to test a service with it.
//
// This package is large because a script is one thing: what it offers and which faults
// happen apply to both transports.
package mcptest

// Start reading at script.go (what a script sets), then server.go (a server on a pair of
// streams) or http.go (a server over HTTP). The default tools are in internal/tools, and
// what they record is in test/fixture/statedir of the repository. Servers that misbehave
// in hundreds of ways, for the tests of the client itself, are in test/hostile.
