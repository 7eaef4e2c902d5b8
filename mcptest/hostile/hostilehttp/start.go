package hostilehttp

import (
	"net/http"
	"strings"
)

// onStart is what happens to both ways of beginning.
func onStart(name, about string, do handler) Misbehaviour {
	return whenever(name, about, do, "server/discover", "initialize")
}

// onInitialize is what happens to initialize at a server that knows no other way.
func onInitialize(name, about string, do handler) Misbehaviour {
	return legacyOnly(whenever(name, about, do, "initialize"))
}

// initialized is initialize answered with another result, in a session.
func initialized(result string) handler {
	return func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		req.say(req.resultMessage(result))
	}
}

// startMisbehaviours keep a session from beginning, or nearly.
var startMisbehaviours = []Misbehaviour{
	onStart("start/html-200", "Is the front page of something else.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onStart("start/404", "Knows nothing of the path.", plainStatus(404)),
	onStart("start/405", "Takes no POST.", plainStatus(405)),
	onStart("start/401", "Wants credentials, or others.", plainStatus(401)),
	onStart("start/403", "Refuses our credentials with a web page.", func(req *request) { req.reply(403, "text/html", webPage) }),
	onStart("start/500", "Fails at everything.", plainStatus(500)),
	onStart("start/503", "Is being maintained.", retryAfterIs(503, "120")),
	onStart("start/empty-200", "Answers nothing at all with 200.", func(req *request) { req.reply(200, "application/json", "") }),
	onStart("start/202", "Accepts everything and answers nothing.", plainStatus(202)),
	onStart("start/no-answer", "Never answers.", (*request).hang),
	onStart("start/slow-for-ever", "Sends a byte now and then, and never an answer.", func(req *request) {
		req.begin(200, "application/json", "")
		for req.drip(strings.Repeat(" ", 1<<10), 10*dripInterval) {
			continue
		}
	}),
	onStart("start/no-http", "Is not an HTTP server.", rawBytes("220 smtp.example.com ESMTP\r\n")),
	onStart("start/tls", "Speaks TLS on a plain port.", rawBytes("\x15\x03\x01\x00\x02\x02\x46")),
	onStart("start/tls-plain", "Speaks TLS on a plain port, and says so in plain text.", func(req *request) {
		req.w.Header().Set("Connection", "close")
		req.reply(400, "", "Client sent an HTTP request to an HTTPS server.\n")
	}),
	onStart("start/close", "Closes each connection without a word.", func(req *request) { req.raw(func(*rawConn) {}) }),
	onStart("start/reset", "Resets each connection.", func(req *request) { req.raw((*rawConn).reset) }),
	onStart("start/switching", "Says 101 Switching Protocols.", switching),
	onStart("start/elsewhere", "Redirects to another origin.", func(req *request) { redirectTo(req, 307, req.server.otherOrigin) }),
	onStart("start/loop", "Redirects to itself.", func(req *request) { redirectTo(req, 308, req.http.URL.Path) }),
	onStart("start/login", "Redirects to a login page with 302.", func(req *request) { redirectTo(req, 302, "/login?next=mcp") }),
	onStart("start/endless", "Answers with JSON that never ends.", func(req *request) {
		req.begin(200, "application/json", `{"jsonrpc":"2.0","result":"`)
		req.flood("abcdefgh")
	}),
	onStart("start/headers-10-mb", "Answers with a header of more than 10 MB.", func(req *request) {
		req.raw(func(c *rawConn) {
			for ok := c.write("HTTP/1.1 200 OK\r\nX-Story: "); ok; ok = c.write("%s", block) {
				continue
			}
		})
	}),

	onInitialize("start/refused", "Refuses to be initialized.", func(req *request) { req.sayError(200, -32602, "not today") }),
	onInitialize("start/version-old", "Offers a version of the last millennium.", initialized(`{"protocolVersion":"1999-01-01",`+goodCapabilities+`,`+goodInfo+`}`)),
	onInitialize("start/version-number", "Gives its version as a number.", initialized(`{"protocolVersion":20251125,`+goodCapabilities+`,`+goodInfo+`}`)),
	onInitialize("start/result-null", "Answers initialize with null.", initialized("null")),
	onInitialize("start/result-empty", "Answers initialize with an empty object.", initialized("{}")),
	onInitialize("start/result-list", "Answers initialize with a list.", initialized("[]")),
	onInitialize("start/capabilities-list", "Gives its capabilities as a list.", initialized(`{"protocolVersion":"2025-11-25","capabilities":[],`+goodInfo+`}`)),
	onInitialize("start/capabilities-null", "Declares no capabilities, and has tools.", initialized(`{"protocolVersion":"2025-11-25","capabilities":null,`+goodInfo+`}`)),
	onInitialize("start/info-missing", "Does not say who it is.", initialized(`{"protocolVersion":"2025-11-25",`+goodCapabilities+`}`)),
	onInitialize("start/instructions-huge", "Gives instructions of ten megabytes.",
		func(req *request) {
			initialized(`{"protocolVersion":"2025-11-25",` + goodCapabilities + `,` + goodInfo + `,"instructions":"` + strings.Repeat("obey! ", 10<<20/6) + `"}`)(req)
		}),
	onInitialize("start/capabilities-broad", "Declares an experimental capability of 300,000 objects.", func(req *request) {
		initialized(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"experimental":{"x":{"m":[` + strings.Repeat(`{"a":0},`, 300_000) + `0]}}},` + goodInfo + `}`)(req)
	}),
	onInitialize("start/events-open", "Answers initialize in an event stream that stays open forever.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		req.events().message(req.answer())
		req.hang()
	}),
	onInitialize("start/answered-twice", "Answers initialize twice, with different versions.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		if e := req.events(); e.message(req.answer()) {
			e.message(req.resultMessage(`{"protocolVersion":"2024-11-05",` + goodCapabilities + `,` + goodInfo + `}`))
		}
	}),
	onInitialize("start/asks-first", "Asks the client before it answers initialize.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		e := req.events()
		for _, request := range requestsOf(everyRequest...)(req) {
			e.message(request)
		}
		e.message(req.answer())
	}),
	legacyOnly(whenever("start/initialized-500", "Fails at notifications/initialized.", plainStatus(500), "notifications/initialized")),
	legacyOnly(whenever("start/initialized-401", "Wants credentials at notifications/initialized.", plainStatus(401), "notifications/initialized")),
	legacyOnly(whenever("start/initialized-404", "Has forgotten the session at notifications/initialized.", plainStatus(404), "notifications/initialized")),
	legacyOnly(whenever("start/initialized-hang", "Never answers notifications/initialized.", (*request).hang, "notifications/initialized")),
	legacyOnly(whenever("start/initialized-result", "Answers notifications/initialized with a result.", func(req *request) {
		req.reply(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`)
	}, "notifications/initialized")),
}
