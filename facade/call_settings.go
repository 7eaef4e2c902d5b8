package facade

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// CallSettings holds what the options of a call set, field by field. A [CallOption] can only be given
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
	// Handlers are those of WithCallHandlers; nil: those of the client.
	Handlers *CallHandlers
	// LogMessages and LogLevel are those of WithLogMessages; nil for none.
	LogMessages func(mcpvisor.LogMessage)
	LogLevel    string
	// Relay is set by WithRelay, and Continuation is its argument.
	Relay        bool
	Continuation Continuation
	// HasKey is set by WithKey and WithKeyOf, and Key is what they name.
	HasKey bool
	Key    mcpvisor.JournalKey
	// ClientName is that of WithClientName; empty for none.
	ClientName string
	// TaskRelay is that of WithTaskRelay; nil for none.
	TaskRelay *TaskRelay
	// WithoutTasks is set by the option of that name.
	WithoutTasks bool
}

// With returns the settings with those of the options in place. The error is that of an option
// that cannot work: the call would fail with ErrInvalid.
func (s CallSettings) With(opts ...CallOption) (CallSettings, error) {
	if len(opts) == 0 {
		return s, nil
	}
	o := callOptions{CallSettings: s}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.capabilities != nil {
		own, err := json.Marshal(map[string]json.RawMessage{mcp.MetaKeyClientCapabilities: o.capabilities})
		if err != nil {
			return s, err
		}
		o.Meta = mergeMeta(own, o.Meta)
	}
	return o.CallSettings, o.err
}

// Options returns options that set what the settings say, whatever the defaults of the client.
func (s CallSettings) Options() []CallOption { return []CallOption{WithSettings(&s)} }

// WithSettings sets what the settings say, whatever the defaults of the client. They must not change
// before the call has returned.
func WithSettings(s *CallSettings) CallOption {
	return func(o *callOptions) {
		o.WaitReady, o.Timeout, o.WithoutTasks, o.TaskRelay = s.WaitReady, s.Timeout, s.WithoutTasks, s.TaskRelay
		o.WithoutValidation = o.WithoutValidation || s.WithoutValidation
		o.Progress, o.Handlers, o.Key, o.HasKey = s.Progress, s.Handlers, s.Key, s.HasKey
		if s.Meta != nil {
			WithMeta(s.Meta)(o)
		}
		if s.LogMessages != nil {
			WithLogMessages(s.LogLevel, s.LogMessages)(o)
		}
		if s.Relay {
			WithRelay(s.Continuation)(o)
		}
		if s.ClientName != "" {
			WithClientName(s.ClientName)(o)
		}
	}
}

// ResultRoom is the part of Limits.MaxBufferBytes and [WithMaxBufferBytes] that the result of a
// call holds; see [WithResultRoom]. It belongs to one call.
type ResultRoom struct{ share budget.Share }

// Release gives the room back. Further calls do nothing.
func (r *ResultRoom) Release() { r.share.Release() }

// WithResultRoom keeps what a large result (64 KiB or more) holds of Limits.MaxBufferBytes and
// [WithMaxBufferBytes] until room.Release, which must be called after the call has returned, with a
// result or an error. By default it is given back when the result is read. It is for hosts that
// pass results on more slowly than servers send them: further large results then wait in the pipes and
// connections of the servers, and not in the memory of the host. It works for CallToolRaw,
// ReadResourceRaw, GetPromptRaw and CompleteRaw, and has no effect with interceptors that change the
// result, or on results that the journal answers.
func WithResultRoom(room *ResultRoom) CallOption { return func(o *callOptions) { o.room = room } }
