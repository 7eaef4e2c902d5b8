package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// appendMeta appends the _meta object of a request: its progress token and log level, the
// members of r.Meta, and those of meta, which the session adds to every request.
func appendMeta(b []byte, r *transport.Request, id int64, meta json.RawMessage) []byte {
	modern := len(meta) > len("{}")
	first := true
	next := func() {
		if first {
			b, first = append(b, '{'), false
		} else {
			b = append(b, ',')
		}
	}
	if r.Track {
		next()
		b = append(b, `"progressToken":`...)
		b = strconv.AppendInt(b, id, 10)
	}
	if r.LogLevel != "" && modern {
		next()
		b = append(b, `"`+mcp.MetaKeyLogLevel+`":"`...)
		b = append(b, r.LogLevel...)
		b = append(b, '"')
	}
	if host := trimBraces(r.Meta); len(host) > 0 {
		next()
		b = append(b, host...)
	}
	switch {
	case first:
		return append(b, meta...)
	case modern:
		next()
		return append(b, meta[1:]...)
	}
	return append(b, '}')
}

// trimBraces returns the members of a JSON object; empty if it has none.
func trimBraces(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return nil
	}
	members := bytes.TrimPrefix(bytes.TrimSpace(jsonscan.OneLine(object)), []byte("{"))
	return bytes.TrimSpace(bytes.TrimSuffix(members, []byte("}")))
}

// AppendRequest appends a request as one line, with the line break. It puts _meta before
// the members of r.Params, which it copies verbatim except for line breaks (see [OneLine]).
// meta is the result of [RequestMeta].
func AppendRequest(b []byte, id int64, r *transport.Request, meta json.RawMessage) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":"`...)
	b = append(b, r.Method...)
	b = append(b, '"')
	params := jsonscan.OneLine(bytes.TrimSpace(r.Params))
	switch {
	case len(meta) > 0 || r.Track || len(trimBraces(r.Meta)) > 0:
		b = append(b, `,"params":{"_meta":`...)
		b = appendMeta(b, r, id, meta)
		if rest := bytes.TrimSpace(bytes.TrimPrefix(params, []byte("{"))); len(rest) > 1 {
			b = append(b, ',')
			b = append(b, rest...)
		} else {
			b = append(b, '}')
		}
	case len(params) > 0:
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}', '\n')
}

// NotifySent passes the id of a request that is about to be sent to Request.ID and
// Stream.Sent, as far as they are set.
func NotifySent(r *transport.Request, id int64) {
	if r.ID != nil {
		*r.ID = id
	}
	if r.Stream != nil && r.Stream.Sent != nil {
		r.Stream.Sent(id)
	}
}

// Cancelled builds the notification that this client no longer waits for the response to
// a request (MCP, utilities, cancellation).
func Cancelled(id int64, timedOut bool) []byte {
	reason := "canceled"
	if timedOut {
		reason = "timed out"
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, id, reason)
}
