package mcptest

import (
	"net/http"
	"strings"
)

// eventMisbehaviours are about the event stream that answers a call.
var eventMisbehaviours = []HTTPMisbehaviour{
	whenCalled("events/plain", "Answers with an event stream, as it may.", func(v *visit) { v.events().message(v.answer()) }),
	whenCalled("events/loud-type", "Writes the type of the stream in capitals, with a charset.", func(v *visit) {
		v.reply(200, "TEXT/EVENT-STREAM; CHARSET=utf-8", "data: "+v.answer()+"\n\n")
	}),
	whenCalled("events/cr", "Ends lines with CR alone.", func(v *visit) { v.events().send("event: message\rdata: %s\r\r", v.answer()) }),
	whenCalled("events/crlf", "Ends lines with CR LF, in two writes.", func(v *visit) {
		e := v.events()
		_ = e.send("event: message\r\ndata: %s\r", v.answer()) && e.send("\n\r") && e.send("\n")
	}),
	whenCalled("events/bom", "Begins the stream with a byte order mark.", func(v *visit) { v.events().send("\ufeffdata: %s\n\n", v.answer()) }),
	whenCalled("events/many-lines", "Spreads the answer over many data lines.", func(v *visit) {
		v.events().send("data: %s\n\n", strings.ReplaceAll(v.answer(), ",", ",\ndata: "))
	}),
	whenCalled("events/no-blank-line", "Leaves out the blank line at the end.", func(v *visit) { v.events().send("data: %s", v.answer()) }),
	whenCalled("events/open", "Keeps the stream open after the answer.", func(v *visit) {
		v.events().message(v.answer())
		v.hang()
	}),
	whenCalled("events/chatty-after", "Goes on talking after the answer, without an end.", func(v *visit) {
		if e := v.events(); e.message(v.answer()) {
			v.flood("data: " + zooProgress + "\n\n")
		}
	}),
	whenCalled("events/silent", "Opens the stream and says nothing.", func(v *visit) {
		v.events()
		v.hang()
	}),
	whenCalled("events/ended", "Ends the stream without an answer.", func(v *visit) { v.events().send(": bye\n\n") }),
	whenCalled("events/cut", "Cuts the stream in the middle of the answer, without event ids.", func(v *visit) {
		v.events().send("data: %s", v.answer()[:20])
	}),
	whenCalled("events/reset", "Resets the connection of the stream before the answer.", func(v *visit) {
		v.events().message(zooProgress)
		v.bare((*bareConn).reset)
	}),
	whenCalled("events/comments", "Sends comments without an end.", func(v *visit) {
		v.events()
		v.flood(": still here\n\n")
	}),
	whenCalled("events/flood", "Sends five thousand notifications before the answer.", func(v *visit) {
		e := v.events()
		if e.send("%s", strings.Repeat("data: "+zooLog+"\n\n", 5_000)) {
			e.message(v.answer())
		}
	}),
	whenCalled("events/flood-for-ever", "Sends notifications without an end, and never the answer.", func(v *visit) {
		v.events()
		v.flood("data: " + zooLog + "\n\n")
	}),
	whenCalled("events/endless-line", "Sends an event whose one line never ends.", func(v *visit) {
		v.events().send("data: ")
		v.flood("abcdefgh")
	}),
	whenCalled("events/endless-event", "Sends an event that has no end, line by line.", func(v *visit) {
		v.events()
		v.flood("data: abcdefgh\n")
	}),
	whenCalled("events/endless-field", "Sends a field of a name that nobody knows, without an end.", func(v *visit) {
		v.events()
		v.flood("abcdefgh")
	}),
	whenCalled("events/100-mb", "Sends an event of 100 MB that answers the call.", func(v *visit) {
		head, tail, _ := strings.Cut(v.resultMessage(`{"content":[{"type":"text","text":"|"}]}`), "|")
		ok := v.events().send("data: %s", head)
		for n := 0; ok && n < 100_000_000; n += len(zooBlock) {
			_, err := v.w.Write(zooBlock)
			ok = err == nil
		}
		if ok {
			_, _ = v.w.Write([]byte(tail + "\n\n")) // the client may have left
		}
	}),
	whenCalled("events/huge-before", "Sends a notification of 10 MB before the answer.", func(v *visit) {
		e := v.events()
		story := strings.Repeat("once upon a time ", 10<<20/17)
		if e.message(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + story + `"}}`) {
			e.message(v.answer())
		}
	}),
	whenCalled("events/gzip-bomb", "Sends a compressed stream that unfolds to gigabytes.", func(v *visit) {
		v.w.Header().Set("Content-Encoding", "gzip")
		v.begin(200, "text/event-stream", zipped("data: "))
		for v.r.Context().Err() == nil {
			v.bomb()
		}
	}),
	whenCalled("events/unknown-type", "Sends the answer of another as an event of an unknown type, and then the right one.", func(v *visit) {
		if e := v.events(); e.send("event: gossip\ndata: %s\n\n", v.resultMessage(`{"content":[{"type":"text","text":"gossip"}]}`)) {
			e.message(v.answer())
		}
	}),
	whenCalled("events/only-unknown-type", "Sends the answer as an event of an unknown type.", func(v *visit) {
		v.events().send("event: gossip\ndata: %s\n\n", v.answer())
	}),
	whenCalled("events/two-answers", "Answers twice in one stream, differently.", func(v *visit) {
		if e := v.events(); e.message(v.answer()) {
			e.message(v.resultMessage(`{"content":[{"type":"text","text":"no, this one"}]}`))
		}
	}),
	whenCalled("events/foreign-first", "Answers other requests before the right one.", func(v *visit) {
		e := v.events()
		for _, id := range []string{"1", "0", "-7", `"x"`, "null", "1e400", "12345678901234567890123", string(v.id) + "0"} {
			e.message(v.withoutChange(id))
		}
		e.message(v.answer())
	}),
	whenCalled("events/only-foreign", "Answers other requests, and ends the stream.", func(v *visit) { v.events().message(v.withoutChange("4711")) }),
	whenCalled("events/junk", "Sends events that are no JSON-RPC before the answer.", func(v *visit) {
		e := v.events()
		for _, junk := range []string{"hello", "42", "null", "[]", "[[]]", "{", `{"a":1}`, "\x00\xff", `{"jsonrpc":"2.0"}`, ""} {
			e.message(junk)
		}
		e.message(v.answer())
	}),
	whenCalled("events/odd-fields", "Sends fields without colon, without value, with blanks and unknown names.", func(v *visit) {
		v.events().send("data\nid\nretry\nevent\n:\n::\nfoo: bar\nretry: soon\nretry: -1\nretry: 99999999999999999999\n\ndata:%s\n\n", v.answer())
	}),
	whenCalled("events/slow", "Sends the stream byte by byte, but all of it.", func(v *visit) {
		v.events()
		v.drip("event: message\ndata: "+v.answer()+"\n\n", dripPace)
	}),
	whenCalled("events/status-500", "Sends the answer in an event stream under a status of 500.", func(v *visit) {
		v.reply(http.StatusInternalServerError, "text/event-stream", "data: "+v.answer()+"\n\n")
	}),
}

const zooLog = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"so it goes"}}`

// withoutChange is the answer under another id, of a request that was not made.
func (v *visit) withoutChange(id string) string {
	own := v.id
	defer func() { v.id = own }()
	return v.withID(id)
}
