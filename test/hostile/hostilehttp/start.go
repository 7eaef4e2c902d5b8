package hostilehttp

import (
	"net/http"
	"strings"
)

// onStart handles server/discover and initialize, the two ways to begin.
func onStart(name, about string, do handler) Misbehaviour {
	return onKeys(name, about, do, "server/discover", "initialize")
}

// onInitialize handles initialize in a server that knows no other way to begin.
func onInitialize(name, about string, do handler) Misbehaviour {
	return legacyOnly(onKeys(name, about, do, "initialize"))
}

// answersInitialize opens a session and answers initialize with the given result.
func answersInitialize(result string) handler {
	return func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		req.replyMessage(req.resultMessage(result))
	}
}

// startMisbehaviours affect the handshake.
var startMisbehaviours = []Misbehaviour{
	onStart("start/html-200", "Answers the handshake with 200 and an HTML page, as any web site does.", func(req *request) { req.reply(200, "text/html", webPage) }),
	onStart("start/404", "Rejects the handshake with 404, as at a wrong path.", plainStatus(404)),
	onStart("start/405", "Rejects the POST of the handshake with 405.", plainStatus(405)),
	onStart("start/401", "Rejects the handshake with 401.", plainStatus(401)),
	onStart("start/403", "Rejects the handshake with 403 and an HTML page.", func(req *request) { req.reply(403, "text/html", webPage) }),
	onStart("start/500", "Rejects the handshake with 500.", plainStatus(500)),
	onStart("start/503", "Rejects the handshake with 503 and a Retry-After, as during maintenance.", retryAfterIs(503, "120")),
	onStart("start/empty-200", "Answers the handshake with 200 and no body.", func(req *request) { req.reply(200, "application/json", "") }),
	onStart("start/202", "Replies 202 to the handshake and never answers it.", plainStatus(202)),
	onStart("start/no-answer", "Never answers the handshake.", (*request).waitForClient),
	onStart("start/slow-for-ever", "Answers the handshake with one blank at a time, forever.", func(req *request) {
		req.beginReply(200, "application/json", "")
		for req.drip(strings.Repeat(" ", 1<<10), 10*dripInterval) {
			continue
		}
	}),
	onStart("start/no-http", "Answers the handshake as a mail server instead of an HTTP server.", rawBytes("220 smtp.example.com ESMTP\r\n")),
	onStart("start/tls", "Answers the handshake with a TLS alert, as an https port does to http.", rawBytes("\x15\x03\x01\x00\x02\x02\x46")),
	onStart("start/tls-plain", "Answers the handshake with the plain-text error of an https port.", func(req *request) {
		req.w.Header().Set("Connection", "close")
		req.reply(400, "", "Client sent an HTTP request to an HTTPS server.\n")
	}),
	onStart("start/close", "Closes the connection instead of answering the handshake.", func(req *request) { req.takeOverConn(func(*rawConn) {}) }),
	onStart("start/reset", "Resets the connection instead of answering the handshake.", func(req *request) { req.takeOverConn((*rawConn).reset) }),
	onStart("start/switching", "Answers the handshake with 101 Switching Protocols.", switching),
	onStart("start/elsewhere", "Redirects the handshake to another origin.", func(req *request) { redirectTo(req, 307, req.server.otherOrigin) }),
	onStart("start/loop", "Redirects the handshake to its own URL, again and again.", func(req *request) { redirectTo(req, 308, req.http.URL.Path) }),
	onStart("start/login", "Redirects the handshake with 302 to a login page.", func(req *request) { redirectTo(req, 302, "/login?next=mcp") }),
	onStart("start/endless", "Answers the handshake with a JSON string that never ends.", func(req *request) {
		req.beginReply(200, "application/json", `{"jsonrpc":"2.0","result":"`)
		req.flood("abcdefgh")
	}),
	onStart("start/headers-10-mb", "Answers the handshake with a header of more than 10 MB.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			for ok := c.write("HTTP/1.1 200 OK\r\nX-Story: "); ok; ok = c.write("%s", block) {
				continue
			}
		})
	}),

	onInitialize("start/refused", "Rejects initialize with a JSON-RPC error.", func(req *request) { req.replyError(200, -32602, "not today") }),
	onInitialize("start/error-data", "Rejects initialize with an error that carries half a megabyte of data.", func(req *request) {
		req.replyMessage(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"error":{"code":-32603,"message":"much","data":"` + strings.Repeat("d", 1<<19) + `"}}`)
	}),
	onInitialize("start/version-old", "Answers initialize with the unknown protocol version 1999-01-01.", answersInitialize(`{"protocolVersion":"1999-01-01",`+goodCapabilities+`,`+goodInfo+`}`)),
	onInitialize("start/version-number", "Answers initialize with a protocol version that is a number.", answersInitialize(`{"protocolVersion":20251125,`+goodCapabilities+`,`+goodInfo+`}`)),
	onInitialize("start/result-null", "Answers initialize with null.", answersInitialize("null")),
	onInitialize("start/result-empty", "Answers initialize with an empty object.", answersInitialize("{}")),
	onInitialize("start/result-list", "Answers initialize with a list.", answersInitialize("[]")),
	onInitialize("start/capabilities-list", "Declares its capabilities as a list.", answersInitialize(`{"protocolVersion":"2025-11-25","capabilities":[],`+goodInfo+`}`)),
	onInitialize("start/capabilities-null", "Answers initialize with capabilities that are null, although it has tools.", answersInitialize(`{"protocolVersion":"2025-11-25","capabilities":null,`+goodInfo+`}`)),
	onInitialize("start/info-missing", "Answers initialize without serverInfo.", answersInitialize(`{"protocolVersion":"2025-11-25",`+goodCapabilities+`}`)),
	onInitialize("start/instructions-huge", "Answers initialize with ten megabytes of instructions.",
		func(req *request) {
			answersInitialize(`{"protocolVersion":"2025-11-25",` + goodCapabilities + `,` + goodInfo + `,"instructions":"` + strings.Repeat("obey! ", 10<<20/6) + `"}`)(req)
		}),
	onInitialize("start/capabilities-broad", "Declares an experimental capability that holds 300,000 objects.", func(req *request) {
		answersInitialize(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"experimental":{"x":{"m":[` + strings.Repeat(`{"a":0},`, 300_000) + `0]}}},` + goodInfo + `}`)(req)
	}),
	onInitialize("start/events-open", "Answers initialize on an event stream that it keeps open.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		req.events().message(req.answer())
		req.waitForClient()
	}),
	onInitialize("start/answered-twice", "Answers initialize twice, with different protocol versions.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		if e := req.events(); e.message(req.answer()) {
			e.message(req.resultMessage(`{"protocolVersion":"2024-11-05",` + goodCapabilities + `,` + goodInfo + `}`))
		}
	}),
	onInitialize("start/asks-first", "Sends requests of every kind before it answers initialize.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", req.server.newSession())
		e := req.events()
		for _, request := range requestsOf(everyRequest...)(req) {
			e.message(request)
		}
		e.message(req.answer())
	}),
	legacyOnly(onKeys("start/initialized-500", "Rejects notifications/initialized with 500.", plainStatus(500), "notifications/initialized")),
	legacyOnly(onKeys("start/initialized-401", "Rejects notifications/initialized with 401.", plainStatus(401), "notifications/initialized")),
	legacyOnly(onKeys("start/initialized-404", "Rejects notifications/initialized with 404, as if the session were lost.", plainStatus(404), "notifications/initialized")),
	legacyOnly(onKeys("start/initialized-hang", "Never responds to notifications/initialized.", (*request).waitForClient, "notifications/initialized")),
	legacyOnly(onKeys("start/initialized-result", "Answers notifications/initialized with a result, although notifications have none.", func(req *request) {
		req.reply(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`)
	}, "notifications/initialized")),
}
