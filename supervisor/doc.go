// Package supervisor is the judgement of mcpvisor: when a server is dialled,
// when it is given another try, when it is given up. It has no hands. Nothing
// here starts a goroutine, reads a clock, sends a message or knows an actor;
// [Lifecycle.Step] takes the time and an event and answers with the effects
// that somebody else must carry out.
//
// That split is what makes the promises testable: hours of backoff are a loop
// over values, and the transition table ([Transitions]) is data that the
// tests, the documentation and the drawing are made from.
//
// The words follow Erlang/OTP where OTP has one (restart intensity, permanent
// cause) and the MCP specification where it has one. Beware of one clash:
// the state [Discovering] means listing tools, resources, resource templates
// and prompts. It is not the server/discover request of MCP 2026-07-28, which
// belongs to negotiation and happens while [Connecting].
//
// The package imports the standard library only.
package supervisor
