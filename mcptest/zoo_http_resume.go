package mcptest

import (
	"fmt"
	"strings"
	"sync"
)

// cutAt is a call whose stream ends after an event with an id, and asks to be
// resumed soon.
func cutAt(id string) act {
	return func(v *visit) { v.events().send("id: %s\nretry: 1\ndata: %s\n\n", id, zooProgress) }
}

// resuming is what a server does about a call whose stream it has cut, and
// about the GET that asks for the rest.
func resuming(name, about string, do func(v *visit, cut string)) HTTPMisbehaviour {
	return oldFashioned(HTTPMisbehaviour{Name: name, About: about, habits: func() habits {
		var mu sync.Mutex
		var cut string // the answer to the call
		return habits{
			"misbehave": func(v *visit) {
				mu.Lock()
				cut = v.answer()
				mu.Unlock()
				cutAt("zoo-1")(v)
			},
			"resume": func(v *visit) {
				mu.Lock()
				answer := cut
				mu.Unlock()
				do(v, answer)
			},
		}
	}})
}

// resumeMisbehaviours are about resuming the stream of a call, which only
// sessions of 2025-11-25 and earlier know.
var resumeMisbehaviours = []HTTPMisbehaviour{
	resuming("resume/plain", "Cuts the stream of a call after an event with an id, and lets it be resumed.", func(v *visit, answer string) {
		v.events().message(answer)
	}),
	resuming("resume/second-try", "Refuses the first resumption with 503.", func(v *visit, answer string) {
		if v.nth == 1 {
			v.w.Header().Set("Retry-After", "0")
			v.reply(503, "text/plain", "not now")
			return
		}
		v.events().message(answer)
	}),
	resuming("resume/405", "Cuts the stream of a call, and allows no GET.", func(v *visit, _ string) { plainStatus(405)(v) }),
	resuming("resume/400", "Cuts the stream of a call, and does not know its event.", func(v *visit, _ string) {
		v.reply(400, "text/plain", "Invalid Last-Event-ID")
	}),
	resuming("resume/401", "Cuts the stream of a call, and wants credentials for the rest.", func(v *visit, _ string) { plainStatus(401)(v) }),
	resuming("resume/404", "Cuts the stream of a call, and has forgotten the session.", func(v *visit, _ string) {
		v.h.forget("")
		plainStatus(404)(v)
	}),
	resuming("resume/html", "Cuts the stream of a call, and resumes it with a web page.", func(v *visit, _ string) { v.reply(200, "text/html", zooPage) }),
	resuming("resume/json", "Cuts the stream of a call, and resumes it with plain JSON.", func(v *visit, answer string) {
		v.reply(200, "application/json", answer)
	}),
	resuming("resume/hang", "Cuts the stream of a call, and never answers the GET for the rest.", func(v *visit, _ string) { v.hang() }),
	resuming("resume/foreign", "Resumes the stream with the events of another one.", func(v *visit, _ string) {
		e := v.events()
		for i := range 3 {
			e.send("id: zoo-%d\ndata: %s\n\n", i+2, v.resultOf(4711+i, "another's"))
		}
		v.hang()
	}),
	resuming("resume/for-ever", "Cuts the stream again after each event, and asks to be resumed at once.", func(v *visit, _ string) {
		cutAt(fmt.Sprintf("zoo-%d", v.nth+1))(v)
	}),
	resuming("resume/same-event", "Resumes the stream with the event that is known, and cuts it again.", func(v *visit, _ string) { cutAt("zoo-1")(v) }),
	resuming("resume/elsewhere", "Cuts the stream of a call, and redirects the GET to another origin.", func(v *visit, _ string) {
		redirectTo(v, 302, v.h.trap)
	}),
	oldFashioned(whenCalled("resume/retry-never", "Cuts the stream of a call, and asks to be left alone for eleven days.", func(v *visit) {
		v.events().send("id: zoo-1\nretry: 999999999\n\n")
	})),
	oldFashioned(whenCalled("resume/control-id", "Cuts the stream of a call at an event whose id cannot stand in a header.", func(v *visit) {
		v.events().send("id: a\x01b\x7f\nretry: 1\n\n")
	})),
	oldFashioned(whenCalled("resume/nul-id", "Cuts the stream of a call at an event whose id holds a NUL.", func(v *visit) {
		v.events().send("id: a\x00b\nretry: 1\n\n")
	})),
	oldFashioned(whenCalled("resume/megabyte-id", "Cuts the stream of a call at an event with an id of a megabyte.", func(v *visit) {
		v.events().send("id: %s\nretry: 1\n\n", strings.Repeat("i", 1<<20))
	})),
}

// resultOf is an answer to some request.
func (v *visit) resultOf(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}
