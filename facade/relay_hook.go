package facade

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// Package facade/relay has the types, the options and the methods that only programs need which pass calls of others
// on. It documents them; package relayhook says how they get there.

func init() { //nolint:gochecknoinits // see package relayhook
	relayhook.Functions = relayFunctions{}
	relayhook.Methods = func(client any) any { return relayed{client.(*Client)} }
}

// relayed is a Client with the methods of relay.Methods. They are in the files of their topics.
type relayed struct{ *Client }

// relayFunctions has the functions of package relay that are no methods of a client.
type relayFunctions struct{}

func (relayFunctions) WithRelay(next relayhook.Continuation) CallOption {
	return func(o *callOptions) {
		o.Relay, o.Continuation = true, relayhook.Continuation{InputResponses: bytes.TrimSpace(next.InputResponses), RequestState: bytes.TrimSpace(next.RequestState)}
		if err := checkRound(o.Continuation); err != nil {
			o.err = err
		}
	}
}

func (relayFunctions) WithHandlers(h *transport.CallHandlers) CallOption {
	return func(o *callOptions) { o.Handlers = h }
}

func (relayFunctions) WithTaskRelay(t *relayhook.TaskRelay) CallOption {
	return func(o *callOptions) { o.TaskRelay = t }
}

func (relayFunctions) WithTaskOrigin(origin string) CallOption {
	return func(o *callOptions) { o.taskOrigin = readTaskOrigin(origin) }
}

func (relayFunctions) WithoutTasks() CallOption {
	return func(o *callOptions) { o.WithoutTasks = true }
}

func (relayFunctions) WithKeyOf(principal, key string) CallOption {
	return func(o *callOptions) { o.Key, o.HasKey = mcpvisor.JournalKey{Principal: principal, Key: key}, true }
}

func (relayFunctions) WithClientName(name string) CallOption {
	return func(o *callOptions) { o.ClientName = shownName(name) }
}

// shownName makes one line of at most 256 bytes of a name.
func shownName(name string) string {
	return display.Prefix(display.Line(display.Prefix(name, 2*retention.TargetBytes)), retention.TargetBytes)
}

func (relayFunctions) WithPrincipal(name string) CallOption {
	return func(o *callOptions) { o.Principal = name }
}

func (relayFunctions) WithResultRoom(share *budget.Share) CallOption {
	return func(o *callOptions) { o.room = share }
}

func (f relayFunctions) WithSettings(s *relayhook.CallSettings) CallOption {
	return func(o *callOptions) {
		o.WaitReady, o.Timeout, o.WithoutTasks, o.TaskRelay = s.WaitReady, s.Timeout, s.WithoutTasks, s.TaskRelay
		o.WithoutValidation = o.WithoutValidation || s.WithoutValidation
		o.Progress, o.Handlers, o.Key, o.HasKey = s.Progress, s.Handlers, s.Key, s.HasKey
		o.Principal = s.Principal
		if s.Meta != nil {
			WithMeta(s.Meta)(o)
		}
		if s.LogMessages != nil {
			WithLogMessages(s.LogLevel, s.LogMessages)(o)
		}
		if s.Relay {
			f.WithRelay(s.Continuation)(o)
		}
		if s.ClientName != "" {
			f.WithClientName(s.ClientName)(o)
		}
	}
}

func (relayFunctions) SettingsOf(s relayhook.CallSettings, opts []CallOption) (relayhook.CallSettings, error) {
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

func (relayFunctions) WithUnaskedHandlers(h *transport.CallHandlers) Option {
	return func(o *options) { o.handlers.Unasked = h }
}

func (relayFunctions) WithEra(era mcpvisor.Era) Option { return func(o *options) { o.era = era } }

func (relayFunctions) WithDialer(h *dial.Hook) Option { return func(o *options) { o.dialer = h } }

func (c relayed) UpdateObserver(next func(now monitor.Observer) monitor.Observer) {
	c.rt.UpdateObserver(next)
}
