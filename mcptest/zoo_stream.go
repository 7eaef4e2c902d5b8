package mcptest

import (
	"io"
	"strings"
	"time"
)

// through puts something between the server and its stdout, from the call on.
func through(wrap func(io.WriteCloser) io.WriteCloser) func(*creature) {
	return atCall(func(c *creature, q question) {
		plain := c.out
		c.out = wrap(plain)
		c.behave(q)
		c.out = plain
	})
}

// What is wrong with the stream of bytes on stdout.
var streamZoo = []Misbehaviour{
	wild("stream/crlf", "Ends its lines as Windows does.", func(c *creature) {
		c.out = replaced{c.out, strings.NewReplacer("\n", "\r\n")}
		c.serve()
	}),
	wild("stream/spaces", "Has white space around its messages, and blank lines between them.", func(c *creature) {
		c.out = replaced{c.out, strings.NewReplacer("{\"jsonrpc\"", "\n \t{ \"jsonrpc\"", "\n", " \t\r\n\n\r\n")}
		c.serve()
	}),
	wild("stream/bom", "Begins with a byte order mark, as what PowerShell starts.", func(c *creature) {
		c.write("\ufeff")
		c.serve()
	}),
	wild("stream/bom-in-answer", "Has a byte order mark in front of an answer.", answers("\ufeff"+`{"jsonrpc":"2.0","id":$id,"result":$fine}`)),
	wild("stream/pretty", "Spreads its answer over several lines.", answers("{\n  \"jsonrpc\": \"2.0\",\n  \"id\": $id,\n  \"result\": $fine\n}")),
	wild("stream/two-on-a-line", "Has a notification and the answer on one line.", answers(`{"jsonrpc":"2.0","method":"notifications/zoo"}{"jsonrpc":"2.0","id":$id,"result":$fine}`)),
	wild("stream/trailing", "Has text behind its answer.", answers(`{"jsonrpc":"2.0","id":$id,"result":$fine} // done`)),
	wild("stream/leading", "Has a log line's date in front of its answer.", answers(`2026-07-28T00:00:00Z INFO {"jsonrpc":"2.0","id":$id,"result":$fine}`)),
	wild("stream/batch", "Answers with an array of one.", answers(`[{"jsonrpc":"2.0","id":$id,"result":$fine}]`)),
	wild("stream/batch-mixed", "Answers with an array in which there is rubbish, too.", answers(`[null,1,"x",[],{},{"jsonrpc":"2.0","id":$id,"result":$fine},{"jsonrpc":"2.0","method":"notifications/zoo"}]`)),
	wild("stream/batch-large", "Answers with an array of 3,000 notifications, and the answer.",
		answers(`[`+many(`{"jsonrpc":"2.0","method":"notifications/zoo"},`, 3_000)+`{"jsonrpc":"2.0","id":$id,"result":$fine}]`)),
	wild("stream/batch-nested", "Answers with an array in arrays.", answers(`[[[{"jsonrpc":"2.0","id":$id,"result":$fine}]]]`)),
	wild("stream/utf-16-le", "Answers in UTF-16, as Windows writes it.", through(func(w io.WriteCloser) io.WriteCloser { return wide{w, false} })),
	wild("stream/utf-16-be", "Answers in UTF-16, as networks write it.", through(func(w io.WriteCloser) io.WriteCloser { return wide{w, true} })),
	wild("stream/junk", "Prints all that is no JSON-RPC before the answer.", first(string(junkLines(len(chatter), ""))+
		`{"method":"GET","path":"/","status":200}`+"\n"+`{"id":5,"error":"disk"}`+"\n"+`{"result":"ok"}`+"\n{}\n[[]]\n\"\n\x00\n\xff\xfe\n{\"a\n")),
	wild("stream/junk-flood", "Prints 200,000 lines that are no JSON-RPC before the answer.", first(many("DEBUG tick\n", 200_000))),
	wild("stream/blank-flood", "Prints two million blank lines before the answer.", first(many("\n", 2_000_000))),
	wild("stream/junk-long", "Prints a line of 16 megabytes that is no JSON-RPC before the answer.", first(many("x", 16<<20)+"\n")),
	wild("stream/junk-deep", "Prints a million brackets before the answer.", first(many("[", 1_000_000)+"\n"+many(`{"a":`, 200_000)+"\n")),
	wild("stream/junk-quotes", "Prints a line of a million backslashes and quotes before the answer.", first(`{"a":"`+many(`\\"\"`, 250_000)+"\n")),
	wild("stream/binary", "Prints a megabyte of all bytes there are before the answer.", first(many(allBytes(), 4096)+"\n")),
	wild("stream/progress-bar", "Draws a progress bar with carriage returns, and answers behind it on the same line.", atCall(func(c *creature, q question) {
		c.write("\r10%\r50%\r100%")
		c.behave(q)
	})),

	wild("liveness/no-ping", "Answers calls, but no ping and no server/discover once it is asked again.", mutePing(func(*creature, question) {})),
	wild("liveness/ping-refused", "Refuses to be pinged.", mutePing(func(c *creature, q question) {
		c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}` + "\n"))
	})),
	wild("liveness/ping-text", "Answers a ping with text.", mutePing(func(c *creature, q question) { c.result(q, `"pong"`) })),
	wild("liveness/ping-exit", "Exits when it is pinged.", mutePing(func(c *creature, _ question) { c.end(2) })),
	wild("liveness/chatty", "Answers no ping, but says something every now and then.", mutePing(func(c *creature, _ question) {
		for range 20 {
			c.write(notes(1, "notifications/message", `{"level":"info","data":"here"}`))
			c.rest(10 * time.Millisecond)
		}
	})),
	wild("liveness/only-ping", "Answers pings, and no call at all.", instead("tools/call", func(*creature, question) {})),
}

// mutePing serves well until it is probed; the second incarnation always does.
func mutePing(do func(*creature, question)) func(*creature) {
	return func(c *creature) {
		if c.start > 1 {
			c.serve()
			return
		}
		c.on["ping"] = do
		asked := false
		c.on["server/discover"] = func(c *creature, q question) {
			if asked {
				do(c, q)
				return
			}
			asked = true
			c.behave(q)
		}
		c.serve()
	}
}

func allBytes() string {
	b := make([]byte, 0, 255)
	for i := range 256 {
		if i != '\n' {
			b = append(b, byte(i))
		}
	}
	return string(b)
}
