package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Attention is one thing that an operator should look at.
type Attention struct {
	// Server is the name of the server.
	Server string `json:"server"`
	// Kind classifies it.
	Kind AttentionKind `json:"kind"`
	// Severity says how urgent it is.
	Severity Severity `json:"severity"`
	// Text says in one line what is the matter, without the name of the server.
	Text string `json:"text"`
	// Action says what to do about it.
	Action string `json:"action"`
	// Since is when it began; nil if that is not known.
	Since *time.Time `json:"since,omitempty"`
}

// Severity says how urgent an [Attention] is.
type Severity string

const (
	// SeverityError: the server does not come back by itself.
	SeverityError Severity = "error"
	// SeverityWarning: something fails now, or has failed and may have left an effect.
	SeverityWarning Severity = "warning"
	// SeverityNotice: worth knowing; calls work.
	SeverityNotice Severity = "notice"
)

// AttentionKind classifies an [Attention].
type AttentionKind string

const (
	// AttentionEvicted: the server was given up.
	AttentionEvicted AttentionKind = "evicted"
	// AttentionUnauthorized: the server waits for credentials.
	AttentionUnauthorized AttentionKind = "unauthorized"
	// AttentionParked: the attempts are spent; the server is tried again slowly.
	AttentionParked AttentionKind = "parked"
	// AttentionBackoff: the server waits for its next attempt.
	AttentionBackoff AttentionKind = "backoff"
	// AttentionFlapping: the server has ended several times in a short time.
	AttentionFlapping AttentionKind = "flapping"
	// AttentionSlowStart: a start takes long.
	AttentionSlowStart AttentionKind = "slow_start"
	// AttentionUnknownOutcome: calls have failed that the server may have executed.
	AttentionUnknownOutcome AttentionKind = "unknown_outcome"
	// AttentionSlowCalls: calls have been in flight for long.
	AttentionSlowCalls AttentionKind = "slow_calls"
	// AttentionQueued: calls wait because too many are in flight.
	AttentionQueued AttentionKind = "queued"
	// AttentionCatalog: some of what the server lists could not be used.
	AttentionCatalog AttentionKind = "catalog"
	// AttentionStandby: a server that shall have a standby has had none for a while.
	AttentionStandby AttentionKind = "standby"
	// AttentionAbandoned: requests are held although their contexts have ended.
	AttentionAbandoned AttentionKind = "abandoned_requests"
	// AttentionDiscarded: output or messages of the server could not be used.
	AttentionDiscarded AttentionKind = "discarded"
	// AttentionDeprecated: the session uses a deprecated transport or version.
	AttentionDeprecated AttentionKind = "deprecated"
	// AttentionRestarted: the server ended a short time ago, and is ready again.
	AttentionRestarted AttentionKind = "restarted"
)

// attentionOrder orders the kinds within one severity.
var attentionOrder = []AttentionKind{AttentionEvicted, AttentionUnauthorized, AttentionParked, AttentionFlapping, AttentionBackoff,
	AttentionUnknownOutcome, AttentionSlowStart, AttentionSlowCalls, AttentionQueued, AttentionStandby, AttentionAbandoned, AttentionCatalog,
	AttentionRestarted, AttentionDiscarded, AttentionDeprecated}

// attention lists what an operator should look at, the most urgent entry first. It is the
// only place that decides this: the page, the terminal view and the commands show it.
func (h *Handler) attention(at time.Time, servers []mcpvisor.ServerStatus) []Attention {
	f := facts{at: at, unknown: unknownOutcomes(at, h.client.UnknownCalls()), slow: slowCalls(at, h.client.CallsInFlight())}
	all := []Attention{}
	for i := range servers {
		all = append(all, f.about(&servers[i])...)
	}
	sortAttention(all)
	return all
}

// sortAttention puts the most urgent entries first, and keeps the order of servers.
func sortAttention(all []Attention) {
	severities := []Severity{SeverityError, SeverityWarning, SeverityNotice}
	slices.SortStableFunc(all, func(a, b Attention) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(slices.Index(attentionOrder, a.Kind), slices.Index(attentionOrder, b.Kind)))
	})
}
