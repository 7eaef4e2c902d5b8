// Package actors says who owns what. The manager owns the registries and is
// the only one to change them; one supervising actor per registration owns
// policy, epoch and timer; one port, the transport actor, owns the session of
// one incarnation.
//
//	root
//	├─ manager                         sole writer of the registries
//	└─ servers                         dumb parent: sessions outlive a manager
//	   └─ supervisor <name>.<gen>      runs supervisor.Lifecycle, owns the timer
//	      └─ port <name>.<gen>.<epoch> one session, one life
//
// Supervision is Stop everywhere: a restart is a new actor under a new name,
// never an old one resumed. Receive never blocks. Readers and callers do not
// come here at all: they use the [Snapshot] that the manager publishes, so a
// call goes snapshot → incarnation → session, through no mailbox.
//
// The actor library appears in this package and nowhere else.
package actors
