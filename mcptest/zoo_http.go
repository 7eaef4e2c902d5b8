package mcptest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// HTTPMisbehaviour is one way in which an MCP server over Streamable HTTP
// misbehaves. In everything else the server is small and correct: it speaks
// 2025-11-25 with sessions and 2026-07-28 without, and offers two tools,
// "echo" and "misbehave", that answer with their argument "text". What is
// named "call/…" happens when "misbehave" is called, each time, so that "echo"
// tells whether the client has survived it.
//
// A misbehaviour is a value: copy it freely, serve it as often as you like.
type HTTPMisbehaviour struct {
	// Name is unique among all of them: "call/html-400". What stands before the
	// slash is where it happens: start, session, list, call, events, stream, sse,
	// answers, shutdown.
	Name string
	// About says in one sentence what the server does.
	About string

	// legacyOnly: the server has never heard of 2026-07-28.
	legacyOnly bool
	// habits makes the bad manners of one server, with a state of their own.
	habits func() habits
}

// habits replace what a correct server does, by what is asked of it: a method
// of JSON-RPC, "misbehave" for a call of that tool, "answer" for an answer to a
// request of the server's, "GET", "resume" for a GET that names the last event,
// "DELETE", or "*" for everything else.
type habits map[string]act

// act is what a server does about one request.
type act func(*visit)

// Handler is a server that misbehaves in this way, in a fresh state. Some
// misbehave below HTTP and take the connection over, which a server of HTTP/2
// does not allow. A handler that hangs ends with its connection.
func (m HTTPMisbehaviour) Handler() http.Handler { return m.habitat() }

func (m HTTPMisbehaviour) habitat() *habitat {
	h := &habitat{legacyOnly: m.legacyOnly, sessions: map[string]bool{}, counts: map[string]int{}, streams: map[chan string]bool{}}
	if m.habits != nil {
		h.habits = m.habits()
	}
	return h
}

// Eras lists the generations of the protocol in which this can be seen. A
// server that has never heard of 2026-07-28 can be asked for it all the same.
func (m HTTPMisbehaviour) Eras() []mcpvisor.Era {
	if m.legacyOnly {
		return []mcpvisor.Era{mcpvisor.EraLegacy}
	}
	return []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern}
}

// HTTPMisbehaviours lists all that there are, by name. The first of them,
// "none", is a server that behaves.
func HTTPMisbehaviours() []HTTPMisbehaviour {
	all := slices.Concat(
		startMisbehaviours, versionMisbehaviours, listMisbehaviours,
		statusMisbehaviours(), redirectMisbehaviours, bodyMisbehaviours, answerMisbehaviours, largeMisbehaviours,
		wireMisbehaviours, headMisbehaviours, eventMisbehaviours, resumeMisbehaviours, askingMisbehaviours,
		sessionMisbehaviours, streamMisbehaviours, secretMisbehaviours, sseMisbehaviours,
	)
	slices.SortFunc(all, func(a, b HTTPMisbehaviour) int { return strings.Compare(a.Name, b.Name) })
	return slices.Insert(all, 0, HTTPMisbehaviour{Name: "none", About: "Behaves, in both eras of the protocol."})
}

// HTTPMisbehaviourNamed finds one by its name.
func HTTPMisbehaviourNamed(name string) (HTTPMisbehaviour, bool) {
	for _, m := range HTTPMisbehaviours() {
		if m.Name == name {
			return m, true
		}
	}
	return HTTPMisbehaviour{}, false
}

// whenCalled is what happens when the tool "misbehave" is called.
func whenCalled(name, about string, do act) HTTPMisbehaviour {
	return whenever(name, about, do, "misbehave")
}

// whenever is what happens on any of these occasions.
func whenever(name, about string, do act, occasions ...string) HTTPMisbehaviour {
	return HTTPMisbehaviour{Name: name, About: about, habits: func() habits {
		h := habits{}
		for _, occasion := range occasions {
			h[occasion] = do
		}
		return h
	}}
}

// oldFashioned makes it a server that has never heard of 2026-07-28.
func oldFashioned(m HTTPMisbehaviour) HTTPMisbehaviour {
	m.legacyOnly = true
	return m
}
