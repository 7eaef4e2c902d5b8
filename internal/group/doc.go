// Package group decides which servers of a group end, start and are given up together, and in which order. Like
// internal/lifecycle it carries nothing out: no goroutine, no clock, no I/O. The actors carry it out (actors/groups.go).
//
// # One group
//
// A [Group] is the state machine of one group. Its members are servers, each with a lifecycle of its own, and
// groups. They send it their [Report]; it sends them each an [Order] with a number ([EffectOrder]). A server
// translates an order for its lifecycle with [Link.Take], and answers with [ReportOf]; a nested group takes it
// as [InputParent], and answers with [EffectReport]. A member reports whenever something changes, and after
// each order that it takes. Reports of one member arrive in their order; orders to one member, too.
//
// A report has everything that a group must know, so a group that panicked is made again with [New] and what
// its members report. The machine decides by facts and not by phases: [Group.Step] notes what happened, and
// advance does what the facts allow. The table of the facts is rules, in report.go.
//
// Crossings: a report carries the number of the last order that its member has taken. One that answers an older
// order than the last is stale. A member that ends holds itself, so that each start asks the group and crosses nothing.
//
// # Order
//
// Members start in order, the next when the one before it is ready or settled, or after StartBound. They end in
// reverse, each after the one behind it has ended. A member comes after what Member.After names; with
// rest_for_one and one_for_all it also comes after all members before it. What it comes after must be ready, a group with all
// its members: one that is asleep or resting is woken; for one that is stopped it waits, without a bound and without a
// failure. With one_for_one the order is that of the group's start only.
//
// # Failure
//
// A server's own budget comes first: it restarts its incarnations with the delays of its policy. Each failure
// counts towards the intensity of the group, and the strategy ends and starts its siblings, as planned and at no
// cost to their budgets. When the intensity is exceeded, or the budget of a member is spent, the group has
// failed: it ends all members, and is parked, evicted, or for its parent one failed member.
//
// # OTP
//
// The judge (otp_test.go) is a model of the documentation of OTP's supervisor; random trees behave as it does, but
// for what docs/supervision-trees.md lists.
package group
