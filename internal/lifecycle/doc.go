// Package lifecycle decides when a server is dialled, retried and given up. It carries
// nothing out: no goroutine, no clock, no I/O. Package supervisor has the policy, the states
// and the causes that it decides by; the actors carry out what it decides. Read lifecycle.go
// first, then table.go.
//
// # The lifecycle
//
// A [Lifecycle] is the state machine of one registered server. The caller feeds it
// inputs (a session opened, a session died, a timer fired) together with the time,
// and carries out the effects that [Lifecycle.Step] returns, in their order:
//
//	life := lifecycle.NewLifecycle(policy, supervised, nil)
//	for input := range inputs {
//		for _, effect := range life.Step(time.Now(), input) {
//			switch effect.Kind {
//			case lifecycle.EffectDial:       // start the session of effect.Epoch
//			case lifecycle.EffectEndSession: // end it; feed InputReleased when it is gone
//			case lifecycle.EffectArmRetry:   // feed InputTimer with effect.Token after effect.Delay
//			...
//			}
//		}
//	}
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
// The comments of [InputRegister], [GuardAlways], [EffectDial] and their neighbours say what
// each input, guard and effect means, and [Transitions] and [StandbyTransitions] are all
// rows. docs/lifecycle.md has both tables and their diagrams; a test generates it.
package lifecycle
