package hostilehttp

import (
	"fmt"
	"net/http"
	"strings"
)

// onStream handles the GET that opens the standalone stream.
func onStream(name, about string, do handler) Misbehaviour {
	return legacyOnly(onKeys(name, about, do, "GET"))
}

// floodsStream repeats one event on the standalone stream.
func floodsStream(text string) handler {
	return func(req *request) {
		req.events()
		req.flood("data: " + text + "\n\n")
	}
}

// streamMisbehaviours are about the standalone event stream of 2025-11-25.
var streamMisbehaviours = []Misbehaviour{
	onStream("stream/404", "Rejects the standalone stream with 404 although the session exists.", plainStatus(404)),
	onStream("stream/405", "Rejects the standalone stream with 405, as it may.", plainStatus(405)),
	onStream("stream/400", "Rejects the standalone stream with 400 and a text about the session.", func(req *request) {
		req.reply(400, "text/plain", "Bad Request: session is required")
	}),
	onStream("stream/401", "Rejects the standalone stream with 401.", plainStatus(401)),
	onStream("stream/500", "Rejects the standalone stream with 500 every time.", plainStatus(500)),
	onStream("stream/html", "Answers the GET of the standalone stream with an HTML page.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onStream("stream/no-answer", "Never answers the GET of the standalone stream.", (*request).waitForClient),
	onStream("stream/stalled-error", "Rejects the standalone stream with 405 and a body that never ends.", func(req *request) {
		req.beginReply(http.StatusMethodNotAllowed, "text/plain", "no")
		req.waitForClient()
	}),
	onStream("stream/switching", "Answers the GET of the standalone stream with 101 Switching Protocols.", switching),
	onStream("stream/reset", "Resets the connection of the standalone stream.", func(req *request) { req.takeOverConn((*rawConn).reset) }),
	onStream("stream/ends", "Ends the standalone stream at once, every time, which exposes clients that reconnect without a delay.", func(req *request) { req.events() }),
	onStream("stream/ends-after-event", "Ends the standalone stream after one event, every time, and sets a reconnection time of zero.", func(req *request) {
		req.events().send("id: %d\nretry: 0\ndata: %s\n\n", req.count, logMessage)
	}),
	onStream("stream/ends-after-id", "Ends the standalone stream after an id without a message, every time, and sets a reconnection time of zero.", func(req *request) {
		req.events().send("id: %d\nretry: 0\n\n", req.count)
	}),
	onStream("stream/elsewhere", "Redirects the standalone stream to another origin.", func(req *request) { redirectTo(req, 302, req.server.otherOrigin) }),
	onStream("stream/loop", "Redirects the GET of the standalone stream to its own URL.", func(req *request) { redirectTo(req, 302, req.http.URL.Path) }),
	onStream("stream/flood", "Sends log messages on the standalone stream forever.", floodsStream(logMessage)),
	onStream("stream/flood-list-changed", "Sends list_changed notifications on the standalone stream forever, which exposes clients that list the tools again after each.",
		floodsStream(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)),
	onStream("stream/flood-answers", "Sends answers on the standalone stream forever to a request that the client never sent.",
		floodsStream(`{"jsonrpc":"2.0","id":1073741825,"result":{"content":[]}}`)),
	onStream("stream/flood-pings", "Sends pings on the standalone stream forever.", floodsStream(`{"jsonrpc":"2.0","id":"hostile","method":"ping"}`)),
	legacyOnly(Misbehaviour{Name: "stream/flood-pings-stalled",
		About: "Sends a thousand pings on the standalone stream and never responds to the client's answers.", handlers: func() handlers {
			return handlers{"answer": (*request).waitForClient, "GET": func(req *request) {
				e := req.events()
				for i := 0; i < 1000 && e.send("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i); i++ {
					continue
				}
				req.waitForClient()
			}}
		}}),
	onStream("stream/endless-line", "Sends a line on the standalone stream that never ends.", func(req *request) {
		req.events().send("data: ")
		req.flood("abcdefgh")
	}),
	onStream("stream/comments", "Sends SSE comments on the standalone stream forever.", func(req *request) {
		req.events()
		req.flood(": still here\n")
	}),
	onStream("stream/junk", "Sends events on the standalone stream that are not JSON-RPC.", func(req *request) {
		e := req.events()
		for _, junk := range []string{"hello", "42", "{", "[]", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 100_000)} {
			e.message(junk)
		}
		req.waitForClient()
	}),
	onStream("stream/never-again", "Ends the standalone stream and sets a reconnection time of eleven days.", func(req *request) {
		req.events().send("retry: 999999999\n\n")
	}),
	{Name: "stream/breaks", About: "Answers the call, forgets the session and ends the standalone stream.", legacyOnly: true, handlers: func() handlers {
		return handlers{"misbehave": func(req *request) {
			req.replyMessage(req.answer())
			_ = req.flush()
			req.server.forget("")
			req.server.breakStreams()
		}}
	}},
}

// secretMisbehaviours repeat the client's credentials where a client may log or show
// them.
var secretMisbehaviours = []Misbehaviour{
	onCall("secret/text", "Repeats the client's Authorization in the plain body of a 500.", func(req *request) {
		req.reply(500, "text/plain", "cannot work with "+req.http.Header.Get("Authorization"))
	}),
	onCall("secret/json", "Repeats the client's Authorization in the JSON body of a 401.", func(req *request) {
		req.reply(401, "application/json", fmt.Sprintf(`{"error":"invalid_token","error_description":"bad token %s"}`, req.http.Header.Get("Authorization")))
	}),
	onCall("secret/rpc", "Repeats the client's Authorization in the message and the data of a JSON-RPC error.", func(req *request) {
		secret := req.http.Header.Get("Authorization")
		req.replyMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s","data":{"said":[%q]}}}`, req.id, secret, secret))
	}),
	onCall("secret/escaped", "Repeats the client's Authorization in a JSON-RPC error, every character escaped.", func(req *request) {
		var escaped strings.Builder
		for _, r := range req.http.Header.Get("Authorization") {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
		req.replyMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s"}}`, req.id, escaped.String()))
	}),
	onCall("secret/redirect", "Repeats the client's Authorization in the URL of a redirect to another origin.", func(req *request) {
		redirectTo(req, 302, req.server.otherOrigin+"/"+strings.ReplaceAll(req.http.Header.Get("Authorization"), " ", "%20")+"?token=1")
	}),
	onCall("secret/reason", "Repeats the client's Authorization as the reason in the status line.", func(req *request) {
		rawReply("500 no "+req.http.Header.Get("Authorization"), []string{"Content-Length: 0"}, "")(req)
	}),
	onCall("secret/version", "Repeats the client's Authorization in place of the HTTP version.", func(req *request) {
		rawBytes(req.http.Header.Get("Authorization") + " HTTP\r\n\r\n")(req)
	}),
	onCall("secret/length", "Repeats the client's Authorization as the Content-Length.", func(req *request) {
		rawReply("200 OK", []string{"Content-Length: " + req.http.Header.Get("Authorization")}, "")(req)
	}),
	onKeys("secret/start", "Repeats the client's Authorization in the JSON-RPC error that rejects the handshake.", func(req *request) {
		req.replyError(http.StatusOK, -32000, "I do not know "+req.http.Header.Get("Authorization"))
	}, "server/discover", "initialize"),
	onKeys("secret/list", "Repeats the client's Authorization in the body of a 500 for tools/list.", func(req *request) {
		req.reply(500, "text/plain", "cannot list for "+req.http.Header.Get("Authorization"))
	}, "tools/list"),
}
