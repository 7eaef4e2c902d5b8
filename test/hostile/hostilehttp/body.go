package hostilehttp

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"time"
)

// block is 64 KiB of text, for bodies that are too large.
var block = bytes.Repeat([]byte("0123456789abcdef"), 4<<10)

// bodyMisbehaviours are about the transfer of a body and its declaration.
var bodyMisbehaviours = []Misbehaviour{
	onCall("call/no-answer", "Never answers the call, not even with headers.", (*request).waitForClient),
	onCall("call/stalled-body", "Sends the beginning of the answer and then nothing more.", func(req *request) {
		req.beginReply(http.StatusOK, "application/json", req.answer()[:20])
		req.waitForClient()
	}),
	onCall("call/stalled-error", "Sends the beginning of the body of a 500 and then nothing more.", func(req *request) {
		req.beginReply(http.StatusInternalServerError, "text/plain", "it is a long sto")
		req.waitForClient()
	}),
	onCall("call/slow", "Sends the answer byte by byte until it is complete.", func(req *request) {
		req.beginReply(http.StatusOK, "application/json", "")
		req.drip(req.answer(), dripInterval)
	}),
	onCall("call/slow-for-ever", "Sends a blank every few milliseconds but never the answer, which exposes timeouts that every byte resets.", func(req *request) {
		req.beginReply(http.StatusOK, "application/json", "")
		for req.drip(strings.Repeat(" ", 1<<10), 5*time.Millisecond) {
			continue
		}
	}),
	onCall("call/late", "Answers the call only after the client has given up.", func(req *request) {
		req.waitForClient()
		req.replyMessage(req.answer())
	}),
	onCall("call/html-200", "Answers 200 with an HTML page.", func(req *request) { req.reply(200, "text/html; charset=utf-8", webPage) }),
	onCall("call/html-as-json", "Declares an HTML page as application/json.", func(req *request) { req.reply(200, "application/json", webPage) }),
	onCall("call/no-type", "Answers with JSON but without a Content-Type.", func(req *request) { req.reply(200, "", req.answer()) }),
	onCall("call/loud-type", "Writes the Content-Type in capitals and with a charset, which is valid.", func(req *request) {
		req.reply(200, `APPLICATION/JSON; CHARSET="UTF-8"`, req.answer())
	}),
	onCall("call/plain-type", "Declares the answer as text/plain.", func(req *request) { req.reply(200, "text/plain", req.answer()) }),
	onCall("call/broken-type", "Answers with a Content-Type that cannot be parsed.", func(req *request) { req.reply(200, "application/json;;=;", req.answer()) }),
	onCall("call/json-as-events", "Declares plain JSON as text/event-stream.", func(req *request) { req.reply(200, "text/event-stream", req.answer()) }),
	onCall("call/events-as-json", "Declares an event stream as application/json.", func(req *request) {
		req.reply(200, "application/json", "data: "+req.answer()+"\n\n")
	}),
	onCall("call/binary", "Answers with binary data of type application/octet-stream.", func(req *request) {
		req.reply(200, "application/octet-stream", "\x00\x01\xff\xfe\x89PNG\r\n\x1a\n")
	}),
	onCall("call/empty-200", "Answers 200 without a body.", func(req *request) { req.reply(200, "application/json", "") }),
	onCall("call/blank-200", "Answers 200 with a body of white space.", func(req *request) { req.reply(200, "application/json", " \r\n\r\n ") }),
	onCall("call/truncated", "Sends half of the answer as a complete body.", func(req *request) {
		req.reply(200, "application/json", req.answer()[:len(req.answer())/2])
	}),
	onCall("call/trailing-junk", "Writes a log line after the answer in the same body.", func(req *request) {
		req.reply(200, "application/json", req.answer()+"\nDEBUG served in 3 ms")
	}),
	onCall("call/bom", "Begins the answer with a byte order mark.", func(req *request) { req.reply(200, "application/json", "\ufeff"+req.answer()) }),
	onCall("call/utf16", "Answers in UTF-16.", func(req *request) {
		var wide []byte
		for _, c := range []byte(req.answer()) {
			wide = append(wide, c, 0)
		}
		req.reply(200, "application/json; charset=utf-16", "\xff\xfe"+string(wide))
	}),
	onCall("call/gzip-lie", "Declares Content-Encoding gzip but sends plain JSON.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.replyMessage(req.answer())
	}),
	onCall("call/gzip-cut", "Answers with a truncated gzip body.", func(req *request) {
		packed := gzipped(req.answer())
		req.w.Header().Set("Content-Encoding", "gzip")
		req.replyMessage(packed[:len(packed)-12])
	}),
	onCall("call/gzip-unasked", "Compresses the answer correctly, whether or not the client offered gzip.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.replyMessage(gzipped(req.answer()))
	}),
	onCall("call/gzip-twice", "Compresses the answer twice and declares it once.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.replyMessage(gzipped(gzipped(req.answer())))
	}),
	onCall("call/brotli", "Answers with Content-Encoding br, which the client did not offer.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "br")
		req.replyMessage("\x0b\x02\x80{}\x03")
	}),
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // to memory
	_ = z.Close()
	return b.String()
}

