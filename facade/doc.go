// Package facade is the client of mcpvisor: one [Client] that supervises many MCP
// servers and offers their tools, resources and prompts under one namespace.
// The page of [github.com/mcpvisor/mcpvisor] has a program.
//
// What a caller may rely on:
//
//   - A crash is noticed by the exit of the process or the end of the connection, not
//     by a poll. The calls in flight fail at once with a typed error, and the server's
//     tools leave the listing in one step.
//   - A restart repeats everything: handshake, lists, subscriptions, log level. Only
//     complete lists make a server ready again.
//   - Every call ends: by its result, its context, a timeout, or the end of its server. A
//     call that none of these would end is refused with ErrInvalid. With [WithWaitReady]
//     only the context bounds the wait for the server.
//   - No call is sent twice, unless nothing was sent the first time and the caller asked for it
//     with [WithWaitReady]. The Outcome of an [mcpvisor.Error] says whether the server may have
//     executed it. A call that the server runs as a task continues at the next incarnation of the
//     server and is not sent again: see [Client.StartTask].
//   - Servers do not affect each other.
//   - [Client.Unregister] and [Client.Close] leave no process, goroutine or connection
//     behind, and are bounded in time whatever the servers do.
//
// # Handlers
//
// Servers may send requests of their own while they work on a call: for text of the host's
// language model (sampling/createMessage), for input of its user (elicitation/create), for its
// directories (roots/list). The client declares only the capabilities for which it has handlers.
// [WithCallHandlers] gives one call handlers of its own; its comment says when a request is known
// to belong to a call.
//
// The rules for all handlers:
//
//   - They are called for all servers, from many goroutines: up to 64 at a time for one
//     server, whose further requests wait.
//   - The context ends when the server cancels the request, when the call that it belongs to
//     ends, when the session ends, and when the client is closed. Nothing waits for a handler
//     that continues anyway. (Servers before 2026-07-28 over stdio do not say which call a
//     request belongs to, so the end of that call does not end the context.)
//   - A panic, a nil result or an error is answered with a JSON-RPC error and affects no
//     other request. The text of the error goes to the log and not to the server, unless
//     the error is a *jsonrpc.Error itself; a wrapped one is not sent.
//
// # Reference
//
// [Client] lists its methods by purpose. [New] takes options for the whole client (type
// [Option]), the calls take options for one call (type [CallOption]).
//
// This package is large because [Client] is the one entry point. Calls, reads, tasks, completion and
// subscriptions have files of their own; client.go has the rest.
package facade
