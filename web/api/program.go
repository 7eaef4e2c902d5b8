package api

import (
	"context"
	"encoding/json"
	"time"
)

// Program is what the program that serves a page adds to it; see web.WithProgram. Each function is called by several
// goroutines at once and must not block; nil adds nothing.
type Program struct {
	// Attention adds to what needs attention, such as a configuration file that cannot be used. It is called for each status.
	Attention func() []Attention
	// Fleet is what the client knows as a node of a fleet: which nodes there are, and which of them runs each server.
	// nil: the client is no node of one.
	Fleet func() FleetStatus
	// Approvals are the calls that wait for a decision, the oldest first, and Decide decides about one of them; its error says
	// that it is not open. nil: no call waits.
	Approvals func() []Approval
	Decide    func(id string, approve bool, reason string) error
	// Records returns the recorded calls or events that a query selects, the last first, as docs/records.md describes them.
	// nil: none are kept. One search runs at a time.
	Records func(ctx context.Context, q RecordsQuery) ([]json.RawMessage, error)
	// Leaving lets /readyz answer as after the Close of the client once it returns true: a program that ends its work
	// first says so, and should get no new one.
	Leaving func() bool
	// Terms replaces words in every text about what failed, and what to do about it: in causes, events, errors, and what
	// needs attention. The library's texts name what a Go program sets, such as Timeouts.Start.
	Terms func(text string) string
	// Mask hides in what a server says about its tools the secrets that it is known to repeat. It gets texts, and JSON.
	Mask func(server, text string) string
	// Change says how a registration differs from the one before of the same name, in one line without secrets; empty if
	// it is not known. It is added to the event of the registration.
	Change func(server string, gen uint64) string
}

// RecordsQuery selects records for [Program].Records. Zero fields select all.
type RecordsQuery struct {
	// Events: events are wanted, and decisions about calls, starts and ends of the program; otherwise calls.
	Events bool
	// Text has words that a record has, in letters of either case.
	Text string
	// Server is the name of the server.
	Server string
	// Unknown selects calls that the server may have executed, although they failed.
	Unknown bool
	// Since selects records of that time and later ones.
	Since time.Time
	// Last is how many are wanted; it is set.
	Last int
}

// Records is the answer of GET api/records.
type Records struct {
	// Records are those that were found, the last first, as docs/records.md describes them.
	Records []json.RawMessage `json:"records"`
}
