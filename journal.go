package mcpvisor

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Journal keeps the calls that were made with a key (facade.WithKey) beyond the end of the host.
// Package journal, a module of its own, has an implementation in a file. [JournalLocks], embedded
// in another store, is its Lock and its Hold. Clients that share a store execute each key once
// between them, so all of them must use one value, or values with the same locks.
//
// The methods must be safe for concurrent use. Get, Put, Delete and Entries return when ctx ends; a
// client does not guard against one that does not. If Put or Delete fails, the change may have been
// made, or may still be made before the next change of the same key. A client changes a key only
// while it has locked it.
type Journal interface {
	// Lock waits until no other caller of this store has the key locked, and returns the function
	// that unlocks it. While a key is locked, its entry does not expire. That function must not block.
	Lock(ctx context.Context, key JournalKey) (unlock func(), err error)
	// Hold keeps the entry of a key from expiring until release is called: its task is followed.
	// Several may hold a key, whether it is locked or not. Hold and release must not block.
	Hold(key JournalKey) (release func())
	// Get returns the entry of a key; false if the key has no entry, or an expired one.
	Get(ctx context.Context, key JournalKey) (JournalEntry, bool, error)
	// Put stores the entry in place of the one with its key. It returns once the entry survives
	// the end of the process and of the machine.
	Put(ctx context.Context, e JournalEntry) error
	// Delete removes the entry of a key, if there is one.
	Delete(ctx context.Context, key JournalKey) error
	// Entries returns all entries without Arguments and Result, the oldest first.
	Entries(ctx context.Context) ([]JournalEntry, error)
}

// ErrJournalFull is the error of a Put that has stored nothing, because the [Journal] has no room for a
// new key.
var ErrJournalFull = errors.New("the journal is full")

// JournalKey names a call in a [Journal]. Equal keys of different principals are different calls.
type JournalKey struct {
	// Principal made the call through a gateway; empty: the host itself made it.
	Principal string `json:"principal,omitempty"`
	// Key is the name that the caller gave the call.
	Key string `json:"key"`
}

// String returns the key for a reader, as in "order-1 of alice".
func (k JournalKey) String() string {
	if k.Principal == "" {
		return k.Key
	}
	return k.Key + " of " + k.Principal
}

// JournalEntry is the record of one call in a [Journal].
type JournalEntry struct {
	// Principal and Key are those of the [JournalKey].
	Principal string `json:"principal,omitempty"`
	Key       string `json:"key"`
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
	// Resolved says who has stated what became of the call, and of an earlier one with its key that was
	// not executed; nil without a statement.
	Resolved *JournalResolution `json:"resolved,omitempty"`
	// Open: a call with the key is being made, or its task is followed. The store sets it and does
	// not keep it. Get, whose caller has locked the key itself, sets it if the key is held; Entries
	// sets it if the key is locked or held.
	Open bool `json:"open,omitempty"`
}

// JournalKey returns the key of the entry.
func (e *JournalEntry) JournalKey() JournalKey { return JournalKey{e.Principal, e.Key} }

// JournalResolution is the record of facade.Client.ResolveKey in a [Journal].
type JournalResolution struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// JournalError is the error of a call as a [Journal] keeps it.
type JournalError struct {
	// Kind and Outcome are those of the [Error].
	Kind    ErrorKind `json:"kind"`
	Outcome Outcome   `json:"outcome"`
	// Text is the cause in one line.
	Text string `json:"text"`
	// Code and Data are those of the server's error, if Kind is ErrRPC.
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
	// JournalNotRun: an operator has stated that the server did not execute the call. The next call
	// with the key is a new one.
	JournalNotRun JournalState = "not_run"
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
