package relay

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// functions are what package facade carries out for this package beside [Methods]; see package relayhook.
type functions interface { //nolint:interfacebloat // facade implements all functions by one value, and is the only one
	WithRelay(next Continuation) facade.CallOption
	WithHandlers(h *transport.CallHandlers) facade.CallOption
	WithTaskRelay(t *TaskRelay) facade.CallOption
	WithTaskOrigin(origin string) facade.CallOption
	WithoutTasks() facade.CallOption
	WithKeyOf(principal, key string) facade.CallOption
	WithClientName(name string) facade.CallOption
	WithPrincipal(name string) facade.CallOption
	WithResultRoom(share *budget.Share) facade.CallOption
	WithSettings(s *CallSettings) facade.CallOption
	SettingsOf(s CallSettings, opts []facade.CallOption) (CallSettings, error)
	WithUnaskedHandlers(h *transport.CallHandlers) facade.Option
	WithEra(era mcpvisor.Era) facade.Option
	WithDialer(h *dial.Hook) facade.Option
	AskTask(ctx context.Context, t *facade.Task) (TaskAnswer, error)
	RespondToTask(ctx context.Context, t *facade.Task, responses json.RawMessage) error
	WatchTask(ctx context.Context, t *facade.Task, f func(TaskAnswer)) error
}

var hook = relayhook.Functions.(functions)

// CallSettings holds what the options of a call set, field by field, for code that makes the call elsewhere. The zero
// value has the defaults of a client without options.
type CallSettings = relayhook.CallSettings

// SettingsOf returns the settings with those of the options in place. The error is that of an option
// that cannot work: the call would fail with ErrInvalid.
func SettingsOf(s CallSettings, opts ...facade.CallOption) (CallSettings, error) {
	if len(opts) == 0 {
		return s, nil
	}
	return hook.SettingsOf(s, opts)
}

// WithSettings sets what the settings say, whatever the defaults of the client. They must not change
// before the call has returned.
func WithSettings(s *CallSettings) facade.CallOption { return hook.WithSettings(s) }

// WithClientName says for which client of the host the call is made; records of ended calls name it
// (monitor.CallRecord.Client). Servers are not told. It is cut to 256 bytes of one line. Default:
// no name.
func WithClientName(name string) facade.CallOption { return hook.WithClientName(name) }

// WithPrincipal says for which principal, as a token or a certificate names it, the call is made: [mcpvisor.GuardedCall] names it, and
// ended calls do, cut as the name of WithClientName is. Servers are not told, and no key belongs to it: see [WithKeyOf].
// Default: none; for ended calls, that of the key.
func WithPrincipal(name string) facade.CallOption { return hook.WithPrincipal(name) }

// WithKeyOf is [facade.WithKey] for a call that the host passes on for a principal: equal keys of different
// principals are different keys.
func WithKeyOf(principal, key string) facade.CallOption { return hook.WithKeyOf(principal, key) }

// ResultRoom is the part of Limits.MaxBufferBytes and [facade.WithMaxBufferBytes] that the result of a
// call holds; see [WithResultRoom]. It belongs to one call.
type ResultRoom struct{ share budget.Share }

// Release gives the room back. Further calls do nothing.
func (r *ResultRoom) Release() { r.share.Release() }

// WithResultRoom keeps what a large result (64 KiB or more) holds of Limits.MaxBufferBytes and
// [facade.WithMaxBufferBytes] until room.Release, which must be called after the call has returned, with a
// result or an error. By default it is given back when the result is read. It is for hosts that
// pass results on more slowly than servers send them: further large results then wait in the pipes and
// connections of the servers, and not in the memory of the host. It works for CallToolRaw,
// ReadResourceRaw, GetPromptRaw and CompleteRaw, and has no effect with interceptors that change the
// result, or on results that the journal answers.
func WithResultRoom(room *ResultRoom) facade.CallOption { return hook.WithResultRoom(&room.share) }

// WithEra sets the era of the servers whose spec leaves it open. It is for a copy
// ([Methods].CopyServer) that serves clients of that era. Default: EraAuto.
func WithEra(era mcpvisor.Era) facade.Option { return hook.WithEra(era) }

// WithDialer makes h choose how each server is reached, in place of the transport that its spec
// names. The fleet uses it, because a server of a fleet is a process of this host and of others by turns.
// Default: the transport of the spec.
func WithDialer(h *dial.Hook) facade.Option { return hook.WithDialer(h) }

// Handlers answer the requests of servers as they were sent, to pass them on to the client for which a call is made.
//
// Calls with the same *Handlers have the same answerer: use one *Handlers for all calls of one user. Do not change or copy
// a Handlers after its first call.
type Handlers struct {
	// Raw answers sampling/createMessage, elicitation/create and roots/list. An error that is a *jsonrpc.Error of the
	// go-sdk reaches the server as it is. Its contexts are as those of facade.CallHandlers. Default, and for nil: each
	// request is refused.
	Raw func(ctx context.Context, r ServerRequest) (json.RawMessage, error)
	// RawAnswers says what Raw answers; the handlers of the client answer the rest. Default, the
	// zero Declared: Raw answers everything.
	RawAnswers facade.Declared

	once sync.Once // makes made
	made transport.CallHandlers
}

// ServerRequest is a request of a server as it was sent.
type ServerRequest struct {
	// Server is the name of the server that sent it.
	Server string
	// Method is sampling/createMessage, elicitation/create or roots/list.
	Method string
	// Params are the bytes that the server sent, nil if it sent none. Only their length was
	// checked: a URL in them may have any scheme, and a schema any form. Do not keep them.
	Params json.RawMessage
}

// WithHandlers is [facade.WithCallHandlers] for raw handlers; its comment says when a request is known to belong to
// the call. Default, and for nil: the handlers of the client.
func WithHandlers(h *Handlers) facade.CallOption { return hook.WithHandlers(h.transport()) }

// WithUnaskedHandlers lets h answer the requests of servers before 2026-07-28 that belong to no call
// with handlers of its own, for example because no call is in flight. What h does not answer
// (RawAnswers) is left to the handlers of the client. Only what the client declares is answered: use
// it with [facade.WithDeclared]. It is for a client that has all its servers for one peer, such as one of
// [Methods].CopyServer. Default, and for nil: the handlers of the client.
func WithUnaskedHandlers(h *Handlers) facade.Option { return hook.WithUnaskedHandlers(h.transport()) }

// transport returns the handlers as sessions call them, always the same ones; nil for nil.
func (h *Handlers) transport() *transport.CallHandlers {
	if h == nil {
		return nil
	}
	h.once.Do(func() {
		if h.Raw == nil {
			return
		}
		d := h.RawAnswers
		h.made.RawOffer = transport.Offer{Sample: d.Sampling, SampleTools: d.SamplingTools, ElicitForm: d.Elicitation, ElicitURL: d.URLElicitation, Roots: d.Roots}
		h.made.Raw = func(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, error) {
			return h.Raw(ctx, ServerRequest{server, method, params})
		}
	})
	return &h.made
}
