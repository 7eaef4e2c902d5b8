package hostilehttp

import (
	"net/http"
	"strings"
	"time"
)

// sseMisbehaviours are servers that speak HTTP+SSE, the transport before
// Streamable HTTP.
var sseMisbehaviours = []Misbehaviour{
	overSSE("sse/none", "Speaks HTTP+SSE, and behaves.", func(*sseHost) handlers { return nil }),

	openedOverSSE("sse/no-endpoint", "Opens a stream that names no endpoint, and keeps it open.", func(_ *sseHost, req *request) {
		req.events().send(": welcome\n\n")
		req.hang()
	}),
	openedOverSSE("sse/no-endpoint-ends", "Ends the stream before it has named an endpoint.", func(_ *sseHost, req *request) {
		req.events().send(": goodbye\n\n")
	}),
	openedOverSSE("sse/no-answer", "Never answers the GET.", func(_ *sseHost, req *request) { req.hang() }),
	openedOverSSE("sse/html", "Answers the GET with a web page.", func(_ *sseHost, req *request) { req.reply(200, "text/html", webPage) }),
	openedOverSSE("sse/redirect", "Redirects the GET to another origin.", func(_ *sseHost, req *request) { redirectTo(req, 302, req.server.otherOrigin) }),
	openedOverSSE("sse/head-endless", "Answers the GET with headers without end.", func(_ *sseHost, req *request) {
		req.raw(func(c *rawConn) {
			line := "X-Hostile: " + strings.Repeat("z", 1<<10) + "\r\n"
			for c.write("HTTP/1.1 200 OK\r\n%s", line); c.write("%s", line); {
				continue
			}
		})
	}),
	openedOverSSE("sse/message-first", "Sends a message before it names the endpoint.", func(h *sseHost, req *request) {
		h.stream(req, func(id string) string {
			return "data: " + logMessage + "\n\nevent: endpoint\ndata: " + ssePath + "?session=" + id + "\n\n"
		})
	}),
	openedOverSSE("sse/endpoint-elsewhere", "Names an endpoint at another origin.", func(h *sseHost, req *request) {
		h.named(req, req.server.otherOrigin+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-protocol", "Names an endpoint that is not http.", func(h *sseHost, req *request) { h.named(req, "file:///%s") }),
	openedOverSSE("sse/endpoint-user", "Names an endpoint with a user and a password in it.", func(h *sseHost, req *request) {
		h.named(req, "http://other:password@"+req.http.Host+ssePath+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-secret", "Names an endpoint that repeats our own Authorization, on another origin.", func(h *sseHost, req *request) {
		h.named(req, req.server.otherOrigin+"/"+strings.ReplaceAll(req.http.Header.Get("Authorization"), " ", "%%20")+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-megabyte", "Names an endpoint of a megabyte.", func(h *sseHost, req *request) {
		h.named(req, ssePath+"?session=%s&pad="+strings.Repeat("p", 1<<20))
	}),
	openedOverSSE("sse/endpoint-endless", "Names an endpoint that never ends.", func(_ *sseHost, req *request) {
		req.events().send("event: endpoint\ndata: /")
		req.flood("abcdefgh")
	}),
	openedOverSSE("sse/endpoint-slow", "Names the endpoint one character a second.", func(_ *sseHost, req *request) {
		req.events()
		req.drip("event: endpoint\ndata: "+ssePath+"\n\n", time.Second)
	}),
	openedOverSSE("sse/endpoint-twice", "Names a second endpoint, at another origin.", func(h *sseHost, req *request) {
		h.named(req, ssePath+"?session=%s\n\nevent: endpoint\ndata: "+req.server.otherOrigin)
	}),
	openedOverSSE("sse/endpoint-dead", "Names an endpoint that does not exist.", func(h *sseHost, req *request) { h.named(req, "/nowhere?session=%s") }),
	overSSE("sse/closes-always", "Ends the stream after each answer.", func(h *sseHost) handlers {
		return handlers{"*": func(req *request) {
			h.answerWell(req)
			if req.id != nil {
				h.put(req, func(eventStream) bool { return false })
			}
		}}
	}),

	calledOverSSE("sse/post-400", "Refuses the call with 400.", func(_ *sseHost, req *request) { req.reply(400, "text/plain", "not like this") }),
	calledOverSSE("sse/post-lost", "Has forgotten the session, and says 404.", func(_ *sseHost, req *request) { req.reply(404, "text/plain", "Session not found") }),
	calledOverSSE("sse/post-500", "Fails at the call with 500.", func(_ *sseHost, req *request) { req.reply(500, "text/plain", "oops") }),
	calledOverSSE("sse/post-503", "Is busy, and says when not.", func(_ *sseHost, req *request) {
		req.w.Header().Set("Retry-After", "7")
		req.reply(503, "text/plain", "busy")
	}),
	calledOverSSE("sse/post-html", "Answers the POST of a call with a web page.", func(_ *sseHost, req *request) { req.reply(200, "text/html", webPage) }),
	calledOverSSE("sse/post-elsewhere", "Redirects the POST to another origin.", func(_ *sseHost, req *request) { redirectTo(req, 307, req.server.otherOrigin) }),
	calledOverSSE("sse/post-reset", "Resets the connection of the POST.", func(_ *sseHost, req *request) { req.raw((*rawConn).reset) }),
	calledOverSSE("sse/post-never", "Answers on the stream, and never accepts the POST.", func(h *sseHost, req *request) {
		h.answer(req)
		req.hang()
	}),
	calledOverSSE("sse/post-endless", "Accepts the POST with a body that never ends, and answers on the stream.", func(h *sseHost, req *request) {
		req.begin(http.StatusAccepted, "text/plain", "Accepted")
		h.answer(req)
		req.flood("and accepted ")
	}),
	calledOverSSE("sse/answer-in-post", "Answers in the body of the POST.", func(_ *sseHost, req *request) { req.say(req.answer()) }),
	calledOverSSE("sse/answer-in-both", "Answers in the body of the POST and on the stream.", func(h *sseHost, req *request) {
		h.answer(req)
		req.say(req.answer())
	}),
	calledOverSSE("sse/answer-first", "Answers before it accepts the POST.", func(h *sseHost, req *request) {
		h.answer(req)
		h.accept(req)
	}),

	answersOverSSE("sse/never", "Never answers the call.", func(*request, eventStream) bool { return true }),
	answersOverSSE("sse/ends", "Ends the stream instead of an answer.", func(*request, eventStream) bool { return false }),
	answersOverSSE("sse/ends-after", "Ends the stream after the answer.", func(req *request, e eventStream) bool {
		e.message(req.answer())
		return false
	}),
	answersOverSSE("sse/half-event", "Ends the stream in the middle of the answer.", func(req *request, e eventStream) bool {
		text := req.answer()
		e.send("data: %s", text[:len(text)/2])
		return false
	}),
	answersOverSSE("sse/no-blank-line", "Ends the stream behind the answer, without the blank line.", func(req *request, e eventStream) bool {
		e.send("data: %s", req.answer())
		return false
	}),
	answersOverSSE("sse/reset", "Breaks the stream instead of an answer.", func(*request, eventStream) bool { panic(http.ErrAbortHandler) }),
	answersOverSSE("sse/oversize", "Answers with 10 MB.", func(req *request, e eventStream) bool {
		return e.message(req.resultMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("z", 10<<20) + `"}]}`))
	}),
	answersOverSSE("sse/junk", "Sends what is not JSON-RPC before the answer.", func(req *request, e eventStream) bool {
		for _, junk := range []string{"hello", "42", "{", "[]", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 100_000), `{"id":1}`} {
			e.message(junk)
		}
		e.send("event: heartbeat\ndata: %s\n\n: comment\n\nid: 7\n\nretry: 5\n\nnonsense\n\n", req.answer())
		return e.message(req.answer())
	}),
	answersOverSSE("sse/wrong-id", "Answers a request that was not made.", func(req *request, e eventStream) bool {
		return e.message(`{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}`) && e.message(`{"jsonrpc":"2.0","id":"hostile","result":{}}`)
	}),
	answersOverSSE("sse/twice", "Answers twice, with different texts.", func(req *request, e eventStream) bool {
		return e.message(req.answer()) && e.message(req.resultMessage(`{"content":[{"type":"text","text":"second"}]}`))
	}),
	answersOverSSE("sse/flood", "Sends ten thousand notifications before the answer.", func(req *request, e eventStream) bool {
		return e.send("%s", strings.Repeat("data: "+logMessage+"\n\n", 10_000)) && e.message(req.answer())
	}),
	answersOverSSE("sse/slow", "Sends the answer byte by byte.", func(req *request, e eventStream) bool {
		return e.req.drip("data: "+req.answer()+"\n\n", dripInterval)
	}),
	answersOverSSE("sse/trickle", "Sends an answer that never ends, byte by byte.", func(_ *request, e eventStream) bool {
		e.send("data: ")
		return e.req.drip(strings.Repeat("z", 1<<20), 10*time.Millisecond)
	}),
	answersOverSSE("sse/endless", "Sends an answer that never ends.", func(_ *request, e eventStream) bool {
		e.send("data: ")
		e.req.flood("abcdefgh")
		return false
	}),
	answersOverSSE("sse/error-no-id", "Refuses the call without naming it.", func(_ *request, e eventStream) bool {
		return e.message(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
	}),
	answersOverSSE("sse/crlf", "Ends its lines with CR LF, and spreads the answer over three of them.", func(req *request, e eventStream) bool {
		text := req.answer()
		return e.send("event: message\r\ndata: %s\r\ndata:%s\r\n\r\n", text[:1], text[1:])
	}),
}
