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
// rest_for_one and one_for_all it also comes after all members before it. What it comes after must be ready:
// one that is asleep or resting is woken; for one that is stopped it waits, without a bound and without a
// failure. With one_for_one the order is that of the group's start only.
//
// # Failure
//
// A server's own budget comes first: it restarts its incarnations with the delays of its policy. Each failure
// counts towards the intensity of the group, and the strategy ends and starts its siblings, as planned and at no
// cost to their budgets. When the intensity is exceeded, or the budget of a member is spent, the group has
// failed: it ends all members, and is parked, evicted, or for its parent one failed member.
//
// # OTP, and here
//
// The judge (otp_test.go) is a model of the documentation of OTP's supervisor; random trees behave as it does,
// but for this:
//
//	the documentation of OTP says                        | here
//	-----------------------------------------------------+----------------------------------------------------
//	1 a child process that terminates is restarted       | after the delays of its policy (exponential); the
//	                                                     | group does not wait for one that is in its delay
//	                                                     | before it ends the others
//	2 more than MaxR restarts within MaxT seconds: the   | the group may be parked instead: it ends all members
//	  supervisor terminates all children and itself      | and starts them afresh later
//	3 (no such thing)                                    | a member has a budget of its own; when it is spent,
//	                                                     | the group has failed, whatever its intensity
//	4 a child that does not start when the supervisor    | the policy of the member decides how often it is
//	  starts makes the supervisor terminate              | tried; each try counts towards the intensity
//	5 terminate_child: the child may be restarted by the | only Start wakes a member that the operator stopped,
//	  supervisor later, and explicitly                   | and those that come after it wait for it
//	6 all child processes are restarted (one_for_all,    | a transient member that exited after its work rests
//	  rest_for_one)                                      | until something wants it; one that comes after it
//	                                                     | and starts does
//	7 init of the children is synchronous, in order      | with rest_for_one and one_for_all the same; with
//	                                                     | Parallel all at once; StartBound bounds the wait
//	8 a transient supervisor that terminates with        | a group is permanent or temporary
//	  shutdown is not restarted                          |
//	9 the specification of a temporary child is deleted  | it stays in the group, given up; it may be restarted,
//	  when it terminates                                 | and it starts again when its group starts afresh
//	10 the top supervisor terminates                     | a root that has failed is evicted as one and announced
package group