// writeGzipBomb writes compressed data that decompresses to a gigabyte. It repeats one
// gzip member, because members can be concatenated.
func (req *request) writeGzipBomb() {
	part := []byte(gzipped(string(block)))
	for n := 0; n < 1<<30; n += len(block) {
		if _, err := req.w.Write(part); err != nil {
			return // the client has disconnected
		}
	}
}

// largeMisbehaviours are about bodies that are too large.
var largeMisbehaviours = []Misbehaviour{
	onCall("call/gzip-bomb", "Answers with four megabytes of gzip that decompress to a gigabyte, which exposes clients that limit only what they receive.", func(req *request) {
		req.w.Header().Set("Content-Encoding", "gzip")
		req.beginReply(http.StatusOK, "application/json", gzipped(`{"jsonrpc":"2.0","id":1,"result":"`))
		req.writeGzipBomb()
	}),
	onCall("call/endless-json", "Answers with a JSON string that never ends.", func(req *request) {
		req.beginReply(http.StatusOK, "application/json", `{"jsonrpc":"2.0","result":"`)
		req.flood("abcdefgh")
	}),
	onCall("call/endless-blanks", "Answers with a body of white space that never ends.", func(req *request) {
		req.beginReply(http.StatusOK, "application/json", "")
		req.flood("  \r\n")
	}),
	onCall("call/endless-error", "Answers 500 with a body that never ends.", func(req *request) {
		req.beginReply(http.StatusInternalServerError, "text/plain", "")
		req.flood("and then ")
	}),
	onCall("call/50-mb", "Answers with a text of 50 MB.", func(req *request) {
		head, tail, _ := strings.Cut(req.resultMessage(`{"content":[{"type":"text","text":"|"}]}`), "|")
		req.beginReply(http.StatusOK, "application/json", head)
		for n := 0; n < 50_000_000; n += len(block) {
			if _, err := req.w.Write(block); err != nil {
				return
			}
		}
		_, _ = req.w.Write([]byte(tail)) // a failure means that the client has disconnected
	}),
	onCall("call/broad-content", "Answers with 700,000 empty content blocks.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"content":[` + strings.Repeat(`{"type":"text","text":""},`, 700_000) + `{"type":"text","text":""}]}`))
	}),
	onCall("call/broad-structured", "Answers with structured content of 700,000 objects.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"content":[],"structuredContent":{"rows":[` + strings.Repeat(`{"a":0},`, 700_000) + `0]}}`))
	}),
	onCall("call/says-huge", "Declares a Content-Length of an exabyte, which exposes clients that allocate it.", func(req *request) {
		req.w.Header().Set("Content-Length", "1152921504606846976")
		req.beginReply(http.StatusOK, "application/json", req.answer())
		req.waitForClient()
	}),
	onCall("call/deep", "Answers with a result that is nested 100,000 levels deep.", func(req *request) {
		const levels = 100_000
		req.replyMessage(req.resultMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels)))
	}),
	onCall("call/deep-objects", "Answers with structured content that is nested 100,000 levels deep.", func(req *request) {
		const levels = 100_000
		req.replyMessage(req.resultMessage(`{"content":[],"structuredContent":` + strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels) + "}"))
	}),
}
