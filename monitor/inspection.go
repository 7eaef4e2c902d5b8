package monitor

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Inspection shows how the supervision of one server came to where it is, for people who look for a fault.
type Inspection struct {
	Server string           `json:"server"`
	Gen    uint64           `json:"gen"`
	State  supervisor.State `json:"state"`
	// Steps are the last 64 inputs of its lifecycle that had an effect, oldest first. Their names are those of
	// docs/lifecycle.md.
	Steps []Step `json:"steps"`
	// Inbox is how many messages wait for the manager of the client; usually 0.
	Inbox int `json:"inbox"`
	// Actors counts the actors of the client by kind: "manager", "servers", "groups", "group", "supervisor", "port".
	Actors map[string]int `json:"actors"`
}

// Step is one input of a lifecycle.
type Step struct {
	Time  time.Time `json:"time"`
	Input string    `json:"input"`
	// Epoch is the incarnation in service after the step.
	Epoch uint64 `json:"epoch"`
	// From and To are the states before and after. From is empty before the first input.
	From supervisor.State `json:"from,omitempty"`
	To   supervisor.State `json:"to"`
	// Effects are what the input led to, in order.
	Effects []string `json:"effects,omitempty"`
	// Cause is why a session ended or was to end; nil for other inputs. Of its message and of its stderr 1 KiB each is
	// kept, and not its Err.
	Cause *supervisor.Cause `json:"cause,omitempty"`
}
