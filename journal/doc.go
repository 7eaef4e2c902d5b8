// Package journal keeps the calls with a key of an mcpvisor client in a file, so that they are
// executed at most once and their results are found again after the end of the host, kill -9
// included. It is a module of its own; only its users link the database (bbolt).
//
// docs/tasks.md says what a call gets after which fault, and
// docs/adr/0012-the-journal-is-written-first.md in which order things are written. Read
// journal.go first, then record.go (what an entry is on disk), open.go and verify.go (how a
// damaged file is found).
package journal
