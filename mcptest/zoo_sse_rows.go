package mcptest

import (
	"net/http"
	"strings"
	"time"
)

// sseMisbehaviours are servers that speak HTTP+SSE, the transport before
// Streamable HTTP.
var sseMisbehaviours = []HTTPMisbehaviour{
	overSSE("sse/none", "Speaks HTTP+SSE, and behaves.", func(*sseHost) habits { return nil }),

	openedOverSSE("sse/no-endpoint", "Opens a stream that names no endpoint, and keeps it open.", func(_ *sseHost, v *visit) {
		v.events().send(": welcome\n\n")
		v.hang()
	}),
	openedOverSSE("sse/no-endpoint-ends", "Ends the stream before it has named an endpoint.", func(_ *sseHost, v *visit) {
		v.events().send(": goodbye\n\n")
	}),
	openedOverSSE("sse/no-answer", "Never answers the GET.", func(_ *sseHost, v *visit) { v.hang() }),
	openedOverSSE("sse/html", "Answers the GET with a web page.", func(_ *sseHost, v *visit) { v.reply(200, "text/html", zooPage) }),
	openedOverSSE("sse/redirect", "Redirects the GET to another origin.", func(_ *sseHost, v *visit) { redirectTo(v, 302, v.h.trap) }),
	openedOverSSE("sse/head-endless", "Answers the GET with headers without an end.", func(_ *sseHost, v *visit) {
		v.bare(func(c *bareConn) {
			line := "X-Zoo: " + strings.Repeat("z", 1<<10) + "\r\n"
			for c.write("HTTP/1.1 200 OK\r\n%s", line); c.write("%s", line); {
				continue
			}
		})
	}),
	openedOverSSE("sse/message-first", "Sends a message before it names the endpoint.", func(h *sseHost, v *visit) {
		h.stream(v, func(id string) string {
			return "data: " + zooLog + "\n\nevent: endpoint\ndata: " + ssePath + "?session=" + id + "\n\n"
		})
	}),
	openedOverSSE("sse/endpoint-elsewhere", "Names an endpoint at another origin.", func(h *sseHost, v *visit) {
		h.named(v, v.h.trap+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-protocol", "Names an endpoint that is no http.", func(h *sseHost, v *visit) { h.named(v, "file:///%s") }),
	openedOverSSE("sse/endpoint-user", "Names an endpoint with a user and a password in it.", func(h *sseHost, v *visit) {
		h.named(v, "http://somebody:else@"+v.r.Host+ssePath+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-secret", "Names an endpoint that repeats our own Authorization, on another origin.", func(h *sseHost, v *visit) {
		h.named(v, v.h.trap+"/"+strings.ReplaceAll(v.r.Header.Get("Authorization"), " ", "%%20")+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-megabyte", "Names an endpoint of a megabyte.", func(h *sseHost, v *visit) {
		h.named(v, ssePath+"?session=%s&pad="+strings.Repeat("p", 1<<20))
	}),
	openedOverSSE("sse/endpoint-endless", "Names an endpoint that never ends.", func(_ *sseHost, v *visit) {
		v.events().send("event: endpoint\ndata: /")
		v.flood("abcdefgh")
	}),
	openedOverSSE("sse/endpoint-slow", "Names the endpoint one character a second.", func(_ *sseHost, v *visit) {
		v.events()
		v.drip("event: endpoint\ndata: "+ssePath+"\n\n", time.Second)
	}),
	openedOverSSE("sse/endpoint-twice", "Names a second endpoint, at another origin.", func(h *sseHost, v *visit) {
		h.named(v, ssePath+"?session=%s\n\nevent: endpoint\ndata: "+v.h.trap)
	}),
	openedOverSSE("sse/endpoint-dead", "Names an endpoint that does not exist.", func(h *sseHost, v *visit) { h.named(v, "/nowhere?session=%s") }),
	overSSE("sse/closes-always", "Ends the stream after each answer.", func(h *sseHost) habits {
		return habits{"*": func(v *visit) {
			h.behave(v)
			if v.id != nil {
				h.put(v, func(eventStream) bool { return false })
			}
		}}
	}),

	calledOverSSE("sse/post-400", "Refuses the call with 400.", func(_ *sseHost, v *visit) { v.reply(400, "text/plain", "not like this") }),
	calledOverSSE("sse/post-lost", "Has forgotten the session, and says 404.", func(_ *sseHost, v *visit) { v.reply(404, "text/plain", "Session not found") }),
	calledOverSSE("sse/post-500", "Fails at the call with 500.", func(_ *sseHost, v *visit) { v.reply(500, "text/plain", "oops") }),
	calledOverSSE("sse/post-503", "Is busy, and says when not.", func(_ *sseHost, v *visit) {
		v.w.Header().Set("Retry-After", "7")
		v.reply(503, "text/plain", "busy")
	}),
	calledOverSSE("sse/post-html", "Answers the POST of a call with a web page.", func(_ *sseHost, v *visit) { v.reply(200, "text/html", zooPage) }),
	calledOverSSE("sse/post-elsewhere", "Redirects the POST to another origin.", func(_ *sseHost, v *visit) { redirectTo(v, 307, v.h.trap) }),
	calledOverSSE("sse/post-reset", "Resets the connection of the POST.", func(_ *sseHost, v *visit) { v.bare((*bareConn).reset) }),
	calledOverSSE("sse/post-never", "Answers on the stream, and never accepts the POST.", func(h *sseHost, v *visit) {
		h.answer(v)
		v.hang()
	}),
	calledOverSSE("sse/post-endless", "Accepts the POST with a body that never ends, and answers on the stream.", func(h *sseHost, v *visit) {
		v.begin(http.StatusAccepted, "text/plain", "Accepted")
		h.answer(v)
		v.flood("and accepted ")
	}),
	calledOverSSE("sse/answer-in-post", "Answers in the body of the POST.", func(_ *sseHost, v *visit) { v.say(v.answer()) }),
	calledOverSSE("sse/answer-in-both", "Answers in the body of the POST and on the stream.", func(h *sseHost, v *visit) {
		h.answer(v)
		v.say(v.answer())
	}),
	calledOverSSE("sse/answer-first", "Answers before it accepts the POST.", func(h *sseHost, v *visit) {
		h.answer(v)
		h.accept(v)
	}),

	answersOverSSE("sse/never", "Never answers the call.", func(*visit, eventStream) bool { return true }),
	answersOverSSE("sse/ends", "Ends the stream instead of an answer.", func(*visit, eventStream) bool { return false }),
	answersOverSSE("sse/ends-after", "Ends the stream after the answer.", func(v *visit, e eventStream) bool {
		e.message(v.answer())
		return false
	}),
	answersOverSSE("sse/half-event", "Ends the stream in the middle of the answer.", func(v *visit, e eventStream) bool {
		text := v.answer()
		e.send("data: %s", text[:len(text)/2])
		return false
	}),
	answersOverSSE("sse/no-blank-line", "Ends the stream behind the answer, without the blank line.", func(v *visit, e eventStream) bool {
		e.send("data: %s", v.answer())
		return false
	}),
	answersOverSSE("sse/reset", "Breaks the stream instead of an answer.", func(*visit, eventStream) bool { panic(http.ErrAbortHandler) }),
	answersOverSSE("sse/oversize", "Answers with 10 MB.", func(v *visit, e eventStream) bool {
		return e.message(v.resultMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("z", 10<<20) + `"}]}`))
	}),
	answersOverSSE("sse/junk", "Sends what is no JSON-RPC before the answer.", func(v *visit, e eventStream) bool {
		for _, junk := range []string{"hello", "42", "{", "[]", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 100_000), `{"id":1}`} {
			e.message(junk)
		}
		e.send("event: heartbeat\ndata: %s\n\n: comment\n\nid: 7\n\nretry: 5\n\nnonsense\n\n", v.answer())
		return e.message(v.answer())
	}),
	answersOverSSE("sse/wrong-id", "Answers a request that nobody has made.", func(v *visit, e eventStream) bool {
		return e.message(`{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}`) && e.message(`{"jsonrpc":"2.0","id":"zoo","result":{}}`)
	}),
	answersOverSSE("sse/twice", "Answers twice, with different texts.", func(v *visit, e eventStream) bool {
		return e.message(v.answer()) && e.message(v.resultMessage(`{"content":[{"type":"text","text":"second"}]}`))
	}),
	answersOverSSE("sse/flood", "Sends ten thousand notifications before the answer.", func(v *visit, e eventStream) bool {
		return e.send("%s", strings.Repeat("data: "+zooLog+"\n\n", 10_000)) && e.message(v.answer())
	}),
	answersOverSSE("sse/slow", "Sends the answer byte by byte.", func(v *visit, e eventStream) bool {
		return e.v.drip("data: "+v.answer()+"\n\n", dripPace)
	}),
	answersOverSSE("sse/trickle", "Sends an answer that never ends, byte by byte.", func(_ *visit, e eventStream) bool {
		e.send("data: ")
		return e.v.drip(strings.Repeat("z", 1<<20), 10*time.Millisecond)
	}),
	answersOverSSE("sse/endless", "Sends an answer that never ends.", func(_ *visit, e eventStream) bool {
		e.send("data: ")
		e.v.flood("abcdefgh")
		return false
	}),
	answersOverSSE("sse/error-no-id", "Refuses the call without naming it.", func(_ *visit, e eventStream) bool {
		return e.message(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
	}),
	answersOverSSE("sse/crlf", "Ends its lines with CR LF, and spreads the answer over three of them.", func(v *visit, e eventStream) bool {
		text := v.answer()
		return e.send("event: message\r\ndata: %s\r\ndata:%s\r\n\r\n", text[:1], text[1:])
	}),
}
