package mcptest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
)

// sseHost is a server that speaks HTTP+SSE (MCP 2024-11-05): a GET of the
// endpoint opens a stream, its first event names the address for POSTs, and all
// that the server says comes on the stream.
type sseHost struct {
	mu      sync.Mutex
	streams map[string]chan ssePiece // of the sessions that are open
}

// ssePiece writes a part of a stream. It reports whether the stream goes on.
type ssePiece func(eventStream) bool

// ssePath is where the POSTs go.
const ssePath = "/messages"

// overSSE is a server over HTTP+SSE with these habits, in all that is sent to the
// address for POSTs, and in the GET.
func overSSE(name, about string, habitsOf func(*sseHost) habits) HTTPMisbehaviour {
	return oldFashioned(HTTPMisbehaviour{Name: name, About: about, habits: func() habits {
		host := &sseHost{streams: map[string]chan ssePiece{}}
		own := habitsOf(host)
		all := habits{"*": host.behave}
		for occasion, do := range own {
			all[occasion] = func(v *visit) {
				if v.r.Method == http.MethodPost && v.r.URL.Path != ssePath {
					host.behave(v)
					return
				}
				do(v)
			}
		}
		return all
	}})
}

// calledOverSSE is what happens when the tool "misbehave" is called.
func calledOverSSE(name, about string, do func(*sseHost, *visit)) HTTPMisbehaviour {
	return overSSE(name, about, func(h *sseHost) habits {
		return habits{"misbehave": func(v *visit) { do(h, v) }}
	})
}

// openedOverSSE is what happens when the stream is opened.
func openedOverSSE(name, about string, do func(*sseHost, *visit)) HTTPMisbehaviour {
	return overSSE(name, about, func(h *sseHost) habits {
		return habits{http.MethodGet: func(v *visit) { do(h, v) }}
	})
}

// answersOverSSE is what comes on the stream instead of the answer to a call that
// was accepted.
func answersOverSSE(name, about string, piece func(v *visit, e eventStream) bool) HTTPMisbehaviour {
	return calledOverSSE(name, about, func(h *sseHost, v *visit) {
		h.accept(v)
		h.put(v, func(e eventStream) bool { return piece(v, e) })
	})
}

// behave does what a correct server does.
func (h *sseHost) behave(v *visit) {
	switch {
	case v.r.Method == http.MethodGet:
		h.stream(v, func(id string) string { return "event: endpoint\ndata: " + ssePath + "?session=" + id + "\n\n" })
	case v.r.Method != http.MethodPost || v.r.URL.Path != ssePath:
		http.Error(v.w, "Method Not Allowed", http.StatusMethodNotAllowed)
	case h.streamOf(v) == nil:
		http.Error(v.w, "Session not found", http.StatusNotFound)
	case v.id == nil:
		h.accept(v)
	default:
		h.accept(v)
		h.answer(v)
	}
}

// accept says that the answer will come on the stream.
func (h *sseHost) accept(v *visit) { v.begin(http.StatusAccepted, "text/plain", "Accepted") }

// answer answers the request on the stream of its session.
func (h *sseHost) answer(v *visit) { h.say(v, v.answer()) }

// say sends a message on the stream.
func (h *sseHost) say(v *visit, text string) {
	h.put(v, func(e eventStream) bool { return e.send("event: message\ndata: %s\n\n", text) })
}

// streamOf is the stream to which a request belongs; nil if that has ended.
func (h *sseHost) streamOf(v *visit) chan ssePiece {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[v.r.URL.Query().Get("session")]
}

// put adds a piece to the stream to which a request belongs.
func (h *sseHost) put(v *visit, piece ssePiece) {
	queue := h.streamOf(v)
	if queue == nil {
		return // the stream has ended, and with it the session
	}
	select {
	case queue <- piece:
	case <-v.r.Context().Done():
	}
}

// stream serves the stream of a new session, until the client leaves or a piece
// ends it. opening makes its beginning out of the id of the session.
func (h *sseHost) stream(v *visit, opening func(id string) string) {
	id, queue := rand.Text(), make(chan ssePiece, 64)
	h.mu.Lock()
	h.streams[id] = queue
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.streams, id)
		h.mu.Unlock()
	}()
	e := v.events()
	if !e.send("%s", opening(id)) {
		return
	}
	for {
		select {
		case piece := <-queue:
			if !piece(e) {
				return
			}
		case <-v.r.Context().Done():
			return
		}
	}
}

// named opens a stream that names this address, with the id of the session in
// place of the verb.
func (h *sseHost) named(v *visit, address string) {
	h.stream(v, func(id string) string { return fmt.Sprintf("event: endpoint\ndata: "+address+"\n\n", id) })
}
