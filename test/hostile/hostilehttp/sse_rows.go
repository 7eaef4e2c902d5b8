package hostilehttp

import (
	"net/http"
	"strings"
	"time"
)

// sseMisbehaviours are servers over HTTP+SSE, the transport before Streamable HTTP.
var sseMisbehaviours = []Misbehaviour{
	overSSE("sse/none", "Behaves correctly over HTTP+SSE, as a reference for the other servers.", func(*sseHost) handlers { return nil }),

	openedOverSSE("sse/no-endpoint", "Opens a stream that never names an endpoint.", func(_ *sseHost, req *request) {
		req.events().send(": welcome\n\n")
		req.waitForClient()
	}),
	openedOverSSE("sse/no-endpoint-ends", "Ends the stream before it names an endpoint.", func(_ *sseHost, req *request) {
		req.events().send(": goodbye\n\n")
	}),
	openedOverSSE("sse/no-answer", "Never answers the GET that opens the stream.", func(_ *sseHost, req *request) { req.waitForClient() }),
	openedOverSSE("sse/html", "Answers the GET with an HTML page.", func(_ *sseHost, req *request) { req.reply(200, "text/html", webPage) }),
	openedOverSSE("sse/redirect", "Redirects the GET that opens the stream to another origin.", func(_ *sseHost, req *request) { redirectTo(req, 302, req.server.otherOrigin) }),
	openedOverSSE("sse/head-endless", "Answers the GET with headers that never end.", func(_ *sseHost, req *request) {
		req.takeOverConn(func(c *rawConn) {
			line := "X-Hostile: " + strings.Repeat("z", 1<<10) + "\r\n"
			for c.write("HTTP/1.1 200 OK\r\n%s", line); c.write("%s", line); {
				continue
			}
		})
	}),
	openedOverSSE("sse/message-first", "Sends a notification before it names the endpoint.", func(h *sseHost, req *request) {
		h.stream(req, func(id string) string {
			return "data: " + logMessage + "\n\nevent: endpoint\ndata: " + ssePath + "?session=" + id + "\n\n"
		})
	}),
	openedOverSSE("sse/endpoint-elsewhere", "Names an endpoint at another origin, which exposes clients that send their credentials there.", func(h *sseHost, req *request) {
		h.streamWithEndpoint(req, req.server.otherOrigin+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-protocol", "Names an endpoint with a file URL.", func(h *sseHost, req *request) { h.streamWithEndpoint(req, "file:///%s") }),
	openedOverSSE("sse/endpoint-user", "Names an endpoint whose URL holds a user and a password.", func(h *sseHost, req *request) {
		h.streamWithEndpoint(req, "http://other:password@"+req.http.Host+ssePath+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-inner", "Names an endpoint without the prefix that its proxy strips, and which the proxy does not know.", func(h *sseHost, req *request) {
		h.streamWithEndpoint(req, "/inner"+ssePath+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-secret", "Names an endpoint at another origin whose path repeats the client's Authorization.", func(h *sseHost, req *request) {
		h.streamWithEndpoint(req, req.server.otherOrigin+"/"+strings.ReplaceAll(req.http.Header.Get("Authorization"), " ", "%%20")+"?session=%s")
	}),
	openedOverSSE("sse/endpoint-megabyte", "Names an endpoint whose URL is a megabyte long.", func(h *sseHost, req *request) {
		h.streamWithEndpoint(req, ssePath+"?session=%s&pad="+strings.Repeat("p", 1<<20))
	}),
	openedOverSSE("sse/endpoint-endless", "Names an endpoint whose URL never ends.", func(_ *sseHost, req *request) {
		req.events().send("event: endpoint\ndata: /")
		req.flood("abcdefgh")
	}),
	openedOverSSE("sse/endpoint-slow", "Names the endpoint at one character a second.", func(_ *sseHost, req *request) {
		req.events()
		req.drip("event: endpoint\ndata: "+ssePath+"\n\n", time.Second)
	}),
	openedOverSSE("sse/endpoint-twice", "Names a second endpoint at another origin after the first.", func(h *sseHost, req *request) {
		h.streamWithEndpoint(req, ssePath+"?session=%s\n\nevent: endpoint\ndata: "+req.server.otherOrigin)
	}),
	openedOverSSE("sse/endpoint-dead", "Names an endpoint that does not exist.", func(h *sseHost, req *request) { h.streamWithEndpoint(req, "/nowhere?session=%s") }),
	overSSE("sse/closes-always", "Ends the stream after each answer.", func(h *sseHost) handlers {
		return handlers{"*": func(req *request) {
			h.answerWell(req)
			if req.id != nil {
				h.enqueue(req, func(eventStream) bool { return false })
			}
		}}
	}),

	calledOverSSE("sse/post-400", "Rejects the POST of the call with 400.", func(_ *sseHost, req *request) { req.reply(400, "text/plain", "not like this") }),
	calledOverSSE("sse/post-lost", "Rejects the POST of the call with 404 because it has forgotten the session.", func(_ *sseHost, req *request) { req.reply(404, "text/plain", "Session not found") }),
	calledOverSSE("sse/post-500", "Rejects the POST of the call with 500.", func(_ *sseHost, req *request) { req.reply(500, "text/plain", "oops") }),
	calledOverSSE("sse/post-503", "Rejects the POST of the call with 503 and a Retry-After.", func(_ *sseHost, req *request) {
		req.w.Header().Set("Retry-After", "7")
		req.reply(503, "text/plain", "busy")
	}),
	calledOverSSE("sse/post-html", "Answers the POST of the call with an HTML page.", func(_ *sseHost, req *request) { req.reply(200, "text/html", webPage) }),
	calledOverSSE("sse/post-elsewhere", "Redirects the POST of the call to another origin.", func(_ *sseHost, req *request) { redirectTo(req, 307, req.server.otherOrigin) }),
	calledOverSSE("sse/post-reset", "Resets the connection of the POST of the call.", func(_ *sseHost, req *request) { req.takeOverConn((*rawConn).reset) }),
	calledOverSSE("sse/post-never", "Answers on the stream but never responds to the POST.", func(h *sseHost, req *request) {
		h.sendAnswer(req)
		req.waitForClient()
	}),
	calledOverSSE("sse/post-endless", "Accepts the POST of the call with a body that never ends, and answers on the stream.", func(h *sseHost, req *request) {
		req.beginReply(http.StatusAccepted, "text/plain", "Accepted")
		h.sendAnswer(req)
		req.flood("and accepted ")
	}),
	calledOverSSE("sse/answer-in-post", "Sends the answer in the body of the POST instead of on the stream.", func(_ *sseHost, req *request) { req.replyMessage(req.answer()) }),
	calledOverSSE("sse/answer-in-both", "Sends the answer both in the body of the POST and on the stream.", func(h *sseHost, req *request) {
		h.sendAnswer(req)
		req.replyMessage(req.answer())
	}),
	calledOverSSE("sse/answer-first", "Sends the answer on the stream before it accepts the POST.", func(h *sseHost, req *request) {
		h.sendAnswer(req)
		h.acceptPOST(req)
	}),

	answersOverSSE("sse/never", "Accepts the call and never answers it.", func(*request, eventStream) bool { return true }),
	answersOverSSE("sse/ends", "Ends the stream instead of sending the answer.", func(*request, eventStream) bool { return false }),
	answersOverSSE("sse/ends-after", "Ends the stream after the answer.", func(req *request, e eventStream) bool {
		e.message(req.answer())
		return false
	}),
	answersOverSSE("sse/half-event", "Ends the stream in the middle of the answer.", func(req *request, e eventStream) bool {
		text := req.answer()
		e.send("data: %s", text[:len(text)/2])
		return false
	}),
	answersOverSSE("sse/no-blank-line", "Ends the stream after the answer without the blank line that completes an event.", func(req *request, e eventStream) bool {
		e.send("data: %s", req.answer())
		return false
	}),
	answersOverSSE("sse/reset", "Breaks the stream off instead of sending the answer.", func(*request, eventStream) bool { panic(http.ErrAbortHandler) }),
	answersOverSSE("sse/oversize", "Answers with a text of 10 MB.", func(req *request, e eventStream) bool {
		return e.message(req.resultMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("z", 10<<20) + `"}]}`))
	}),
	answersOverSSE("sse/junk", "Sends events that are not JSON-RPC before the answer.", func(req *request, e eventStream) bool {
		for _, junk := range []string{"hello", "42", "{", "[]", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 100_000), `{"id":1}`} {
			e.message(junk)
		}
		e.send("event: heartbeat\ndata: %s\n\n: comment\n\nid: 7\n\nretry: 5\n\nnonsense\n\n", req.answer())
		return e.message(req.answer())
	}),
	answersOverSSE("sse/wrong-id", "Answers requests that the client never sent.", func(req *request, e eventStream) bool {
		return e.message(`{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}`) && e.message(`{"jsonrpc":"2.0","id":"hostile","result":{}}`)
	}),
	answersOverSSE("sse/twice", "Answers the call twice, with different results.", func(req *request, e eventStream) bool {
		return e.message(req.answer()) && e.message(req.resultMessage(`{"content":[{"type":"text","text":"second"}]}`))
	}),
	answersOverSSE("sse/flood", "Sends 10,000 notifications before the answer.", func(req *request, e eventStream) bool {
		return e.send("%s", strings.Repeat("data: "+logMessage+"\n\n", 10_000)) && e.message(req.answer())
	}),
	answersOverSSE("sse/slow", "Sends the answer byte by byte until it is complete.", func(req *request, e eventStream) bool {
		return e.req.drip("data: "+req.answer()+"\n\n", dripInterval)
	}),
	answersOverSSE("sse/trickle", "Sends an answer byte by byte that takes hours, which exposes timeouts that every byte resets.", func(_ *request, e eventStream) bool {
		e.send("data: ")
		return e.req.drip(strings.Repeat("z", 1<<20), 10*time.Millisecond)
	}),
	answersOverSSE("sse/endless", "Sends an answer that never ends.", func(_ *request, e eventStream) bool {
		e.send("data: ")
		e.req.flood("abcdefgh")
		return false
	}),
	answersOverSSE("sse/error-no-id", "Rejects the call with an error whose id is null.", func(_ *request, e eventStream) bool {
		return e.message(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
	}),
	answersOverSSE("sse/crlf", "Ends its lines with CR LF and splits the answer over two data lines, which SSE allows.", func(req *request, e eventStream) bool {
		text := req.answer()
		return e.send("event: message\r\ndata: %s\r\ndata:%s\r\n\r\n", text[:1], text[1:])
	}),
}
