// Package rules is not part of the stable API. It decides which calls of tools are sent: by rules over the caller, the server,
// the tool and its annotations, the first of which that matches says allow, ask or deny.
//
// A [Set] is a list of rules, and a [Gate] applies it: give the gate to facade.WithCallGuard. A call that a rule asks about
// waits for an [Asker] of the host, such as a [Desk], at which persons decide. What is approved is one call with exact bytes of
// arguments, for a limited time: further attempts to send that call need no second approval, and another call does. Whatever
// goes wrong refuses the call: a panic, an error or a timeout of the asker, no asker, or too many open questions.
package rules
