// Package actors is not part of the stable API. It runs the servers: one tree of actors
// owns every registration, session and timer, and publishes what the rest of the program
// reads.
//
//	root                                keeps a manager alive beside the servers
//	├─ manager                          the only writer of the registries
//	├─ groups                           carries what groups and their members tell each other
//	│  └─ group <name>                  one group: one state machine
//	└─ servers                          parent of the registrations; decides nothing
//	   └─ supervisor <name>.<gen>       one registration: two state machines, one timer each
//	      └─ port <name>.<gen>.<epoch>  one incarnation: one session
//
// [Runtime] is the way in. It posts messages to the manager, hands out snapshots, and
// sends calls. Where to start reading:
//
//	a registration           Runtime.Register → manager.register → servers.start →
//	                         supervisingActor.Receive → port.open, port.discover
//	a call                   Runtime.Request → incarnation.beginCall → limiter → session
//	a crash becomes events   supervisingActor.startIncarnation (the watch over the session)
//	                         → route → step → execute → report → manager.onReport
//	a retry                  step → Lifecycle.effect (EffectArmRetry) → Policy.Delay →
//	                         armTimer → messages.TimerDue → EffectDial. Only the timer waits
//	a call that waits        Runtime.AwaitReady, which each new snapshot wakes
//	a takeover               supervisingActor.route → standbyManager.ready → Lifecycle.holds
//	                         (GuardStandbyReady) → execute → standbyManager.takeOver → report →
//	                         manager.onReport → manager.flush (one swap shows both)
//	a failure in a group     supervisingActor.reportGroup → groups.pass → groupActor.step →
//	                         groups.execute → groupOrder → group.Link.Take → step
//	a server falls asleep    rest.go: checkIdle → manager.mayRest → rest → incarnation.rest
//	a call wakes it          Runtime.Wake → wake → operate → step (InputWanted)
//	a list has changed       port.onNotice → refresher → supervisingActor.onRefreshed
//	a subscription           Runtime.Subscribe → subscriptionReconciler →
//	                         subscription.Subscriber.Reconcile
//	the same after a restart port.discover → subscriptionReconciler.applyAtStart
//
// # Who owns what
//
// Every fact has one owner, and the comment over each struct names it.
//
//	fact                                  owner             file
//	registrations, callers that wait      manager           manager.go, registration.go, overlap.go
//	groups and their members              manager           tree.go
//	what a group has ordered              groupActor        groups.go, internal/group
//	messages that wait for a manager      inbox             inbox.go
//	what readers see                      Snapshot, View    snapshot.go
//	state, epoch, budget of a server      supervising actor supervising_actor.go, report.go
//	the standby, what it replaced         standbyManager    standby_manager.go
//	the session                           port              port.go
//	  liveness probes                     prober            port.go
//	  list refreshes                      refresher         refresher.go
//	  when subscriptions are reconciled   subscriptionReconciler
//	                                                        subscription_reconciler.go
//	what the host wants to receive        subscription.Desired
//	                                                        internal/subscription
//	listen streams of a session           subscription.Listener
//	                                                        internal/subscription
//	how many calls run, which ones wait   limiter           incarnation.go
//	call counts of a registration         callStats         call.go
//	events and log lines that wait        events.Hub, events.Logger
//	                                                        internal/events
//
// The components of a port and of a supervising actor are named fields with methods of
// their own. Their fields are owned by the goroutine of the actor. Work that takes time
// (open, list, probe, reconcile, wait for a release) runs in a goroutine that recovers
// from panics, and comes back as a message.
//
// # Rules
//
//   - Receive never blocks: no I/O, no wait, no log writer. [Options.NewDialer] is called
//     there, so it must not block either.
//   - A restart is a new actor under a new name with the next epoch. The supervision
//     strategy of the actor library is Stop, everywhere.
//   - Each message that may arrive late carries a generation, an epoch or a timer token.
//     The receiver compares it, and drops what is stale.
//   - Calls pass through no mailbox: snapshot → incarnation → session.
//   - The manager publishes a snapshot before the events about it, and the events before
//     the replies to callers.
//
// # The inbox
//
// The actor library drops the mailbox of an actor that crashed. The manager must not lose
// a message, because a caller waits for the reply to it. So its messages wait in the
// inbox, outside the actor, and its mailbox carries only the signal that there are some.
// When a manager crashes, root spawns the next one. That finds the registrations and the
// unread messages, asks the actor "servers" which registrations exist, and continues. The message that
// crashed its manager is answered with an error, and never handled again.
//
// # Size
//
// This package is large because the actor library must appear in one package only, and
// the actors of one tree share the types of their messages and views. What needs no actor
// is in actors/internal.
package actors
