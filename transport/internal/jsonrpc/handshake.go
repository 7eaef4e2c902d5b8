package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

const (
	// handshakeCheckTimeout bounds the list request that checks whether the server still
	// knows its handshake.
	handshakeCheckTimeout = 5 * time.Second
	// handshakeCheckPause is the shortest time between two checks.
	handshakeCheckPause = time.Minute
)

// HandshakeWatch detects that a legacy server has lost its handshake: a wrapper restarted
// it on the same pipes or behind the same address. Such a server answers pings, which are
// allowed before initialize (MCP, lifecycle), and rejects everything else. So liveness
// probes do not detect the restart.
//
// The error of a tool may contain the same text about something else. So the session
// requests a list that the server has answered before. Only if the server rejects that
// request in the same way, the session ends. Safe for concurrent use.
type HandshakeWatch struct {
	mu   sync.Mutex
	list string    // method of the last list request that succeeded; empty: none so far
	next time.Time // no check before this time
}

// uninitializedText matches the error texts of SDKs for a request before initialize.
var uninitializedText = regexp.MustCompile(`not (?:yet |been )?initiali[sz]ed|before initiali[sz]ation|during (?:session )?initiali[sz]ation`)

// uninitialized returns the message of a JSON-RPC error that says that the server has
// received no initialize; empty for any other error.
func uninitialized(err error) string {
	var rpc *sdkrpc.Error
	if !errors.As(err, &rpc) {
		return ""
	}
	text := strings.ToLower(rpc.Message)
	if uninitializedText.MatchString(text) {
		return rpc.Message
	}
	// The Python SDK sends this text for every request before initialize.
	if rpc.Code == sdkrpc.CodeInvalidParams && text == "invalid request parameters" {
		return rpc.Message
	}
	return ""
}

// Observe gets the error of each request of this client. It returns the method of the
// list to pass to Check if the error suggests that the handshake was lost; empty
// otherwise.
func (w *HandshakeWatch) Observe(method string, err error) (list string) {
	switch {
	case err == nil && strings.HasSuffix(method, "/list"):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.list = method
		return ""
	case err == nil || uninitialized(err) == "":
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.list == "" || now.Before(w.next) {
		return ""
	}
	w.next = now.Add(handshakeCheckPause)
	return w.list
}

// List returns the method of the last list request that succeeded; empty if none has.
func (w *HandshakeWatch) List() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list
}

// Check sends the list request, and returns the cause of the end of the session if the
// handshake was lost; nil otherwise.
func (w *HandshakeWatch) Check(ctx context.Context, list string, request func(context.Context, transport.Request) (json.RawMessage, error)) *supervisor.Cause {
	ctx, cancel := overdue.WithTimeout(ctx, handshakeCheckTimeout)
	defer cancel()
	_, err := request(ctx, transport.Request{Method: list})
	var e *mcpvisor.Error
	message := uninitialized(err)
	if message == "" || !errors.As(err, &e) {
		return nil
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Err: e.Cause,
		Message: fmt.Sprintf("the server was restarted behind its pipes or its address: it answers %s with %q", list, message)}
}

// ModernVersion is the first protocol version without initialize: instead every request
// carries the version, the client info and the capabilities in _meta.
const ModernVersion = "2026-07-28"

// LegacyVersion is the protocol version that the client offers in initialize.
const LegacyVersion = "2025-11-25"

// IsModern reports whether a protocol version belongs to the modern era. Versions are
// dates, so comparing them as text orders them.
func IsModern(version string) bool { return version >= ModernVersion }

// RequestMeta returns the _meta object that each request of a modern session carries
// (2026-07-28, basic, "Per-request metadata"), as JSON; nil for a legacy session.
func RequestMeta(version string, info *mcp.Implementation, handlers *transport.Handlers) (json.RawMessage, error) {
	if !IsModern(version) {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		mcp.MetaKeyProtocolVersion:    version,
		mcp.MetaKeyClientInfo:         info,
		mcp.MetaKeyClientCapabilities: Capabilities(handlers, false),
	})
}

