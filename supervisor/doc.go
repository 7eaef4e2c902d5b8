// Package supervisor decides when a server is dialled, retried and given up. It
// carries nothing out: no goroutine, no clock, no I/O, and no import beyond the
// standard library.
//
// # The lifecycle
//
// A [Lifecycle] is the state machine of one registered server. The caller feeds it
// inputs (a session opened, a session died, a timer fired) together with the time,
// and carries out the effects that [Lifecycle.Step] returns, in their order:
//
//	life := supervisor.NewLifecycle(policy, supervised, nil)
//	for input := range inputs {
//		for _, effect := range life.Step(time.Now(), input) {
//			switch effect.Kind {
//			case supervisor.EffectDial:       // start the session of effect.Epoch
//			case supervisor.EffectEndSession: // end it; feed InputReleased when it is gone
//			case supervisor.EffectArmRetry:   // feed InputTimer with effect.Token after effect.Delay
//			...
//			}
//		}
//	}
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
// A restart on request gives a fresh budget, and a stop ends the registration; both
// first release the session that runs. The whole table is [Transitions].
//
// # Epochs and tokens
//
// Every session has a number, its epoch, and every timer has a token. An input
// about another epoch than the current one, or another timer than the armed one, is
// stale: Step drops and counts it. So the caller need not cancel anything in time.
// A late report of an old process or a timer that fired during its cancellation is
// harmless.
//
// # The retry budget
//
// A [Policy] allows a number of attempts in a row, with delays that double from its
// base. The budget comes back only to a session that stayed ready for StableAfter.
// A server that becomes ready and crashes each time is therefore given up like one
// that never starts. [Intensity], the restart intensity of OTP, bounds the restarts
// over a window of time beside the budget.
//
// A permanent cause ends the retries at once. One is a repeated start failure: the server
// has never been ready, and its process exits before the handshake is complete, twice in a
// row, with the same exit status and the same lines on stderr, at least one line. A policy
// that parks or has no limit does not treat it as permanent.
//
// # The standby
//
// A [Standby] is a second, smaller machine beside the lifecycle. It decides when a
// second session is started, retried and given up, while the server is in service.
// The two machines meet in three places:
//
//   - The caller reports the lifecycle's decisions to the standby: [InputServing],
//     [InputTakenOver], [InputWithdrawn].
//   - When a session dies, the caller passes the epoch of a standby that is ready in
//     [Input.Standby]. The lifecycle then answers with [EffectTakeOver] and stays ready.
//   - Both take their epochs from [Lifecycle.NextEpoch].
//
// Its table is [StandbyTransitions].
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
//
// The comments of [StateNew], [InputRegister], [GuardAlways], [EffectDial] and their
// neighbours say what each state, input, guard and effect means, and [Transitions] and
// [StandbyTransitions] are all rows. The repository has a page with both tables and their
// diagrams, docs/lifecycle.md, which a test generates from this package.
package supervisor
