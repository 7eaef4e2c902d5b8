package hostilehttp

import (
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// endpointPath is the path of the MCP endpoint of a [Server].
const endpointPath = "/mcp"

// The tools of every server here. Both answer with their argument text.
const (
	// BadTool is the tool whose calls fail, if the misbehaviour is about calls.
	BadTool = "misbehave"
	// EchoTool is answered correctly, which shows that the session is still usable.
	EchoTool = "echo"
)

// Misbehaviour is one way in which an MCP server over Streamable HTTP, or over
// HTTP+SSE, misbehaves. In everything else the server is small and correct: it speaks
// 2025-11-25 with sessions and 2026-07-28 without. Those named "call/…" misbehave at
// each call of [BadTool], while calls of [EchoTool] are answered correctly.
//
// A misbehaviour is a value: copy it freely, serve it as often as needed.
type Misbehaviour struct {
	// Name is unique: where the misbehaviour happens (start, version, session, list,
	// listen, call, redirect, wire, head, events, resume, stream, sse, answers, secret, task,
	// probe, shutdown), a slash, and what happens, as in "call/html-400".
	Name string
	// About says in one sentence what the server does wrong, and where useful which
	// mistake of a client this exposes.
	About string

	// legacyOnly: the server does not know 2026-07-28.
	legacyOnly bool
	// handlers returns the handlers of one server with their own state.
	handlers func() handlers
}

// handlers replace what a correct server does. The key is the JSON-RPC method of a
// request, or one of:
//
//	"misbehave"      a call of BadTool
//	"answer"         an answer to a request of the server
//	"GET", "DELETE"  the HTTP method
//	"resume"         a GET with Last-Event-ID
//	"*"              everything else
type handlers map[string]handler

// handler answers one request.
type handler func(*request)

// newHTTPServer returns a new server with this misbehaviour. Some servers write below HTTP: they take
// over the connection, which needs HTTP/1. A handler that waits ends with its connection.
func (m Misbehaviour) newHTTPServer() *httpServer {
	h := &httpServer{legacyOnly: m.legacyOnly, sessions: map[string]bool{}, counts: map[string]int{}, streams: map[chan string]bool{}}
	if m.handlers != nil {
		h.handlers = m.handlers()
	}
	return h
}

// Eras returns the eras of the protocol in which the server misbehaves. A client may
// also request 2026-07-28 from a server of the legacy era.
func (m Misbehaviour) Eras() []mcpvisor.Era {
	if m.legacyOnly {
		return []mcpvisor.Era{mcpvisor.EraLegacy}
	}
	return []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern}
}

// Misbehaviours returns every misbehaviour, sorted by name. The first, "none", is a
// correct server.
func Misbehaviours() []Misbehaviour {
	all := slices.Concat(
		startMisbehaviours, versionMisbehaviours, listMisbehaviours, listenMisbehaviours,
		statusMisbehaviours(), redirectMisbehaviours, bodyMisbehaviours, answerMisbehaviours, largeMisbehaviours,
		wireMisbehaviours, headMisbehaviours, eventMisbehaviours, resumeMisbehaviours, serverRequestMisbehaviours,
		sessionMisbehaviours, probeMisbehaviours, streamMisbehaviours, secretMisbehaviours, sseMisbehaviours, taskMisbehaviours,
	)
	slices.SortFunc(all, func(a, b Misbehaviour) int { return strings.Compare(a.Name, b.Name) })
	return slices.Insert(all, 0, Misbehaviour{Name: "none", About: "Behaves correctly in both eras of the protocol, as a reference for the other servers."})
}

// MisbehaviourNamed returns the one of [Misbehaviours] with that name; ok is false if
// it does not exist.
func MisbehaviourNamed(name string) (m Misbehaviour, ok bool) {
	for _, m := range Misbehaviours() {
		if m.Name == name {
			return m, true
		}
	}
	return Misbehaviour{}, false
}

// onCall handles the calls of [BadTool].
func onCall(name, about string, do handler) Misbehaviour {
	return onKeys(name, about, do, "misbehave")
}

// onKeys handles the requests with these keys of handlers.
func onKeys(name, about string, do handler, keys ...string) Misbehaviour {
	return Misbehaviour{Name: name, About: about, handlers: func() handlers {
		h := handlers{}
		for _, key := range keys {
			h[key] = do
		}
		return h
	}}
}

// legacyOnly makes m a server that does not speak 2026-07-28.
func legacyOnly(m Misbehaviour) Misbehaviour {
	m.legacyOnly = true
	return m
}
