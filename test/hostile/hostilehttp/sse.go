package hostilehttp

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
)

// sseHost is a server over HTTP+SSE (MCP 2024-11-05, section Transports). A GET of the
// endpoint opens a stream, whose first event names the URL for POSTs. The server sends
// all its messages on the stream.
type sseHost struct {
	mu      sync.Mutex
	streams map[string]chan ssePiece // of the open sessions, by session id
}

// ssePiece writes a part of a stream. It returns false to end the stream.
type ssePiece func(eventStream) bool

// ssePath is the path for POSTs.
const ssePath = "/messages"

// overSSE is a server over HTTP+SSE whose handlers replace those for POSTs to ssePath
// and for the GET.
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

// answersOverSSE accepts the calls of [BadTool] and writes piece to the stream instead
// of the answer.
func answersOverSSE(name, about string, piece func(req *request, e eventStream) bool) Misbehaviour {
	return calledOverSSE(name, about, func(h *sseHost, req *request) {
		h.acceptPOST(req)
		h.enqueue(req, func(e eventStream) bool { return piece(req, e) })
	})
}

// answerWell answers as a correct server does.
func (h *sseHost) answerWell(req *request) {
	switch {
	case req.http.Method == http.MethodGet:
		h.stream(req, func(id string) string { return "event: endpoint\ndata: " + ssePath + "?session=" + id + "\n\n" })
	case req.http.Method != http.MethodPost || req.http.URL.Path != ssePath:
		http.Error(req.w, "Method Not Allowed", http.StatusMethodNotAllowed)
	case h.streamOf(req) == nil:
		http.Error(req.w, "Session not found", http.StatusNotFound)
	case req.id == nil:
		h.acceptPOST(req)
	default:
		h.acceptPOST(req)
		h.sendAnswer(req)
	}
}

// acceptPOST replies 202; the answer follows on the stream.
func (h *sseHost) acceptPOST(req *request) {
	req.beginReply(http.StatusAccepted, "text/plain", "Accepted")
}

// sendAnswer sends the right answer on the stream of the session.
func (h *sseHost) sendAnswer(req *request) { h.sendMessage(req, req.answer()) }

// sendMessage sends a message on the stream of the session.
func (h *sseHost) sendMessage(req *request, text string) {
	h.enqueue(req, func(e eventStream) bool { return e.send("event: message\ndata: %s\n\n", text) })
}

// streamOf returns the stream of the request's session; nil if the stream has ended.
func (h *sseHost) streamOf(req *request) chan ssePiece {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[req.http.URL.Query().Get("session")]
}

// enqueue adds a piece to the stream of the request's session.
func (h *sseHost) enqueue(req *request, piece ssePiece) {
	queue := h.streamOf(req)
	if queue == nil {
		return // the stream has ended, and the session with it
	}
	select {
	case queue <- piece:
	case <-req.http.Context().Done():
	}
}

// stream serves the stream of a new session until the client disconnects or a piece
// ends it. opening returns the first events for a session id.
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

// streamWithEndpoint opens a stream that names this address, in which %s stands for the
// session id.
func (h *sseHost) streamWithEndpoint(req *request, address string) {
	h.stream(req, func(id string) string { return fmt.Sprintf("event: endpoint\ndata: "+address+"\n\n", id) })
}
