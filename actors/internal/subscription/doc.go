// Package subscription keeps one session in line with what the host asked to
// receive from its server: updates of resources, and log messages.
//
// [Desired] holds what the host asked for. It belongs to a registration, outlives
// its sessions, and has a version. A [Subscriber] belongs to one session. It
// compares the desired state with what its server has accepted, sends the
// difference, and answers the callers that wait:
//
//   - Until protocol version 2025-11-25 it sends one request for each resource
//     (resources/subscribe, resources/unsubscribe) and one for the log level
//     (logging/setLevel).
//   - Since 2026-07-28 its [Listener] holds streams open (subscriptions/listen): one
//     about the lists, and some about resources. The log level travels with every
//     request.
//
// A rejected resource costs only itself. What failed without a clear answer, or was
// rejected when a session started, is reported as RetryNeeded; the owner decides
// when [Subscriber.Reconcile] runs again.
package subscription
