package facade

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// CallSettings is what the options of a call set, field by field. A [CallOption] can only be given
// to a client of this process; CallSettings is for code that makes the call elsewhere, such as the
// client of a fleet, which passes it to another host. The zero value has the defaults of a client
// without options.
type CallSettings struct {
	// Timeout is that of WithTimeout; 0 means the default.
	Timeout time.Duration
	// WaitReady is set by WithWaitReady, and cleared by WithoutWaitReady.
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
	// Relay is set by WithRelay, and Continuation is what it was given.
	Relay        bool
	Continuation Continuation
	// HasKey is set by WithKey, and Key is what it was given.
	HasKey bool
	Key    string
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
	o := callOptions{timeout: s.Timeout, waitReady: s.WaitReady, validate: !s.WithoutValidation, progress: s.Progress, meta: s.Meta,
		handlers: s.Handlers, log: s.LogMessages, logLevel: s.LogLevel, relay: s.Relay, next: s.Continuation, hasKey: s.HasKey, key: s.Key, client: s.ClientName,
		taskRelay: s.TaskRelay, noTasks: s.WithoutTasks}
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
		o.meta = mergeMeta(own, o.meta)
	}
	return CallSettings{Timeout: o.timeout, WaitReady: o.waitReady, WithoutValidation: !o.validate, Progress: o.progress, Meta: o.meta,
		Handlers: o.handlers, LogMessages: o.log, LogLevel: o.logLevel, Relay: o.relay, Continuation: o.next, HasKey: o.hasKey, Key: o.key, ClientName: o.client,
		TaskRelay: o.taskRelay, WithoutTasks: o.noTasks}, o.err
}

// Options returns options that set what the settings say, whatever the defaults of the client.
func (s CallSettings) Options() []CallOption {
	opts := []CallOption{WithoutWaitReady(), WithTimeout(s.Timeout)}
	if s.WaitReady {
		opts[0] = WithWaitReady()
	}
	if s.WithoutValidation {
		opts = append(opts, WithoutValidation())
	}
	if s.Progress != nil {
		opts = append(opts, WithProgress(s.Progress))
	}
	if s.Meta != nil {
		opts = append(opts, WithMeta(s.Meta))
	}
	if s.Handlers != nil {
		opts = append(opts, WithCallHandlers(s.Handlers))
	}
	if s.LogMessages != nil {
		opts = append(opts, WithLogMessages(s.LogLevel, s.LogMessages))
	}
	if s.Relay {
		opts = append(opts, WithRelay(s.Continuation))
	}
	if s.HasKey {
		opts = append(opts, WithKey(s.Key))
	}
	if s.ClientName != "" {
		opts = append(opts, WithClientName(s.ClientName))
	}
	if s.TaskRelay != nil {
		opts = append(opts, WithTaskRelay(s.TaskRelay))
	}
	if s.WithoutTasks {
		opts = append(opts, WithoutTasks())
	}
	return opts
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
