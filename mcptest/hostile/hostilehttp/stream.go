package hostilehttp

import (
	"fmt"
	"net/http"
	"strings"
)

// onStream is what happens when the client opens the standalone stream.
func onStream(name, about string, do handler) Misbehaviour {
	return legacyOnly(whenever(name, about, do, "GET"))
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
	onStream("stream/404", "Has no standalone stream, and says 404.", plainStatus(404)),
	onStream("stream/405", "Has no standalone stream, as it may.", plainStatus(405)),
	onStream("stream/400", "Has no standalone stream, and says 400 about the session.", func(req *request) {
		req.reply(400, "text/plain", "Bad Request: session is required")
	}),
	onStream("stream/401", "Wants credentials for the standalone stream.", plainStatus(401)),
	onStream("stream/500", "Fails at the standalone stream each time.", plainStatus(500)),
	onStream("stream/html", "Answers the GET with a web page.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onStream("stream/no-answer", "Never answers the GET.", (*request).hang),
	onStream("stream/stalled-error", "Refuses the GET with a text that never ends.", func(req *request) {
		req.begin(http.StatusMethodNotAllowed, "text/plain", "no")
		req.hang()
	}),
	onStream("stream/switching", "Says 101 Switching Protocols to the GET.", switching),
	onStream("stream/reset", "Resets the connection of the GET.", func(req *request) { req.raw((*rawConn).reset) }),
	onStream("stream/ends", "Ends the standalone stream at once, each time.", func(req *request) { req.events() }),
	onStream("stream/ends-after-event", "Ends the standalone stream after one event, each time, and asks for haste.", func(req *request) {
		req.events().send("id: %d\nretry: 0\ndata: %s\n\n", req.nth, logMessage)
	}),
	onStream("stream/elsewhere", "Redirects the GET to another origin.", func(req *request) { redirectTo(req, 302, req.server.otherOrigin) }),
	onStream("stream/loop", "Redirects the GET to itself.", func(req *request) { redirectTo(req, 302, req.http.URL.Path) }),
	onStream("stream/flood", "Sends notifications on the standalone stream without end.", floodsStream(logMessage)),
	onStream("stream/flood-list-changed", "Says on the standalone stream, without end, that its tools have changed.",
		floodsStream(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)),
	onStream("stream/flood-answers", "Answers on the standalone stream, without end, requests that were not made.",
		floodsStream(`{"jsonrpc":"2.0","id":1073741825,"result":{"content":[]}}`)),
	onStream("stream/flood-pings", "Pings the client on the standalone stream without end.", floodsStream(`{"jsonrpc":"2.0","id":"hostile","method":"ping"}`)),
	legacyOnly(Misbehaviour{Name: "stream/flood-pings-stalled",
		About: "Pings the client on the standalone stream a thousand times under different ids, and never takes what it says.", handlers: func() handlers {
			return handlers{"answer": (*request).hang, "GET": func(req *request) {
				e := req.events()
				for i := 0; i < 1000 && e.send("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i); i++ {
					continue
				}
				req.hang()
			}}
		}}),
	onStream("stream/endless-line", "Sends one line on the standalone stream that never ends.", func(req *request) {
		req.events().send("data: ")
		req.flood("abcdefgh")
	}),
	onStream("stream/comments", "Sends comments on the standalone stream without end.", func(req *request) {
		req.events()
		req.flood(": still here\n")
	}),
	onStream("stream/junk", "Sends lines that are not JSON-RPC on the standalone stream.", func(req *request) {
		e := req.events()
		for _, junk := range []string{"hello", "42", "{", "[]", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 100_000)} {
			e.message(junk)
		}
		req.hang()
	}),
	onStream("stream/never-again", "Ends the standalone stream and asks to be left alone for eleven days.", func(req *request) {
		req.events().send("retry: 999999999\n\n")
	}),
	{Name: "stream/breaks", About: "Ends the standalone stream when the tool is called, and forgets the session.", legacyOnly: true, handlers: func() handlers {
		return handlers{"misbehave": func(req *request) {
			req.say(req.answer())
			_ = req.flush()
			req.server.forget("")
			req.server.breakStreams()
		}}
	}},
}

// secretMisbehaviours repeat the client's credentials where they may show.
var secretMisbehaviours = []Misbehaviour{
	whenCalled("secret/text", "Repeats our Authorization in the text of a 500.", func(req *request) {
		req.reply(500, "text/plain", "cannot work with "+req.http.Header.Get("Authorization"))
	}),
	whenCalled("secret/json", "Repeats our Authorization in the JSON of a 401.", func(req *request) {
		req.reply(401, "application/json", fmt.Sprintf(`{"error":"invalid_token","error_description":"bad token %s"}`, req.http.Header.Get("Authorization")))
	}),
	whenCalled("secret/rpc", "Repeats our Authorization in a JSON-RPC error, message and data.", func(req *request) {
		secret := req.http.Header.Get("Authorization")
		req.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s","data":{"said":[%q]}}}`, req.id, secret, secret))
	}),
	whenCalled("secret/escaped", "Repeats our Authorization in a JSON-RPC error, its letters escaped.", func(req *request) {
		var escaped strings.Builder
		for _, r := range req.http.Header.Get("Authorization") {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
		req.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s"}}`, req.id, escaped.String()))
	}),
	whenCalled("secret/redirect", "Repeats our Authorization in the URL that it redirects to.", func(req *request) {
		redirectTo(req, 302, req.server.otherOrigin+"/"+strings.ReplaceAll(req.http.Header.Get("Authorization"), " ", "%20")+"?token=1")
	}),
	whenCalled("secret/reason", "Repeats our Authorization in the status line.", func(req *request) {
		rawReply("500 no "+req.http.Header.Get("Authorization"), []string{"Content-Length: 0"}, "")(req)
	}),
	whenCalled("secret/version", "Repeats our Authorization where the version of HTTP should stand.", func(req *request) {
		rawBytes(req.http.Header.Get("Authorization") + " HTTP\r\n\r\n")(req)
	}),
	whenCalled("secret/length", "Repeats our Authorization as the length of the body.", func(req *request) {
		rawReply("200 OK", []string{"Content-Length: " + req.http.Header.Get("Authorization")}, "")(req)
	}),
	whenever("secret/start", "Repeats our Authorization in the error of the handshake.", func(req *request) {
		req.sayError(http.StatusOK, -32000, "I do not know "+req.http.Header.Get("Authorization"))
	}, "server/discover", "initialize"),
	whenever("secret/list", "Repeats our Authorization in the error of the list.", func(req *request) {
		req.reply(500, "text/plain", "cannot list for "+req.http.Header.Get("Authorization"))
	}, "tools/list"),
}
