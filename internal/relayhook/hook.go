// Package relayhook gives package facade/relay what package facade does not export. relay imports facade, so facade
// cannot name the types of relay, and embedders of facade must not see what only relay needs.
//
// Facade sets the two variables when the program starts. Relay asserts the values to interfaces of its own, whose
// methods have the types of facade: Functions once, when the program starts, and Methods for each client that it is
// asked for. So a method that facade does not have, or has with another signature, is a panic in every program
// and test that imports relay, and no call costs more than one through an interface. The types here are those that
// facade reads or fills in and relay shows, as aliases.
package relayhook

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

var (
	// Functions has the functions of relay that are no methods: see functions there.
	Functions any
	// Methods returns the methods of a *facade.Client: see relay.Methods.
	Methods func(client any) any
)

// CallSettings holds what the options of a call set, field by field. A facade.CallOption can only be given
// to a client of this process; CallSettings is for code that makes the call elsewhere, such as the
// client of a fleet, which passes it to another host. The zero value has the defaults of a client
// without options.
type CallSettings struct {
	// Timeout is that of WithTimeout; 0 means the default.
	Timeout time.Duration
	// WaitReady is set by WithWaitReady.
	WaitReady bool
	// WithoutValidation is set by the option of that name.
	WithoutValidation bool
	// Progress is that of WithProgress; nil for none.
	Progress func(mcpvisor.Progress)
	// Meta is that of WithMeta, without the members that a client sets itself, clientCapabilities
	// excepted; nil for none.
	Meta json.RawMessage
	// Handlers are those of WithCallHandlers or relay.WithHandlers; nil: those of the client.
	Handlers *transport.CallHandlers
	// LogMessages and LogLevel are those of WithLogMessages; nil for none.
	LogMessages func(mcpvisor.LogMessage)
	LogLevel    string
	// Relay is set by relay.WithRelay, and Continuation is its argument.
	Relay        bool
	Continuation Continuation
	// HasKey is set by WithKey and relay.WithKeyOf, and Key is what they name.
	HasKey bool
	Key    mcpvisor.JournalKey
	// ClientName is that of relay.WithClientName; empty for none.
	ClientName string
	// Principal is that of relay.WithPrincipal; empty for none.
	Principal string
	// TaskRelay is that of relay.WithTaskRelay; nil for none.
	TaskRelay *TaskRelay
	// WithoutTasks is set by relay.WithoutTasks.
	WithoutTasks bool
}

// Continuation carries the answers to one round of a call into the next. The zero Continuation begins a call.
type Continuation struct {
	// InputResponses is the JSON object of the answers, by the keys of InputRequests.
	InputResponses json.RawMessage
	// RequestState is that of the last InputRequired, byte for byte.
	RequestState json.RawMessage
}

// TaskRelay hands the task of one call to the caller.
type TaskRelay struct {
	// TTL is how long a server of 2025-11-25 is asked to keep the task. Default, and for 0 or less:
	// as long as the server wants.
	TTL time.Duration

	// Server and ID name the task that the server has made of the call, for Methods.TaskOf; Origin says
	// which of the tasks with that name it is, for WithTaskOrigin, and Modern that it is one of the
	// extension since 2026-07-28. They are set when the call returns; ID is empty if the server has made
	// no task.
	Server, ID, Origin string
	Modern             bool
}

// TaskAnswer is an answer of a server about a task.
type TaskAnswer struct {
	// JSON is the answer to tasks/get as the server has sent it. Do not modify it.
	JSON json.RawMessage
	// State is "working", "input_required", "completed", "failed" or "cancelled".
	State string
	// Modern: it is a task of the extension since 2026-07-28, and JSON has what came of it. What
	// came of one of 2025-11-25, Wait returns.
	Modern bool
}

// Ended reports whether the task has ended.
func (a TaskAnswer) Ended() bool { return task.Status(a.State).Final() }

// Catalog holds what one server offers. The lists are sorted; they and what they point to are
// shared: do not change them.
type Catalog struct {
	// Server is the name of the server.
	Server string `json:"server"`
	// Unavailable: the server is not ready, and the lists are the last that it offered.
	Unavailable bool `json:"unavailable,omitempty"`
	// Version changes whenever the lists are read again, and at every restart, even if the server
	// lists the same. If Version is the same, so are the lists.
	Version uint64 `json:"version"`
	// State is the state of the server.
	State supervisor.State `json:"state,omitempty"`
	// Instructions is the server's advice to a language model.
	Instructions string `json:"-"`
	// Tools and Prompts are sorted by OriginalName, Resources by URI and Templates by
	// URITemplate.
	Tools     []mcpvisor.Tool             `json:"tools"`
	Resources []mcpvisor.Resource         `json:"resources"`
	Templates []mcpvisor.ResourceTemplate `json:"templates"`
	Prompts   []mcpvisor.Prompt           `json:"prompts"`
}
