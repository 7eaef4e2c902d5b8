// Package discovery is not part of the stable API. It lists what a server offers:
// its tools, resources, resource templates and prompts, all pages of each.
//
// It sees a server as a [transport.Session] and knows no transport. What a
// transport demands of a tool, the session checks itself; see
// [transport.Session].
//
// # What goes wrong
//
// A server is not trusted to list itself well. A list that it answers badly, or
// an entry that cannot be read, is left out with a warning; the rest is offered.
// Names, descriptions and members that decode to much are bounded, and so are the
// number of pages and entries and the bytes of all lists together (bounds.go).
//
// Some failures are errors of the whole discovery: the death of the session, the
// end of the context, every list failing, and an outage on the way to the server.
// Another attempt may succeed, and a catalog without the missing list would look
// complete.
package discovery
