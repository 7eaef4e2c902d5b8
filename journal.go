package mcpvisor

import (
	"context"
	"encoding/json"
	"time"
)

// Journal keeps the calls that were made with a key (facade.WithKey) beyond the end of the host.
// Package journal, a module of its own, has an implementation in a file. A client uses only these
// four methods, and never runs two of them for one key at once.
//
// The methods must be safe for concurrent use, and return when ctx ends. If Put or Delete fails,
// the change may have been made, or may still be made before the next change of the same key.
type Journal interface {
	// Get returns the entry of a key; false if there is none, or if it has expired.
	Get(ctx context.Context, key string) (JournalEntry, bool, error)
	// Put stores the entry in place of the one with its key. It returns once the entry survives
	// the end of the process and of the machine.
	Put(ctx context.Context, e JournalEntry) error
	// Delete removes the entry of a key, if there is one.
	Delete(ctx context.Context, key string) error
	// Entries returns all entries without Arguments and Result, the oldest first.
	Entries(ctx context.Context) ([]JournalEntry, error)
}

// JournalEntry is the record of one call in a [Journal].
type JournalEntry struct {
	// Key is the name that the caller gave the call.
	Key string `json:"key"`
	// Server is the name of the server, and Tool the server's own name of the tool.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// State says how far the call got.
	State JournalState `json:"state"`
	// Began is when the call was made, Updated when the entry was written last.
	Began   time.Time `json:"began"`
	Updated time.Time `json:"updated"`
	// TaskID is the id that the server gave the task of the call; empty without a task. It is a
	// secret: some servers accept it as the only credential.
	TaskID string `json:"-"`
	// TaskCreated is when the server made the task, as it said; zero if it did not. A task with
	// that id that was made at another time is another one.
	TaskCreated time.Time `json:"-"`
	// Target is a digest of what the server runs or reaches, without secrets, and Incarnation names
	// the process or session of it that made the task; both are empty without a task. The task is
	// asked for at no other server.
	Target      string `json:"-"`
	Incarnation string `json:"-"`
	// Digest is the SHA-256 of the arguments in hexadecimal. Arguments is their JSON, in which
	// *** replaces the secrets of the server's specification. [JournalKeep] says which are kept;
	// the others are empty.
	Digest    string          `json:"digest,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// ResultDigest is the SHA-256 of the result in hexadecimal, ResultBytes its length in bytes,
	// and Result its JSON, with secrets replaced as in Arguments. JournalKeep says which are
	// kept.
	ResultDigest string          `json:"resultDigest,omitempty"`
	ResultBytes  int             `json:"resultBytes,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
	// Error is the error in which the call ended; nil if it has not ended or has a result.
	Error *JournalError `json:"error,omitempty"`
}

// JournalError is the error of a call as a [Journal] keeps it.
type JournalError struct {
	// Kind and Outcome are those of the [Error].
	Kind    ErrorKind `json:"kind"`
	Outcome Outcome   `json:"outcome"`
	// Text is the cause in one line.
	Text string `json:"text"`
	// Code and Data are those of the server's error, if Kind is KindRPC.
	Code int64           `json:"code,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// JournalState says how far a call with a key got.
type JournalState string

const (
	// JournalSent: the call may have been sent, and has no answer yet.
	JournalSent JournalState = "sent"
	// JournalTask: the server executes the call as a task, which a client can follow.
	JournalTask JournalState = "task"
	// JournalEnded: the call has a result or an error.
	JournalEnded JournalState = "ended"
)

// JournalKeep says what a [Journal] keeps of arguments and results.
type JournalKeep string

const (
	// JournalKeepAll keeps arguments and results. The secrets of the server's specification are
	// replaced by ***, as in the log.
	JournalKeepAll JournalKeep = "all"
	// JournalKeepDigests keeps only digests. Use of a key for another call is detected, but a
	// result cannot be returned a second time.
	JournalKeepDigests JournalKeep = "digests"
	// JournalKeepNothing keeps neither values nor digests: use of a key with other arguments is
	// not detected.
	JournalKeepNothing JournalKeep = "nothing"
)
