// Package mcptest is a scriptable MCP server for tests, and for breaking
// clients on purpose. A [Script] says what the server offers, which protocol
// versions it speaks, and which [Fault] it commits at which [Stage].
//
// One script runs in three ways:
//
//   - [Stdio] re-executes the current binary as a real process, with real
//     pipes, exit codes and signals. The binary must call [Main] first thing,
//     in TestMain or in main.
//   - [InMemory] runs it on a pair of pipes in this process. It needs nothing
//     but channels and timers, so it works inside a testing/synctest bubble.
//   - [NewHTTP] serves it over Streamable HTTP on a loopback port, built on the
//     go-sdk's own server.
//
// A script with no content of its own offers a default set of tools, two
// resources, a template and two prompts; see [DefaultTools].
//
// With a StateDir, a script keeps accounts that outlive a process: how often
// the server was started ([Starts]), which side effects were executed
// ([Executions]) and which processes it ran ([Pids]). One StateDir belongs to
// one server.
package mcptest
