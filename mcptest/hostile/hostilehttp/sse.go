package hostilehttp

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
)

// sseHost is a server over HTTP+SSE (MCP 2024-11-05, section Transports): a GET of the
// endpoint opens a stream, its first event names the URL for POSTs, and all messages
// of the server are sent on the stream.
type sseHost struct {
	mu      sync.Mutex
	streams map[string]chan ssePiece // of the sessions that are open
}

// ssePiece writes a part of a stream. It reports whether the stream goes on.
type ssePiece func(eventStream) bool

// ssePath is where the POSTs go.
const ssePath = "/messages"

// overSSE is a server over HTTP+SSE with these handlers, in all that is sent to the
// address for POSTs, and in the GET.
func overSSE(name, about string, handlersOf func(*sseHost) handlers) Misbehaviour {
	return legacyOnly(Misbehaviour{Name: name, About: about, handlers: func() handlers {
		host := &sseHost{streams: map[string]chan ssePiece{}}
		own := handlersOf(host)
		all := handlers{"*": host.answerWell}
		for occasion, do := range own {
			all[occasion] = func(req *request) {
				if req.http.Method == http.MethodPost && req.http.URL.Path != ssePath {
					host.answerWell(req)
					return
				}
				do(req)
			}
		}
		return all
	}})
}

// calledOverSSE handles the calls of [BadTool].
func calledOverSSE(name, about string, do func(*sseHost, *request)) Misbehaviour {
	return overSSE(name, about, func(h *sseHost) handlers {
		return handlers{"misbehave": func(req *request) { do(h, req) }}
	})
}

// openedOverSSE handles the GET that opens the stream.
func openedOverSSE(name, about string, do func(*sseHost, *request)) Misbehaviour {
	return overSSE(name, about, func(h *sseHost) handlers {
		return handlers{http.MethodGet: func(req *request) { do(h, req) }}
	})
}

// answersOverSSE accepts the calls of [BadTool] and sends piece on the stream instead
// of the answer.
func answersOverSSE(name, about string, piece func(req *request, e eventStream) bool) Misbehaviour {
	return calledOverSSE(name, about, func(h *sseHost, req *request) {
		h.accept(req)
		h.put(req, func(e eventStream) bool { return piece(req, e) })
	})
}

// behave does what a correct server does.
func (h *sseHost) answerWell(req *request) {
	switch {
	case req.http.Method == http.MethodGet:
		h.stream(req, func(id string) string { return "event: endpoint\ndata: " + ssePath + "?session=" + id + "\n\n" })
	case req.http.Method != http.MethodPost || req.http.URL.Path != ssePath:
		http.Error(req.w, "Method Not Allowed", http.StatusMethodNotAllowed)
	case h.streamOf(req) == nil:
		http.Error(req.w, "Session not found", http.StatusNotFound)
	case req.id == nil:
		h.accept(req)
	default:
		h.accept(req)
		h.answer(req)
	}
}

// accept answers the POST: the answer follows on the stream.
func (h *sseHost) accept(req *request) { req.begin(http.StatusAccepted, "text/plain", "Accepted") }

// answer answers the request on the stream of its session.
func (h *sseHost) answer(req *request) { h.say(req, req.answer()) }

// say sends a message on the stream.
func (h *sseHost) say(req *request, text string) {
	h.put(req, func(e eventStream) bool { return e.send("event: message\ndata: %s\n\n", text) })
}

// streamOf is the stream to which a request belongs; nil if that has ended.
func (h *sseHost) streamOf(req *request) chan ssePiece {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[req.http.URL.Query().Get("session")]
}

// put adds a piece to the stream to which a request belongs.
func (h *sseHost) put(req *request, piece ssePiece) {
	queue := h.streamOf(req)
	if queue == nil {
		return // the stream has ended, and with it the session
	}
	select {
	case queue <- piece:
	case <-req.http.Context().Done():
	}
}

// stream serves the stream of a new session, until the client leaves or a piece
// ends it. opening makes its beginning out of the id of the session.
func (h *sseHost) stream(req *request, opening func(id string) string) {
	id, queue := rand.Text(), make(chan ssePiece, 64)
	h.mu.Lock()
	h.streams[id] = queue
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.streams, id)
		h.mu.Unlock()
	}()
	e := req.events()
	if !e.send("%s", opening(id)) {
		return
	}
	for {
		select {
		case piece := <-queue:
			if !piece(e) {
				return
			}
		case <-req.http.Context().Done():
			return
		}
	}
}

// named opens a stream that names this address, with the id of the session in
// place of the verb.
func (h *sseHost) named(req *request, address string) {
	h.stream(req, func(id string) string { return fmt.Sprintf("event: endpoint\ndata: "+address+"\n\n", id) })
}
