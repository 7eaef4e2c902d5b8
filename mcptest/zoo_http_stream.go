package mcptest

import (
	"fmt"
	"net/http"
	"strings"
)

// onStream is what happens when the client opens the standalone stream.
func onStream(name, about string, do act) HTTPMisbehaviour {
	return oldFashioned(whenever(name, about, do, "GET"))
}

// floodsStream repeats one event on the standalone stream.
func floodsStream(text string) act {
	return func(v *visit) {
		v.events()
		v.flood("data: " + text + "\n\n")
	}
}

// streamMisbehaviours are about the standalone event stream of 2025-11-25.
var streamMisbehaviours = []HTTPMisbehaviour{
	onStream("stream/404", "Has no standalone stream, and says 404.", plainStatus(404)),
	onStream("stream/405", "Has no standalone stream, as it may.", plainStatus(405)),
	onStream("stream/400", "Has no standalone stream, and says 400 about the session.", func(v *visit) {
		v.reply(400, "text/plain", "Bad Request: session is required")
	}),
	onStream("stream/401", "Wants credentials for the standalone stream.", plainStatus(401)),
	onStream("stream/500", "Fails at the standalone stream each time.", plainStatus(500)),
	onStream("stream/html", "Answers the GET with a web page.", func(v *visit) { v.reply(200, "text/html", zooPage) }),
	onStream("stream/no-answer", "Never answers the GET.", (*visit).hang),
	onStream("stream/stalled-error", "Refuses the GET with a text that never ends.", func(v *visit) {
		v.begin(http.StatusMethodNotAllowed, "text/plain", "no")
		v.hang()
	}),
	onStream("stream/switching", "Says 101 Switching Protocols to the GET.", switching),
	onStream("stream/reset", "Resets the connection of the GET.", func(v *visit) { v.bare((*bareConn).reset) }),
	onStream("stream/ends", "Ends the standalone stream at once, each time.", func(v *visit) { v.events() }),
	onStream("stream/ends-after-event", "Ends the standalone stream after one event, each time, and asks for haste.", func(v *visit) {
		v.events().send("id: %d\nretry: 0\ndata: %s\n\n", v.nth, zooLog)
	}),
	onStream("stream/elsewhere", "Redirects the GET to another origin.", func(v *visit) { redirectTo(v, 302, v.h.trap) }),
	onStream("stream/loop", "Redirects the GET to itself.", func(v *visit) { redirectTo(v, 302, v.r.URL.Path) }),
	onStream("stream/flood", "Sends notifications on the standalone stream without an end.", floodsStream(zooLog)),
	onStream("stream/flood-list-changed", "Says on the standalone stream, without an end, that its tools have changed.",
		floodsStream(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)),
	onStream("stream/flood-answers", "Answers on the standalone stream, without an end, what nobody has asked.",
		floodsStream(`{"jsonrpc":"2.0","id":1073741825,"result":{"content":[]}}`)),
	onStream("stream/flood-pings", "Pings the client on the standalone stream without an end.", floodsStream(`{"jsonrpc":"2.0","id":"zoo","method":"ping"}`)),
	oldFashioned(HTTPMisbehaviour{Name: "stream/flood-pings-stalled",
		About: "Pings the client on the standalone stream a thousand times under different ids, and never takes what it says.", habits: func() habits {
			return habits{"answer": (*visit).hang, "GET": func(v *visit) {
				e := v.events()
				for i := 0; i < 1000 && e.send("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i); i++ {
					continue
				}
				v.hang()
			}}
		}}),
	onStream("stream/endless-line", "Sends one line on the standalone stream that never ends.", func(v *visit) {
		v.events().send("data: ")
		v.flood("abcdefgh")
	}),
	onStream("stream/comments", "Sends comments on the standalone stream without an end.", func(v *visit) {
		v.events()
		v.flood(": still here\n")
	}),
	onStream("stream/junk", "Sends what is no JSON-RPC on the standalone stream.", func(v *visit) {
		e := v.events()
		for _, junk := range []string{"hello", "42", "{", "[]", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 100_000)} {
			e.message(junk)
		}
		v.hang()
	}),
	onStream("stream/never-again", "Ends the standalone stream and asks to be left alone for eleven days.", func(v *visit) {
		v.events().send("retry: 999999999\n\n")
	}),
	{Name: "stream/breaks", About: "Ends the standalone stream when the tool is called, and forgets the session.", legacyOnly: true, habits: func() habits {
		return habits{"misbehave": func(v *visit) {
			v.say(v.answer())
			_ = v.flush()
			v.h.forget("")
			v.h.breakStreams()
		}}
	}},
}

// secretMisbehaviours repeat the client's credentials where they may show.
var secretMisbehaviours = []HTTPMisbehaviour{
	whenCalled("secret/text", "Repeats our Authorization in the text of a 500.", func(v *visit) {
		v.reply(500, "text/plain", "cannot work with "+v.r.Header.Get("Authorization"))
	}),
	whenCalled("secret/json", "Repeats our Authorization in the JSON of a 401.", func(v *visit) {
		v.reply(401, "application/json", fmt.Sprintf(`{"error":"invalid_token","error_description":"bad token %s"}`, v.r.Header.Get("Authorization")))
	}),
	whenCalled("secret/rpc", "Repeats our Authorization in a JSON-RPC error, message and data.", func(v *visit) {
		secret := v.r.Header.Get("Authorization")
		v.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s","data":{"said":[%q]}}}`, v.id, secret, secret))
	}),
	whenCalled("secret/escaped", "Repeats our Authorization in a JSON-RPC error, its letters escaped.", func(v *visit) {
		var escaped strings.Builder
		for _, r := range v.r.Header.Get("Authorization") {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
		v.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"you said %s"}}`, v.id, escaped.String()))
	}),
	whenCalled("secret/redirect", "Repeats our Authorization in the URL that it redirects to.", func(v *visit) {
		redirectTo(v, 302, v.h.trap+"/"+strings.ReplaceAll(v.r.Header.Get("Authorization"), " ", "%20")+"?token=1")
	}),
	whenCalled("secret/reason", "Repeats our Authorization in the status line.", func(v *visit) {
		rawReply("500 no "+v.r.Header.Get("Authorization"), []string{"Content-Length: 0"}, "")(v)
	}),
	whenCalled("secret/version", "Repeats our Authorization where the version of HTTP should stand.", func(v *visit) {
		rawBytes(v.r.Header.Get("Authorization") + " HTTP\r\n\r\n")(v)
	}),
	whenCalled("secret/length", "Repeats our Authorization as the length of the body.", func(v *visit) {
		rawReply("200 OK", []string{"Content-Length: " + v.r.Header.Get("Authorization")}, "")(v)
	}),
	whenever("secret/start", "Repeats our Authorization in the error of the handshake.", func(v *visit) {
		v.sayError(http.StatusOK, -32000, "I do not know "+v.r.Header.Get("Authorization"))
	}, "server/discover", "initialize"),
	whenever("secret/list", "Repeats our Authorization in the error of the list.", func(v *visit) {
		v.reply(500, "text/plain", "cannot list for "+v.r.Header.Get("Authorization"))
	}, "tools/list"),
}
