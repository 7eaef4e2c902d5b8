// Package httpbody reads the bodies of HTTP responses in bounded memory: JSON values,
// which may be complete before the body ends, and streams of server-sent events.
//
// A reader reserves memory for large content before it reads that content, by a [Reserver]
// that its owner sets. In this way the messages of all servers share one budget.
package httpbody
