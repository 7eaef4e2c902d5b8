package mcptest

import (
	"net/http"
	"strings"
)

// onStart is what happens to both ways of beginning.
func onStart(name, about string, do act) HTTPMisbehaviour {
	return whenever(name, about, do, "server/discover", "initialize")
}

// onInitialize is what happens to initialize at a server that knows no other way.
func onInitialize(name, about string, do act) HTTPMisbehaviour {
	return oldFashioned(whenever(name, about, do, "initialize"))
}

// initialized is initialize answered with another result, in a session.
func initialized(result string) act {
	return func(v *visit) {
		v.w.Header().Set("Mcp-Session-Id", v.h.newSession())
		v.say(v.resultMessage(result))
	}
}

// startMisbehaviours keep a session from beginning, or nearly.
var startMisbehaviours = []HTTPMisbehaviour{
	onStart("start/html-200", "Is the front page of something else.", func(v *visit) { v.reply(200, "text/html", zooPage) }),
	onStart("start/404", "Knows nothing of the path.", plainStatus(404)),
	onStart("start/405", "Takes no POST.", plainStatus(405)),
	onStart("start/401", "Wants credentials, or others.", plainStatus(401)),
	onStart("start/403", "Refuses our credentials with a web page.", func(v *visit) { v.reply(403, "text/html", zooPage) }),
	onStart("start/500", "Fails at everything.", plainStatus(500)),
	onStart("start/503", "Is being maintained.", retryAfterIs(503, "120")),
	onStart("start/empty-200", "Answers nothing at all with 200.", func(v *visit) { v.reply(200, "application/json", "") }),
	onStart("start/202", "Accepts everything and answers nothing.", plainStatus(202)),
	onStart("start/no-answer", "Never answers.", (*visit).hang),
	onStart("start/slow-for-ever", "Sends a byte now and then, and never an answer.", func(v *visit) {
		v.begin(200, "application/json", "")
		for v.drip(strings.Repeat(" ", 1<<10), 10*dripPace) {
			continue
		}
	}),
	onStart("start/no-http", "Is no HTTP server.", rawBytes("220 smtp.zoo.example ESMTP\r\n")),
	onStart("start/tls", "Speaks TLS on a plain port.", rawBytes("\x15\x03\x01\x00\x02\x02\x46")),
	onStart("start/tls-plain", "Speaks TLS on a plain port, and says so in plain text.", func(v *visit) {
		v.w.Header().Set("Connection", "close")
		v.reply(400, "", "Client sent an HTTP request to an HTTPS server.\n")
	}),
	onStart("start/close", "Closes each connection without a word.", func(v *visit) { v.bare(func(*bareConn) {}) }),
	onStart("start/reset", "Resets each connection.", func(v *visit) { v.bare((*bareConn).reset) }),
	onStart("start/switching", "Says 101 Switching Protocols.", switching),
	onStart("start/elsewhere", "Redirects to another origin.", func(v *visit) { redirectTo(v, 307, v.h.trap) }),
	onStart("start/loop", "Redirects to itself.", func(v *visit) { redirectTo(v, 308, v.r.URL.Path) }),
	onStart("start/login", "Redirects to a login page with 302.", func(v *visit) { redirectTo(v, 302, "/login?next=mcp") }),
	onStart("start/endless", "Answers with JSON that never ends.", func(v *visit) {
		v.begin(200, "application/json", `{"jsonrpc":"2.0","result":"`)
		v.flood("abcdefgh")
	}),
	onStart("start/headers-10-mb", "Answers with a header of more than 10 MB.", func(v *visit) {
		v.bare(func(c *bareConn) {
			for ok := c.write("HTTP/1.1 200 OK\r\nX-Story: "); ok; ok = c.write("%s", zooBlock) {
				continue
			}
		})
	}),

	onInitialize("start/refused", "Refuses to be initialized.", func(v *visit) { v.sayError(200, -32602, "not today") }),
	onInitialize("start/version-old", "Offers a version of the last millennium.", initialized(`{"protocolVersion":"1999-01-01",`+zooCapabilities+`,`+zooInfo+`}`)),
	onInitialize("start/version-number", "Gives its version as a number.", initialized(`{"protocolVersion":20251125,`+zooCapabilities+`,`+zooInfo+`}`)),
	onInitialize("start/result-null", "Answers initialize with null.", initialized("null")),
	onInitialize("start/result-empty", "Answers initialize with an empty object.", initialized("{}")),
	onInitialize("start/result-list", "Answers initialize with a list.", initialized("[]")),
	onInitialize("start/capabilities-list", "Gives its capabilities as a list.", initialized(`{"protocolVersion":"2025-11-25","capabilities":[],`+zooInfo+`}`)),
	onInitialize("start/capabilities-null", "Declares no capabilities, and has tools.", initialized(`{"protocolVersion":"2025-11-25","capabilities":null,`+zooInfo+`}`)),
	onInitialize("start/info-missing", "Does not say who it is.", initialized(`{"protocolVersion":"2025-11-25",`+zooCapabilities+`}`)),
	onInitialize("start/instructions-huge", "Gives instructions of ten megabytes.",
		func(v *visit) {
			initialized(`{"protocolVersion":"2025-11-25",` + zooCapabilities + `,` + zooInfo + `,"instructions":"` + strings.Repeat("obey! ", 10<<20/6) + `"}`)(v)
		}),
	onInitialize("start/capabilities-broad", "Declares an experimental capability of 300,000 objects.", func(v *visit) {
		initialized(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"experimental":{"x":{"m":[` + strings.Repeat(`{"a":0},`, 300_000) + `0]}}},` + zooInfo + `}`)(v)
	}),
	onInitialize("start/events-open", "Answers initialize in an event stream that stays open for ever.", func(v *visit) {
		v.w.Header().Set("Mcp-Session-Id", v.h.newSession())
		v.events().message(v.answer())
		v.hang()
	}),
	onInitialize("start/answered-twice", "Answers initialize twice, with different versions.", func(v *visit) {
		v.w.Header().Set("Mcp-Session-Id", v.h.newSession())
		if e := v.events(); e.message(v.answer()) {
			e.message(v.resultMessage(`{"protocolVersion":"2024-11-05",` + zooCapabilities + `,` + zooInfo + `}`))
		}
	}),
	onInitialize("start/asks-first", "Asks the client before it answers initialize.", func(v *visit) {
		v.w.Header().Set("Mcp-Session-Id", v.h.newSession())
		e := v.events()
		for _, request := range requestsOf(everyRequest...)(v) {
			e.message(request)
		}
		e.message(v.answer())
	}),
	oldFashioned(whenever("start/initialized-500", "Fails at notifications/initialized.", plainStatus(500), "notifications/initialized")),
	oldFashioned(whenever("start/initialized-401", "Wants credentials at notifications/initialized.", plainStatus(401), "notifications/initialized")),
	oldFashioned(whenever("start/initialized-404", "Has forgotten the session at notifications/initialized.", plainStatus(404), "notifications/initialized")),
	oldFashioned(whenever("start/initialized-hang", "Never answers notifications/initialized.", (*visit).hang, "notifications/initialized")),
	oldFashioned(whenever("start/initialized-result", "Answers notifications/initialized with a result.", func(v *visit) {
		v.reply(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`)
	}, "notifications/initialized")),
}
