package mcptest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"time"
)

// zooBlock is a piece of what there is too much of: 64 KiB.
var zooBlock = bytes.Repeat([]byte("0123456789abcdef"), 4<<10)

// bodyMisbehaviours are about how a body comes, or does not.
var bodyMisbehaviours = []HTTPMisbehaviour{
	whenCalled("call/no-answer", "Never answers the call, not even with a header.", (*visit).hang),
	whenCalled("call/stalled-body", "Sends half of the answer and then nothing more.", func(v *visit) {
		v.begin(http.StatusOK, "application/json", v.answer()[:20])
		v.hang()
	}),
	whenCalled("call/stalled-error", "Sends half of the body of a 500 and then nothing more.", func(v *visit) {
		v.begin(http.StatusInternalServerError, "text/plain", "it is a long sto")
		v.hang()
	}),
	whenCalled("call/slow", "Sends the answer byte by byte, but all of it.", func(v *visit) {
		v.begin(http.StatusOK, "application/json", "")
		v.drip(v.answer(), dripPace)
	}),
	whenCalled("call/slow-for-ever", "Sends a blank every few milliseconds and never the answer.", func(v *visit) {
		v.begin(http.StatusOK, "application/json", "")
		for v.drip(strings.Repeat(" ", 1<<10), 5*time.Millisecond) {
			continue
		}
	}),
	whenCalled("call/late", "Answers the call only after the client has stopped waiting.", func(v *visit) {
		v.hang()
		v.say(v.answer())
	}),
	whenCalled("call/html-200", "Answers 200 with a web page.", func(v *visit) { v.reply(200, "text/html; charset=utf-8", zooPage) }),
	whenCalled("call/html-as-json", "Calls a web page application/json.", func(v *visit) { v.reply(200, "application/json", zooPage) }),
	whenCalled("call/no-type", "Answers in JSON and does not say so.", func(v *visit) { v.reply(200, "", v.answer()) }),
	whenCalled("call/loud-type", "Writes the content type in capitals, with a charset.", func(v *visit) {
		v.reply(200, `APPLICATION/JSON; CHARSET="UTF-8"`, v.answer())
	}),
	whenCalled("call/plain-type", "Calls its JSON text/plain.", func(v *visit) { v.reply(200, "text/plain", v.answer()) }),
	whenCalled("call/broken-type", "Sends a content type that cannot be parsed.", func(v *visit) { v.reply(200, "application/json;;=;", v.answer()) }),
	whenCalled("call/json-as-events", "Calls plain JSON an event stream.", func(v *visit) { v.reply(200, "text/event-stream", v.answer()) }),
	whenCalled("call/events-as-json", "Calls an event stream application/json.", func(v *visit) {
		v.reply(200, "application/json", "data: "+v.answer()+"\n\n")
	}),
	whenCalled("call/binary", "Answers with bytes that mean nothing.", func(v *visit) {
		v.reply(200, "application/octet-stream", "\x00\x01\xff\xfe\x89PNG\r\n\x1a\n")
	}),
	whenCalled("call/empty-200", "Answers 200 without a body.", func(v *visit) { v.reply(200, "application/json", "") }),
	whenCalled("call/blank-200", "Answers 200 with blank lines.", func(v *visit) { v.reply(200, "application/json", " \r\n\r\n ") }),
	whenCalled("call/truncated", "Ends the answer in the middle, as if it were whole.", func(v *visit) {
		v.reply(200, "application/json", v.answer()[:len(v.answer())/2])
	}),
	whenCalled("call/trailing-junk", "Writes a line of log behind the answer.", func(v *visit) {
		v.reply(200, "application/json", v.answer()+"\nDEBUG served in 3 ms")
	}),
	whenCalled("call/bom", "Begins the answer with a byte order mark.", func(v *visit) { v.reply(200, "application/json", "\ufeff"+v.answer()) }),
	whenCalled("call/utf16", "Answers in UTF-16.", func(v *visit) {
		var wide []byte
		for _, c := range []byte(v.answer()) {
			wide = append(wide, c, 0)
		}
		v.reply(200, "application/json; charset=utf-16", "\xff\xfe"+string(wide))
	}),
	whenCalled("call/gzip-lie", "Says gzip and sends plain JSON.", func(v *visit) {
		v.w.Header().Set("Content-Encoding", "gzip")
		v.say(v.answer())
	}),
	whenCalled("call/gzip-cut", "Ends a gzip body in the middle.", func(v *visit) {
		packed := zipped(v.answer())
		v.w.Header().Set("Content-Encoding", "gzip")
		v.say(packed[:len(packed)-12])
	}),
	whenCalled("call/gzip-unasked", "Compresses the answer.", func(v *visit) {
		v.w.Header().Set("Content-Encoding", "gzip")
		v.say(zipped(v.answer()))
	}),
	whenCalled("call/gzip-twice", "Compresses the answer twice and admits to one time.", func(v *visit) {
		v.w.Header().Set("Content-Encoding", "gzip")
		v.say(zipped(zipped(v.answer())))
	}),
	whenCalled("call/brotli", "Answers in an encoding that nobody asked for.", func(v *visit) {
		v.w.Header().Set("Content-Encoding", "br")
		v.say("\x0b\x02\x80{}\x03")
	}),
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // to memory
	_ = z.Close()
	return b.String()
}