// DeclaredCapabilities are the client capabilities (MCP, lifecycle, capability
// negotiation) that follow from the handlers of the host. The type of the go-sdk cannot
// omit roots.
type DeclaredCapabilities struct {
	Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
	Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
	Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
	// Extensions are the settings of the extensions that this client speaks, by their names.
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Capabilities returns the capabilities of a client with these handlers. It declares
// roots.listChanged in the legacy era only: the modern era has no such notification.
func Capabilities(h *transport.Handlers, legacy bool) (d DeclaredCapabilities) {
	offer := h.Offer()
	if legacy {
		offer = offer.Or(h.Declared)
	}
	d = capabilitiesOf(offer)
	maps.Copy(d.Extensions, h.Extensions)
	if legacy {
		delete(d.Extensions, task.Extension)
		if h.Roots != nil || h.DeclaredRoots != nil && offer.Roots {
			d.Roots.ListChanged = true
		}
	}
	return d
}

// capabilitiesOf returns the capabilities of the modern era for what a client answers.
func capabilitiesOf(offer transport.Offer) (d DeclaredCapabilities) {
	d.Extensions = map[string]json.RawMessage{task.Extension: json.RawMessage("{}")}
	if offer.Roots {
		d.Roots = &mcp.RootCapabilities{}
	}
	if offer.Sample {
		d.Sampling = &mcp.SamplingCapabilities{}
		if offer.SampleTools {
			d.Sampling.Tools = &mcp.SamplingToolsCapabilities{}
		}
	}
	if offer.ElicitForm || offer.ElicitURL {
		d.Elicitation = &mcp.ElicitationCapabilities{}
		if offer.ElicitForm {
			d.Elicitation.Form = &mcp.FormElicitationCapabilities{}
		}
		if offer.ElicitURL {
			d.Elicitation.URL = &mcp.URLElicitationCapabilities{}
		}
	}
	return d
}

// noExtensions are the extensions of a client that was given none.
const noExtensions = `{"` + task.Extension + `":{}}`

// declaredText returns the capabilities of an offer as JSON, with the extensions of the client. It must not be changed.
func declaredText(offer transport.Offer, noTasks bool, extensions []byte) json.RawMessage {
	key := declaredKey{offer: offer, noTasks: noTasks}
	if string(extensions) != noExtensions {
		key.extensions = string(extensions)
	}
	if text, ok := declaredTexts.Load(key); ok {
		return text.(json.RawMessage)
	}
	d := capabilitiesOf(offer)
	_ = json.Unmarshal(extensions, &d.Extensions) // RequestMeta has made it
	if noTasks {
		delete(d.Extensions, task.Extension)
	}
	text, _ := json.Marshal(d) // it always marshals
	declaredTexts.Store(key, json.RawMessage(text))
	return text
}

type declaredKey struct {
	offer      transport.Offer
	noTasks    bool
	extensions string
}

// declaredTexts has the text of each offer that was made, of 64 that there are for each client with extensions of its own: to encode it took a
// sixth of a call that a gateway or another node of a fleet makes.
var declaredTexts sync.Map

// CallMeta returns the _meta object of a request for a caller: meta, the result of [RequestMeta],
// with the capabilities of the answerer of this request.
func CallMeta(meta json.RawMessage, c *transport.Caller) json.RawMessage {
	if len(meta) == 0 || c == nil || c.Capabilities == nil && c.Handlers == nil && !c.NoTasks {
		return meta
	}
	offer := c.Rest
	if c.Handlers != nil {
		offer = c.Handlers.Offer().Or(c.Rest)
	}
	whole := append(make(json.RawMessage, 0, 2*len(meta)+len(c.Capabilities)), '{')
	_ = jsonscan.EachMember(meta, func(name string, value []byte) error { // an object that RequestMeta has made
		switch {
		case name != mcp.MetaKeyClientCapabilities:
		case c.Capabilities != nil:
			value = c.Capabilities
		default:
			value = declaredText(offer, c.NoTasks, jsonscan.Member(value, "extensions"))
		}
		if len(whole) > 1 {
			whole = append(whole, ',')
		}
		whole = append(append(append(append(whole, '"'), name...), '"', ':'), value...)
		return nil
	})
	return append(whole, '}')
}

// RootsChanged is the notification of a changed root list (MCP, client, roots). Only legacy
// servers get it. Modern servers request the roots when they need them.
const RootsChanged = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`

// Bounds of the texts of a server that are kept, shown to users or passed to models, in
// bytes. Longer text is cut.
const (
	maxServerName   = 256
	maxInstructions = 64 << 10
)

// NewSessionInfo returns the description of a session from the result of its handshake.
// Server name and version are shown to users, so secrets in them are masked. The
// instructions are for models and stay as they are.
func NewSessionInfo(result *mcp.InitializeResult, redactor redact.Redactor) mcpvisor.SessionInfo {
	info := mcpvisor.SessionInfo{
		ProtocolVersion: result.ProtocolVersion,
		Era:             mcpvisor.EraLegacy,
		Capabilities:    result.Capabilities,
		Instructions:    display.Shorten(result.Instructions, maxInstructions),
	}
	if IsModern(result.ProtocolVersion) {
		info.Era = mcpvisor.EraModern
	}
	if s := result.ServerInfo; s != nil {
		info.ServerName = display.Shorten(display.Line(redactor.Text(s.Name)), maxServerName)
		info.ServerVersion = display.Shorten(display.Line(redactor.Text(s.Version)), maxServerName)
	}
	return info
}
