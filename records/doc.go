// Package records is not part of the stable API. It keeps calls and events on disk, so that a later reader can see what
// happened, and whether it was changed since.
//
// A [Writer] appends records to a directory: one line of JSON each, in files of bounded size. Every line has a number and
// the hash of its content and of the line before it (SHA-256). The last number and hash are also in the anchor, a file in a
// second place that is replaced at most a second after each record. [Verify] compares both: a line that was changed, removed,
// inserted or moved, and an end that was cut off, are errors that name the line. With a key (HMAC) those who can write both
// places, and do not have the key, cannot make another chain; they can only put an earlier state of both back.
//
// Secrets are masked before a record is hashed or written. A writer that falls behind drops records, or has calls wait, as
// [Options.WhenFull] says; what is dropped is counted in a record. [Read] finds records, also while a writer runs.
package records