// bomb sends a gigabyte in compressed form: gzip bodies may be strung together.
func (v *visit) bomb() {
	part := []byte(zipped(string(zooBlock)))
	for n := 0; n < 1<<30; n += len(zooBlock) {
		if _, err := v.w.Write(part); err != nil {
			return // the client has left
		}
	}
}

// largeMisbehaviours are about too much of it.
var largeMisbehaviours = []HTTPMisbehaviour{
	whenCalled("call/gzip-bomb", "Sends a gzip body of four megabytes that unfolds to a gigabyte.", func(v *visit) {
		v.w.Header().Set("Content-Encoding", "gzip")
		v.begin(http.StatusOK, "application/json", zipped(`{"jsonrpc":"2.0","id":1,"result":"`))
		v.bomb()
	}),
	whenCalled("call/endless-json", "Sends a string of JSON that never ends.", func(v *visit) {
		v.begin(http.StatusOK, "application/json", `{"jsonrpc":"2.0","result":"`)
		v.flood("abcdefgh")
	}),
	whenCalled("call/endless-blanks", "Sends blanks in front of an answer that never comes.", func(v *visit) {
		v.begin(http.StatusOK, "application/json", "")
		v.flood("  \r\n")
	}),
	whenCalled("call/endless-error", "Sends the body of a 500 that never ends.", func(v *visit) {
		v.begin(http.StatusInternalServerError, "text/plain", "")
		v.flood("and then ")
	}),
	whenCalled("call/50-mb", "Answers with a text of 50 MB.", func(v *visit) {
		head, tail, _ := strings.Cut(v.resultMessage(`{"content":[{"type":"text","text":"|"}]}`), "|")
		v.begin(http.StatusOK, "application/json", head)
		for n := 0; n < 50_000_000; n += len(zooBlock) {
			if _, err := v.w.Write(zooBlock); err != nil {
				return
			}
		}
		_, _ = v.w.Write([]byte(tail)) // the client may have left
	}),
	whenCalled("call/broad-content", "Answers with 700,000 empty pieces of content.", func(v *visit) {
		v.say(v.resultMessage(`{"content":[` + strings.Repeat(`{"type":"text","text":""},`, 700_000) + `{"type":"text","text":""}]}`))
	}),
	whenCalled("call/broad-structured", "Answers with structured content of 700,000 objects.", func(v *visit) {
		v.say(v.resultMessage(`{"content":[],"structuredContent":{"rows":[` + strings.Repeat(`{"a":0},`, 700_000) + `0]}}`))
	}),
	whenCalled("call/says-huge", "Announces a body of an exabyte, and sends an answer of the usual size.", func(v *visit) {
		v.w.Header().Set("Content-Length", "1152921504606846976")
		v.begin(http.StatusOK, "application/json", v.answer())
		v.hang()
	}),
	whenCalled("call/deep", "Nests the result a hundred thousand levels deep.", func(v *visit) {
		const levels = 100_000
		v.say(v.resultMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels)))
	}),
	whenCalled("call/deep-objects", "Nests the structured content of a result a hundred thousand levels deep.", func(v *visit) {
		const levels = 100_000
		v.say(v.resultMessage(`{"content":[],"structuredContent":` + strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels) + "}"))
	}),
}
