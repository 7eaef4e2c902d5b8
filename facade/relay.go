package facade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A host that calls for somebody else, such as a gateway, passes on what its own client has sent,
// and hands back what the server says, without a value of either being decoded.

// maxMetaBytes bounds the _meta of [WithMeta].
const maxMetaBytes = 64 << 10

// WithMeta sends members of _meta with the request: meta is a JSON object of at most 64 KiB, nested
// at most 9,000 deep. They reach the server byte for byte, except that line breaks between values
// become spaces, because each message is one line on a pipe. A call that becomes several requests (input that the
// server requires) sends them with each.
//
// Members that this client sets itself are left out of meta: progressToken, which [WithProgress]
// replaces, and protocolVersion, clientInfo, clientCapabilities and logLevel of 2026-07-28. What
// the client's observer sets wins, too: with its traceparent, meta loses its own and its
// tracestate. Of several WithMeta the last one counts; nil or empty means none.
//
// Error of the call: ErrInvalid (meta is too long or not a JSON object); nothing was sent.
func WithMeta(meta json.RawMessage) CallOption {
	return func(o *callOptions) {
		members, err := readMeta(meta)
		o.meta = members
		if err != nil {
			o.err = err
		}
	}
}

// readMeta returns _meta without the members that this client sets.
func readMeta(meta json.RawMessage) (json.RawMessage, error) {
	meta = bytes.TrimSpace(meta)
	switch {
	case len(meta) == 0:
		return nil, nil
	case len(meta) > maxMetaBytes:
		return nil, fmt.Errorf("the _meta of WithMeta has %d bytes, and %d at most are sent", len(meta), maxMetaBytes)
	case meta[0] != '{' || !jsonscan.ValidWithin(meta, maxArgumentDepth):
		return nil, errors.New("the _meta of WithMeta is not a JSON object")
	}
	return withoutMembers(meta, isOwnMeta), nil
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
	var kept []byte
	dropped := false
	s := jsonscan.Scanner{Text: object}
	s.SkipSpace()
	s.Consume('{')
	for s.SkipSpace(); !s.Consume('}'); s.SkipSpace() {
		begin := s.Pos
		quoted, escaped, _ := s.MemberName()
		if _, ok := s.Value(); !ok {
			return nil // the object is valid, so this does not happen
		}
		if drop(jsonscan.UnquoteShared(quoted, escaped)) {
			dropped = true
		} else {
			kept = append(append(kept, ','), object[begin:s.Pos]...)
		}
		s.SkipSpace()
		s.Consume(',')
	}
	switch {
	case !dropped:
		return object
	case len(kept) == 0:
		return nil
	}
	kept[0] = '{'
	return append(kept, '}')
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
