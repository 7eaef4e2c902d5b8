package hostilehttp

import (
	"net/http"
	"strings"
)

// eventMisbehaviours are about the event stream that answers a call.
var eventMisbehaviours = []Misbehaviour{
	whenCalled("events/plain", "Answers with an event stream, as it may.", func(req *request) { req.events().message(req.answer()) }),
	whenCalled("events/loud-type", "Writes the type of the stream in capitals, with a charset.", func(req *request) {
		req.reply(200, "TEXT/EVENT-STREAM; CHARSET=utf-8", "data: "+req.answer()+"\n\n")
	}),
	whenCalled("events/cr", "Ends lines with CR alone.", func(req *request) { req.events().send("event: message\rdata: %s\r\r", req.answer()) }),
	whenCalled("events/crlf", "Ends lines with CR LF, in two writes.", func(req *request) {
		e := req.events()
		_ = e.send("event: message\r\ndata: %s\r", req.answer()) && e.send("\n\r") && e.send("\n")
	}),
	whenCalled("events/bom", "Begins the stream with a byte order mark.", func(req *request) { req.events().send("\ufeffdata: %s\n\n", req.answer()) }),
	whenCalled("events/many-lines", "Spreads the answer over many data lines.", func(req *request) {
		req.events().send("data: %s\n\n", strings.ReplaceAll(req.answer(), ",", ",\ndata: "))
	}),
	whenCalled("events/no-blank-line", "Leaves out the blank line at the end.", func(req *request) { req.events().send("data: %s", req.answer()) }),
	whenCalled("events/open", "Keeps the stream open after the answer.", func(req *request) {
		req.events().message(req.answer())
		req.hang()
	}),
	whenCalled("events/chatty-after", "Goes on talking after the answer, without end.", func(req *request) {
		if e := req.events(); e.message(req.answer()) {
			req.flood("data: " + progressMessage + "\n\n")
		}
	}),
	whenCalled("events/silent", "Opens the stream and says nothing.", func(req *request) {
		req.events()
		req.hang()
	}),
	whenCalled("events/ended", "Ends the stream without an answer.", func(req *request) { req.events().send(": bye\n\n") }),
	whenCalled("events/cut", "Cuts the stream in the middle of the answer, without event ids.", func(req *request) {
		req.events().send("data: %s", req.answer()[:20])
	}),
	whenCalled("events/reset", "Resets the connection of the stream before the answer.", func(req *request) {
		req.events().message(progressMessage)
		req.raw((*rawConn).reset)
	}),
	whenCalled("events/comments", "Sends comments without end.", func(req *request) {
		req.events()
		req.flood(": still here\n\n")
	}),
	whenCalled("events/flood", "Sends five thousand notifications before the answer.", func(req *request) {
		e := req.events()
		if e.send("%s", strings.Repeat("data: "+logMessage+"\n\n", 5_000)) {
			e.message(req.answer())
		}
	}),
	whenCalled("events/flood-for-ever", "Sends notifications without end, and never the answer.", func(req *request) {
		req.events()
		req.flood("data: " + logMessage + "\n\n")
	}),
	whenCalled("events/endless-line", "Sends an event whose one line never ends.", func(req *request) {
		req.events().send("data: ")
		req.flood("abcdefgh")
	}),
	whenCalled("events/endless-event", "Sends an event that has no end, line by line.", func(req *request) {
		req.events()
		req.flood("data: abcdefgh\n")
	}),
	whenCalled("events/endless-field", "Sends a field of an unknown name, without end.", func(req *request) {
		req.events()
		req.flood("abcdefgh")
	}),
	whenCalled("events/100-mb", "Sends an event of 100 MB that answers the call.", func(req *request) {
		head, tail, _ := strings.Cut(req.resultMessage(`{"content":[{"type":"text","text":"|"}]}`), "|")
		ok := req.events().send("data: %s", head)
		for n := 0; ok && n < 100_000_000; n += len(block) {
			_, err := req.w.Write(block)
			ok = err == nil
		}
		if ok {
			_, _ = req.w.Write([]byte(tail + "\n\n")) // the client may have left
		}
	}),
	whenCalled("events/huge-before", "Sends a notification of 10 MB before the answer.", func(req *request) {
		e := req.events()
		story := strings.Repeat("once upon a time ", 10<<20/17)
		if e.message(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + story + `"}}`) {
			e.message(req.answer())
		}
	}),
	whenCalled("events/gzip-bomb", "Sends a compressed stream that unfolds to gigabytes.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.begin(200, "text/event-stream", zipped("data: "))
		for req.http.Context().Err() == nil {
			req.bomb()
		}
	}),
	whenCalled("events/unknown-type", "Sends the answer of another as an event of an unknown type, and then the right one.", func(req *request) {
		if e := req.events(); e.send("event: gossip\ndata: %s\n\n", req.resultMessage(`{"content":[{"type":"text","text":"gossip"}]}`)) {
			e.message(req.answer())
		}
	}),
	whenCalled("events/only-unknown-type", "Sends the answer as an event of an unknown type.", func(req *request) {
		req.events().send("event: gossip\ndata: %s\n\n", req.answer())
	}),
	whenCalled("events/two-answers", "Answers twice in one stream, differently.", func(req *request) {
		if e := req.events(); e.message(req.answer()) {
			e.message(req.resultMessage(`{"content":[{"type":"text","text":"no, this one"}]}`))
		}
	}),
	whenCalled("events/foreign-first", "Answers other requests before the right one.", func(req *request) {
		e := req.events()
		for _, id := range []string{"1", "0", "-7", `"x"`, "null", "1e400", "12345678901234567890123", string(req.id) + "0"} {
			e.message(req.answerTo(id))
		}
		e.message(req.answer())
	}),
	whenCalled("events/only-foreign", "Answers other requests, and ends the stream.", func(req *request) { req.events().message(req.answerTo("4711")) }),
	whenCalled("events/junk", "Sends events that are not JSON-RPC before the answer.", func(req *request) {
		e := req.events()
		for _, junk := range []string{"hello", "42", "null", "[]", "[[]]", "{", `{"a":1}`, "\x00\xff", `{"jsonrpc":"2.0"}`, ""} {
			e.message(junk)
		}
		e.message(req.answer())
	}),
	whenCalled("events/odd-fields", "Sends fields without colon, without value, with blanks and unknown names.", func(req *request) {
		req.events().send("data\nid\nretry\nevent\n:\n::\nfoo: bar\nretry: soon\nretry: -1\nretry: 99999999999999999999\n\ndata:%s\n\n", req.answer())
	}),
	whenCalled("events/slow", "Sends the stream byte by byte, but all of it.", func(req *request) {
		req.events()
		req.drip("event: message\ndata: "+req.answer()+"\n\n", dripInterval)
	}),
	whenCalled("events/status-500", "Sends the answer in an event stream under a status of 500.", func(req *request) {
		req.reply(http.StatusInternalServerError, "text/event-stream", "data: "+req.answer()+"\n\n")
	}),
}

const logMessage = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"so it goes"}}`

// withoutChange is the answer under another id, of a request that was not made.
func (req *request) answerTo(id string) string {
	own := req.id
	defer func() { req.id = own }()
	return req.withID(id)
}
