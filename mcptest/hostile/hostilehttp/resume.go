package hostilehttp

import (
	"fmt"
	"strings"
	"sync"
)

// cutAt is a call whose stream ends after an event with an id, and asks to be
// resumed soon.
func cutAt(id string) handler {
	return func(req *request) { req.events().send("id: %s\nretry: 1\ndata: %s\n\n", id, progressMessage) }
}

// resuming is what a server does about a call whose stream it has cut, and
// about the GET that asks for the rest.
func resuming(name, about string, do func(req *request, cut string)) Misbehaviour {
	return legacyOnly(Misbehaviour{Name: name, About: about, handlers: func() handlers {
		var mu sync.Mutex
		var cut string // the answer to the call
		return handlers{
			"misbehave": func(req *request) {
				mu.Lock()
				cut = req.answer()
				mu.Unlock()
				cutAt("hostile-1")(req)
			},
			"resume": func(req *request) {
				mu.Lock()
				answer := cut
				mu.Unlock()
				do(req, answer)
			},
		}
	}})
}

// resumeMisbehaviours are about resuming the stream of a call, which only
// sessions of 2025-11-25 and earlier know.
var resumeMisbehaviours = []Misbehaviour{
	resuming("resume/plain", "Cuts the stream of a call after an event with an id, and lets it be resumed.", func(req *request, answer string) {
		req.events().message(answer)
	}),
	resuming("resume/second-try", "Refuses the first resumption with 503.", func(req *request, answer string) {
		if req.nth == 1 {
			req.w.Header().Set("Retry-After", "0")
			req.reply(503, "text/plain", "not now")
			return
		}
		req.events().message(answer)
	}),
	resuming("resume/405", "Cuts the stream of a call, and allows no GET.", func(req *request, _ string) { plainStatus(405)(req) }),
	resuming("resume/400", "Cuts the stream of a call, and does not know its event.", func(req *request, _ string) {
		req.reply(400, "text/plain", "Invalid Last-Event-ID")
	}),
	resuming("resume/401", "Cuts the stream of a call, and wants credentials for the rest.", func(req *request, _ string) { plainStatus(401)(req) }),
	resuming("resume/404", "Cuts the stream of a call, and has forgotten the session.", func(req *request, _ string) {
		req.server.forget("")
		plainStatus(404)(req)
	}),
	resuming("resume/html", "Cuts the stream of a call, and resumes it with a web page.", func(req *request, _ string) { req.reply(200, "text/html", webPage) }),
	resuming("resume/json", "Cuts the stream of a call, and resumes it with plain JSON.", func(req *request, answer string) {
		req.reply(200, "application/json", answer)
	}),
	resuming("resume/hang", "Cuts the stream of a call, and never answers the GET for the rest.", func(req *request, _ string) { req.hang() }),
	resuming("resume/foreign", "Resumes the stream with the events of another one.", func(req *request, _ string) {
		e := req.events()
		for i := range 3 {
			e.send("id: hostile-%d\ndata: %s\n\n", i+2, req.resultOf(4711+i, "another's"))
		}
		req.hang()
	}),
	resuming("resume/for-ever", "Cuts the stream again after each event, and asks to be resumed at once.", func(req *request, _ string) {
		cutAt(fmt.Sprintf("hostile-%d", req.nth+1))(req)
	}),
	resuming("resume/same-event", "Resumes the stream with the event that is known, and cuts it again.", func(req *request, _ string) { cutAt("hostile-1")(req) }),
	resuming("resume/elsewhere", "Cuts the stream of a call, and redirects the GET to another origin.", func(req *request, _ string) {
		redirectTo(req, 302, req.server.otherOrigin)
	}),
	legacyOnly(whenCalled("resume/retry-never", "Cuts the stream of a call, and asks to be left alone for eleven days.", func(req *request) {
		req.events().send("id: hostile-1\nretry: 999999999\n\n")
	})),
	legacyOnly(whenCalled("resume/control-id", "Cuts the stream of a call at an event whose id cannot stand in a header.", func(req *request) {
		req.events().send("id: a\x01b\x7f\nretry: 1\n\n")
	})),
	legacyOnly(whenCalled("resume/nul-id", "Cuts the stream of a call at an event whose id holds a NUL.", func(req *request) {
		req.events().send("id: a\x00b\nretry: 1\n\n")
	})),
	legacyOnly(whenCalled("resume/megabyte-id", "Cuts the stream of a call at an event with an id of a megabyte.", func(req *request) {
		req.events().send("id: %s\nretry: 1\n\n", strings.Repeat("i", 1<<20))
	})),
}

// resultOf is an answer to some request.
func (req *request) resultOf(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}
