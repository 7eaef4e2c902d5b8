package hostilehttp

import (
	"fmt"
	"strings"
	"sync"
)

// endsStreamAfter answers a call with a stream that ends after an event with this id.
// The stream asks the client to reconnect soon.
func endsStreamAfter(id string) handler {
	return func(req *request) { req.events().send("id: %s\nretry: 1\ndata: %s\n\n", id, progressMessage) }
}

// resumeRow is a server that ends the stream of a call before the answer. resume
// handles the GET with which the client resumes the stream.
func resumeRow(name, about string, do func(req *request, answer string)) Misbehaviour {
	return legacyOnly(Misbehaviour{Name: name, About: about, handlers: func() handlers {
		var mu sync.Mutex
		var answer string // the answer to the call
		return handlers{
			"misbehave": func(req *request) {
				mu.Lock()
				answer = req.answer()
				mu.Unlock()
				endsStreamAfter("hostile-1")(req)
			},
			"resume": func(req *request) {
				mu.Lock()
				answer := answer
				mu.Unlock()
				do(req, answer)
			},
		}
	}})
}

// resumeMisbehaviours are about resuming the stream of a call. Only sessions of
// 2025-11-25 and earlier have that.
var resumeMisbehaviours = []Misbehaviour{
	resumeRow("resume/plain", "Ends the stream of a call after an event with an id and resumes it correctly.", func(req *request, answer string) {
		req.events().message(answer)
	}),
	resumeRow("resume/second-try", "Rejects the first resumption with 503 and accepts the second.", func(req *request, answer string) {
		if req.count == 1 {
			req.w.Header().Set("Retry-After", "0")
			req.reply(503, "text/plain", "not now")
			return
		}
		req.events().message(answer)
	}),
	resumeRow("resume/405", "Ends the stream of a call after an event with an id and allows no GET.", func(req *request, _ string) { plainStatus(405)(req) }),
	resumeRow("resume/400", "Ends the stream of a call after an event with an id and rejects that id with 400.", func(req *request, _ string) {
		req.reply(400, "text/plain", "Invalid Last-Event-ID")
	}),
	resumeRow("resume/401", "Ends the stream of a call after an event with an id and rejects the resumption with 401.", func(req *request, _ string) { plainStatus(401)(req) }),
	resumeRow("resume/404", "Ends the stream of a call after an event with an id and forgets the session.", func(req *request, _ string) {
		req.server.forget("")
		plainStatus(404)(req)
	}),
	resumeRow("resume/html", "Ends the stream of a call after an event with an id and resumes it with an HTML page.", func(req *request, _ string) { req.reply(200, "text/html", webPage) }),
	resumeRow("resume/json", "Ends the stream of a call after an event with an id and resumes it with plain JSON instead of events.", func(req *request, answer string) {
		req.reply(200, "application/json", answer)
	}),
	resumeRow("resume/hang", "Ends the stream of a call after an event with an id and never answers the resumption.", func(req *request, _ string) { req.waitForClient() }),
	resumeRow("resume/foreign", "Resumes the stream of a call with the answers of other requests.", func(req *request, _ string) {
		e := req.events()
		for i := range 3 {
			e.send("id: hostile-%d\ndata: %s\n\n", i+2, req.resultOf(4711+i, "another's"))
		}
		req.waitForClient()
	}),
	resumeRow("resume/for-ever", "Ends the stream after one event at every resumption and requests the next one at once.", func(req *request, _ string) {
		endsStreamAfter(fmt.Sprintf("hostile-%d", req.count+1))(req)
	}),
	resumeRow("resume/same-event", "Resumes the stream with the event that the client already has and ends it, again and again.", func(req *request, _ string) { endsStreamAfter("hostile-1")(req) }),
	resumeRow("resume/elsewhere", "Ends the stream of a call after an event with an id and redirects the resumption to another origin.", func(req *request, _ string) {
		redirectTo(req, 302, req.server.otherOrigin)
	}),
	legacyOnly(onCall("resume/retry-never", "Ends the stream of a call and sets a reconnection time of eleven days, which exposes clients that wait for it.", func(req *request) {
		req.events().send("id: hostile-1\nretry: 999999999\n\n")
	})),
	legacyOnly(onCall("resume/control-id", "Ends the stream of a call after an event whose id holds control characters, which no header can carry.", func(req *request) {
		req.events().send("id: a\x01b\x7f\nretry: 1\n\n")
	})),
	legacyOnly(onCall("resume/nul-id", "Ends the stream of a call after an event whose id holds a NUL.", func(req *request) {
		req.events().send("id: a\x00b\nretry: 1\n\n")
	})),
	legacyOnly(onCall("resume/megabyte-id", "Ends the stream of a call after an event with an id of a megabyte.", func(req *request) {
		req.events().send("id: %s\nretry: 1\n\n", strings.Repeat("i", 1<<20))
	})),
}

// resultOf returns an answer to the request with this id.
func (req *request) resultOf(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}
