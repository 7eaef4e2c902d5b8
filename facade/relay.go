package facade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
)

// A host that calls for its own clients, such as a gateway, passes on what its own client has sent,
// and hands back what the server says, without a value of either being decoded.

// maxMetaBytes bounds the _meta of [WithMeta].
const maxMetaBytes = 64 << 10

// WithMeta sends members of _meta with the request: meta is a JSON object of at most 64 KiB, nested
// at most 9,000 deep. They reach the server byte for byte, except that line breaks between values
// become spaces, because each message is one line on a pipe. If one call becomes several requests,
// because the server requires input, each request has them.
//
// The client does not send those members of meta that it sets itself: progressToken (use
// [WithProgress]), and protocolVersion, clientInfo, clientCapabilities and logLevel of 2026-07-28.
// There is one exception: with relay.WithRelay or relay.WithHandlers the client of the host answers for the
// call, so a server since 2026-07-28 gets the clientCapabilities of meta.
//
// If the client's observer sets a member that meta has, that of the observer is sent. If the
// observer sets traceparent, the tracestate of meta is not sent. Of several WithMeta the last one
// counts; nil or empty means none.
//
// Error of the call: ErrInvalid (meta is too long or not a JSON object); nothing was sent.
func WithMeta(meta json.RawMessage) CallOption {
	return func(o *callOptions) {
		members, capabilities, err := readMeta(meta)
		o.Meta, o.capabilities = members, capabilities
		if err != nil {
			o.err = err
		}
	}
}

// readMeta returns _meta without the members that this client sets, and the client capabilities in
// it; nil for none.
func readMeta(meta json.RawMessage) (members, capabilities json.RawMessage, err error) {
	meta = bytes.TrimSpace(meta)
	switch {
	case len(meta) == 0:
		return nil, nil, nil
	case len(meta) > maxMetaBytes:
		return nil, nil, fmt.Errorf("the _meta of WithMeta has %d bytes, and %d at most are sent", len(meta), maxMetaBytes)
	case meta[0] != '{' || !jsonscan.ValidWithin(meta, maxArgumentDepth):
		return nil, nil, errors.New("the _meta of WithMeta is not a JSON object")
	}
	capabilities = jsonscan.Member(meta, mcp.MetaKeyClientCapabilities)
	if len(capabilities) > 0 && capabilities[0] != '{' {
		return nil, nil, fmt.Errorf("the member %s of WithMeta is not a JSON object", mcp.MetaKeyClientCapabilities)
	}
	return withoutMembers(meta, isOwnMeta), capabilities, nil
}

// isOwnMeta reports whether the client sets this member of _meta itself.
func isOwnMeta(name string) bool {
	switch name {
	case "progressToken", mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel:
		return true
	}
	return false
}

// withoutMembers returns a valid JSON object without the members that drop names; object itself
// if there are none. The others keep their bytes.
func withoutMembers(object json.RawMessage, drop func(name string) bool) json.RawMessage {
	kept, dropped := false, false
	_ = jsonscan.EachMember(object, func(name string, _ []byte) error {
		kept, dropped = kept || !drop(name), dropped || drop(name)
		return nil
	})
	switch {
	case !dropped:
		return object
	case !kept:
		return nil
	}
	return jsonscan.Edit(object, func(name string, value []byte) []byte {
		if drop(name) {
			return nil
		}
		return value
	})
}

// mergeMeta returns one object of the members of own, which the client's observer has set, and of
// those of the caller that own does not have.
func mergeMeta(own, caller json.RawMessage) json.RawMessage {
	names := map[string]bool{}
	_ = jsonscan.EachMember(own, func(name string, _ []byte) error { // own is of an observer, and an object
		names[name] = true
		return nil
	})
	if len(names) == 0 {
		return caller
	}
	if names["traceparent"] { // a tracestate belongs to its traceparent
		names["tracestate"] = true
	}
	caller = withoutMembers(caller, func(name string) bool { return names[name] })
	if len(caller) <= len("{}") || string(bytes.TrimSpace(caller[1:])) == "}" {
		return own
	}
	own = bytes.TrimSpace(own)
	merged := make([]byte, 0, len(own)+len(caller))
	merged = append(merged, own[:len(own)-1]...)
	return append(append(merged, ','), caller[1:]...)
}

// WithLogMessages delivers the server's log messages about this call only to f:
// neither to watchers nor to the client's log. f is called like the function of [WithProgress],
// with the same bounds. Servers since 2026-07-28 send messages of this level (debug, info,
// notice, warning, error, critical, alert or emergency) and above; earlier servers use the level
// of [Client.SetLoggingLevel].
//
// A message is about this call if it comes in the response to its POST or, over stdio, HTTP+SSE and a
// transport of the host, if no other call is in flight at the server. Others go to watchers, as
// EventLog.
//
// Error of the call: ErrInvalid (no such level).
func WithLogMessages(level string, f func(mcpvisor.LogMessage)) CallOption {
	return func(o *callOptions) {
		if o.LogMessages, o.LogLevel = f, level; !slices.Contains(loggingLevels, level) {
			o.err = fmt.Errorf("there is no log level %q; use one of %v", level, loggingLevels)
		}
	}
}

// checkRound returns what is wrong with the answers to a round.
func checkRound(n relayhook.Continuation) error {
	switch {
	case len(n.InputResponses) > 0 && (n.InputResponses[0] != '{' || !jsonscan.ValidWithin(n.InputResponses, maxArgumentDepth)):
		return errors.New("the InputResponses of WithRelay are not a JSON object")
	case len(n.RequestState) > 0 && !jsonscan.ValidWithin(n.RequestState, maxArgumentDepth):
		return errors.New("the RequestState of WithRelay is not JSON")
	}
	return nil
}

// isFirst reports whether the round begins the call.
func isFirst(n *relayhook.Continuation) bool {
	return len(n.InputResponses) == 0 && len(n.RequestState) == 0
}

// appendRound appends the members of the round to the params of a request.
func appendRound(params json.RawMessage, n *relayhook.Continuation) json.RawMessage {
	if isFirst(n) {
		return params
	}
	params = params[:len(params)-1] // of a request that names its target, so there are other members
	if len(n.InputResponses) > 0 {
		params = append(append(params, `,"inputResponses":`...), n.InputResponses...)
	}
	if len(n.RequestState) > 0 {
		params = append(append(params, `,"requestState":`...), n.RequestState...)
	}
	return append(params, '}')
}

// errEarlierVersion is the cause of a round for a server that cannot know the earlier ones.
var errEarlierVersion = errors.New("the server now speaks a protocol version without rounds, so the call must begin again")

// errRelayOnly is the cause of a call whose rounds the client of the host has to make.
var errRelayOnly = errors.New("WithRelay needs a caller that makes the next round, so it cannot be combined with WithKey or StartTask, and completions have no rounds")
