// Package supervisor describes what happens after a session of a server ends: a [Policy] decides
// how often and how soon the server is started again, a [State] says where the server is in its
// life, and a [Cause] says why the session ended.
//
// # The states
//
// The life of a server, without requests of the user:
//
//	register → connecting → discovering → ready ──┐
//	               ↑   │         │                │ the session fails or dies
//	         timer │   └─────────┴────────┬───────┘
//	               │                      ↓
//	            backoff ←──────────── closing → evicted, parked, unauthorized
//	                     released
//
// What the states mean:
//
//   - connecting: a process is spawned or a connection made, and the protocol
//     version is negotiated.
//   - discovering: the session is open; its tools, resources and prompts are listed.
//   - ready: the catalog is published and calls are accepted.
//   - closing: the session has ended; its process group and its connections are being
//     released. The policy decides when all of it is gone, and never sooner: two
//     sessions of one server never overlap by accident.
//   - backoff: the retry timer runs.
//   - parked, evicted, unauthorized: the retry budget is spent, or a retry cannot help.
//
// A restart on request resets the budget. A stop ends the registration. Both first release the
// current session. docs/lifecycle.md in the repository has the table of all transitions and its
// diagram.
//
// # The retry budget
//
// A [Policy] allows a number of attempts in a row, with delays that double from its base. The
// budget is reset only when a session has stayed ready for StableAfter. So a server that becomes
// ready and crashes each time is given up like one that never starts. [Intensity], the restart
// intensity of OTP, is a second bound: it limits the restarts within a window of time.
//
// A permanent cause ([Cause.Permanent]) ends the retries at once. The exit of a process is never
// a permanent cause: even a server that fails in the same way at every start is tried as often as
// its policy says, because what it waits for may still come.
//
// # Terms
//
// Names follow Erlang/OTP (restart intensity, permanent cause) and the MCP
// specification. One name clashes: the state [StateDiscovering] means listing tools,
// resources, resource templates and prompts. The request server/discover of MCP
// 2026-07-28 belongs to negotiation and is sent in [StateConnecting].
//
// To dial is to start the process of a server or to connect to it. An incarnation is one
// such start with its session. To release a session is to end what is left of it:
// processes, connections, goroutines. To publish a catalog is to list the server's tools,
// resources and prompts at the client, and to withdraw it is to remove them there.
package supervisor
