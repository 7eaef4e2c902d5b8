package chaos

import (
	"slices"
	"time"
)

// ReportSchema names the shape of a [Report] in JSON. Within one schema, fields are only added.
const ReportSchema = "chaos/v1"

// Report holds the findings of a storm.
type Report struct {
	// Schema is ReportSchema.
	Schema string `json:"schema"`
	// Seed repeats the storm.
	Seed uint64 `json:"seed"`
	// Took is how long the storm lasted, starts and ends included.
	Took time.Duration `json:"tookNs"`
	// Servers has one entry for each server, sorted by name.
	Servers []ServerReport `json:"servers"`
}

// Passed reports whether every server passed.
func (r Report) Passed() bool {
	return !slices.ContainsFunc(r.Servers, func(s ServerReport) bool { return !s.Passed })
}

// ServerReport holds the findings of a storm about one server.
type ServerReport struct {
	Server string `json:"server"`
	// Transport is that of mcpvisor.ServerSpec.TransportKind.
	Transport string `json:"transport"`
	// Passed: there are no findings. Calls were answered, or its lists were read if no tool of
	// it could be called.
	Passed bool `json:"passed"`
	// Findings name what the server did wrong, one for each kind.
	Findings []Finding `json:"findings,omitempty"`
	// Notes say what was left out, and why.
	Notes []string `json:"notes,omitempty"`
	// Faults counts the faults that the server got, by name.
	Faults map[string]int `json:"faults,omitempty"`
	// Tools are the tools that were called.
	Tools []string `json:"tools,omitempty"`
	// Calls counts the calls.
	Calls CallCounts `json:"calls"`
	// Noticed is how long it took from a kill until the client knew, and Ready until the
	// server was ready again.
	Noticed Times `json:"noticed"`
	Ready   Times `json:"ready"`
}

// Finding is one thing that a server did wrong.
type Finding struct {
	Kind FindingKind `json:"kind"`
	// Count is how often it happened.
	Count int `json:"count"`
	// Text says what happened the first time, and Stderr what the server wrote to stderr before
	// it.
	Text   string   `json:"text"`
	Stderr []string `json:"stderr,omitempty"`
	// Hint says what to do about it; may be empty.
	Hint string `json:"hint,omitempty"`
}

// FindingKind says what a server did wrong.
type FindingKind string

const (
	// FindingNotStarted: the first start failed, or took longer than Options.StartTimeout. The
	// server got no faults.
	FindingNotStarted FindingKind = "not_started"
	// FindingNotRestarted: the server did not become ready again after a fault. It got no
	// more of them.
	FindingNotRestarted FindingKind = "not_restarted"
	// FindingListsDiffer: the lists after a restart are not those before it.
	FindingListsDiffer FindingKind = "lists_differ"
	// FindingLeftBehind: a process that the server had started ran on after its end.
	FindingLeftBehind FindingKind = "left_behind"
	// FindingUnasked: the server sent answers or progress that no request waited for, or answered
	// a call twice, while no call was given up that it might still have answered.
	FindingUnasked FindingKind = "unasked_answers"
	// FindingDied: the server ended by itself, under calls or after a SIGCONT.
	FindingDied FindingKind = "died"
	// FindingCallsHung: calls did not return by their timeout.
	FindingCallsHung FindingKind = "calls_hung"
	// FindingNoAnswer: no call got a result without an error, so that nothing is known about
	// how the server answers in a storm. A server with other findings does not have it.
	FindingNoAnswer FindingKind = "no_answer"
	// FindingNotTested: Run was canceled before a call was answered, or before the first fault.
	FindingNotTested FindingKind = "not_tested"
)

// CallCounts counts the calls of one server.
type CallCounts struct {
	// OK counts results, ToolErrors those of them in which the tool reports an error.
	OK         int `json:"ok"`
	ToolErrors int `json:"toolErrors,omitempty"`
	// Failed counts errors by kind and outcome, as in "crashed unknown". During faults they
	// are expected.
	Failed map[string]int `json:"failed,omitempty"`
}

// Times sums up durations. All are 0 if Count is.
type Times struct {
	Count  int           `json:"count"`
	Median time.Duration `json:"medianNs"`
	Max    time.Duration `json:"maxNs"`
}

func timesOf(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	slices.Sort(all)
	return Times{Count: len(all), Median: all[len(all)/2], Max: all[len(all)-1]}
}
