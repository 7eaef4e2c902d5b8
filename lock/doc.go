// Package lock is not part of the stable API. It pins what MCP servers offer, so that a server that was changed is not listed
// before a person has looked.
//
// A lock [File] (mcpvisor.lock, in the user's repository) has, for each server, what was approved: every tool, prompt and
// resource template as the server sent it, its instructions, and what is started. A [Guard] compares each offer with it
// before anything is listed; give it to facade.WithCatalogGuard. What differs is withheld alone, and the rest is listed.
// The order of the members of an object and white space do not count; everything else does.
//
// A [Recorder] notes what servers offer, to make a file of it, and [Compare] says in which values two versions of a server
// differ. Nothing is approved by itself: not by a start, and not by a list that was kept.
package lock
