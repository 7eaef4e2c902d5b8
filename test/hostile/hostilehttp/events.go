package hostilehttp

import (
	"net/http"
	"strings"
)

// eventMisbehaviours are about the event stream that answers a call.
var eventMisbehaviours = []Misbehaviour{
	onCall("events/plain", "Answers with an event stream, which is correct behaviour.", func(req *request) { req.events().message(req.answer()) }),
	onCall("events/loud-type", "Writes the Content-Type of the stream in capitals and with a charset, which is valid.", func(req *request) {
		req.reply(200, "TEXT/EVENT-STREAM; CHARSET=utf-8", "data: "+req.answer()+"\n\n")
	}),
	onCall("events/cr", "Ends the lines of the stream with CR only, which SSE allows.", func(req *request) { req.events().send("event: message\rdata: %s\r\r", req.answer()) }),
	onCall("events/crlf", "Ends the lines of the stream with CR LF, sent in separate writes.", func(req *request) {
		e := req.events()
		_ = e.send("event: message\r\ndata: %s\r", req.answer()) && e.send("\n\r") && e.send("\n")
	}),
	onCall("events/bom", "Begins the event stream with a byte order mark.", func(req *request) { req.events().send("\ufeffdata: %s\n\n", req.answer()) }),
	onCall("events/many-lines", "Spreads the answer over many data lines, which SSE allows.", func(req *request) {
		req.events().send("data: %s\n\n", strings.ReplaceAll(req.answer(), ",", ",\ndata: "))
	}),
	onCall("events/no-blank-line", "Ends the stream after the answer without the blank line that completes an event.", func(req *request) { req.events().send("data: %s", req.answer()) }),
	onCall("events/open", "Keeps the stream open after the answer.", func(req *request) {
		req.events().message(req.answer())
		req.waitForClient()
	}),
	onCall("events/chatty-after", "Sends notifications forever after the answer.", func(req *request) {
		if e := req.events(); e.message(req.answer()) {
			req.flood("data: " + progressMessage + "\n\n")
		}
	}),
	onCall("events/silent", "Opens the event stream and sends nothing on it.", func(req *request) {
		req.events()
		req.waitForClient()
	}),
	onCall("events/ended", "Ends the stream without an answer.", func(req *request) { req.events().send(": bye\n\n") }),
	onCall("events/cut", "Ends the stream in the middle of the answer and gives no event ids to resume from.", func(req *request) {
		req.events().send("data: %s", req.answer()[:20])
	}),
	onCall("events/reset", "Resets the connection of the stream before the answer.", func(req *request) {
		req.events().message(progressMessage)
		req.takeOverConn((*rawConn).reset)
	}),
	onCall("events/comments", "Sends SSE comments forever but no answer.", func(req *request) {
		req.events()
		req.flood(": still here\n\n")
	}),
	onCall("events/flood", "Sends 5,000 notifications before the answer.", func(req *request) {
		e := req.events()
		if e.send("%s", strings.Repeat("data: "+logMessage+"\n\n", 5_000)) {
			e.message(req.answer())
		}
	}),
	onCall("events/flood-for-ever", "Sends notifications forever but no answer.", func(req *request) {
		req.events()
		req.flood("data: " + logMessage + "\n\n")
	}),
	onCall("events/endless-line", "Sends an event whose data line never ends.", func(req *request) {
		req.events().send("data: ")
		req.flood("abcdefgh")
	}),
	onCall("events/endless-event", "Sends an event whose data lines never end.", func(req *request) {
		req.events()
		req.flood("data: abcdefgh\n")
	}),
	onCall("events/endless-field", "Sends a field whose name never ends.", func(req *request) {
		req.events()
		req.flood("abcdefgh")
	}),
	onCall("events/100-mb", "Answers the call in an event of 100 MB.", func(req *request) {
		head, tail, _ := strings.Cut(req.resultMessage(`{"content":[{"type":"text","text":"|"}]}`), "|")
		ok := req.events().send("data: %s", head)
		for n := 0; ok && n < 100_000_000; n += len(block) {
			_, err := req.w.Write(block)
			ok = err == nil
		}
		if ok {
			_, _ = req.w.Write([]byte(tail + "\n\n")) // a failure means that the client has disconnected
		}
	}),
	onCall("events/huge-before", "Sends a notification of 10 MB before the answer.", func(req *request) {
		e := req.events()
		story := strings.Repeat("once upon a time ", 10<<20/17)
		if e.message(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + story + `"}}`) {
			e.message(req.answer())
		}
	}),
	onCall("events/gzip-bomb", "Sends a compressed event stream that decompresses to gigabytes.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.beginReply(200, "text/event-stream", gzipped("data: "))
		for req.http.Context().Err() == nil {
			req.writeGzipBomb()
		}
	}),
	onCall("events/unknown-type", "Sends a forged answer as an event of an unknown type before the right answer.", func(req *request) {
		if e := req.events(); e.send("event: gossip\ndata: %s\n\n", req.resultMessage(`{"content":[{"type":"text","text":"gossip"}]}`)) {
			e.message(req.answer())
		}
	}),
	onCall("events/only-unknown-type", "Sends the answer as an event of an unknown type.", func(req *request) {
		req.events().send("event: gossip\ndata: %s\n\n", req.answer())
	}),
	onCall("events/two-answers", "Answers the call twice on one stream, with different results.", func(req *request) {
		if e := req.events(); e.message(req.answer()) {
			e.message(req.resultMessage(`{"content":[{"type":"text","text":"no, this one"}]}`))
		}
	}),
	onCall("events/foreign-first", "Answers requests that the client never sent before it answers the call.", func(req *request) {
		e := req.events()
		for _, id := range []string{"1", "0", "-7", `"x"`, "null", "1e400", "12345678901234567890123", string(req.id) + "0"} {
			e.message(req.answerTo(id))
		}
		e.message(req.answer())
	}),
	onCall("events/only-foreign", "Answers only a request that the client never sent, and ends the stream.", func(req *request) { req.events().message(req.answerTo("4711")) }),
	onCall("events/junk", "Sends events that are not JSON-RPC before the answer.", func(req *request) {
		e := req.events()
		for _, junk := range []string{"hello", "42", "null", "[]", "[[]]", "{", `{"a":1}`, "\x00\xff", `{"jsonrpc":"2.0"}`, ""} {
			e.message(junk)
		}
		e.message(req.answer())
	}),
	onCall("events/odd-fields", "Sends fields without a colon, without a value and with unknown names, which SSE requires clients to ignore.", func(req *request) {
		req.events().send("data\nid\nretry\nevent\n:\n::\nfoo: bar\nretry: soon\nretry: -1\nretry: 99999999999999999999\n\ndata:%s\n\n", req.answer())
	}),
	onCall("events/slow", "Sends the event stream byte by byte until it is complete.", func(req *request) {
		req.events()
		req.drip("event: message\ndata: "+req.answer()+"\n\n", dripInterval)
	}),
	onCall("events/status-500", "Answers 500 with an event stream that holds the answer.", func(req *request) {
		req.reply(http.StatusInternalServerError, "text/event-stream", "data: "+req.answer()+"\n\n")
	}),
}

const logMessage = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"so it goes"}}`

// answerTo returns the right answer under another id, and keeps the request's own id.
func (req *request) answerTo(id string) string {
	own := req.id
	defer func() { req.id = own }()
	return req.withID(id)
}
