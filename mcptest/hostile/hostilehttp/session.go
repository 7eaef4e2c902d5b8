package hostilehttp

import (
	"net/http"
	"strconv"
	"strings"
)

// named is a server that gives its session this id, and takes any.
func named(name, about string, id func(req *request) []string) Misbehaviour {
	return legacyOnly(whenever(name, about, func(req *request) {
		if req.method == "initialize" {
			req.w.Header()["Mcp-Session-Id"] = id(req)
			req.say(req.answer())
			return
		}
		req.sessionless()
	}, "*"))
}

// sessionless does what a server without sessions does.
func (req *request) sessionless() {
	switch {
	case req.method == http.MethodGet:
		req.stream()
	case req.method == http.MethodDelete, req.id == nil:
		req.w.WriteHeader(http.StatusAccepted)
	case req.method == "server/discover":
		req.answerWell()
	default:
		req.say(req.answer())
	}
}

// forgetting forgets every session and refuses the call that asked for it.
func forgetting(refuse handler) handler {
	return func(req *request) {
		req.server.forget("")
		refuse(req)
	}
}

// sessionMisbehaviours are about sessions, which 2026-07-28 has none of.
var sessionMisbehaviours = []Misbehaviour{
	legacyOnly(whenCalled("session/lost", "Forgets the session and answers 404.", forgetting(plainStatus(404)))),
	legacyOnly(whenCalled("session/lost-rpc", "Forgets the session and answers 404 with a JSON-RPC error whose id is null.",
		forgetting(rpcStatus(404, -32001, "Session not found", false)))),
	legacyOnly(whenCalled("session/lost-rpc-own", "Forgets the session and answers 404 with a JSON-RPC error that has the request's id.",
		forgetting(rpcStatus(404, -32001, "Session not found", true)))),
	legacyOnly(whenCalled("session/lost-400", "Forgets the session and answers 400, as one SDK does.",
		forgetting(rpcStatus(400, -32000, "Bad Request: Server not initialized", false)))),
	legacyOnly(whenCalled("session/lost-silently", "Answers the call but forgets the session, so the next request is rejected.", forgetting(func(req *request) {
		req.say(req.answer())
	}))),
	legacyOnly(whenever("session/lost-always", "Forgets the session before every call.", forgetting(plainStatus(404)), "tools/call")),
	legacyOnly(whenever("session/id-missing", "Sets no session id but requires one later.", func(req *request) {
		req.say(req.answer())
	}, "initialize")),
	legacyOnly(whenever("session/id-changes", "Sends a different session id with each response after initialize, which exposes clients that adopt it.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", "another-"+strconv.Itoa(req.nth))
		req.answerWell()
	}, "tools/call", "misbehave", "tools/list", "ping", "GET", "notifications/initialized")),
	named("session/id-empty", "Sets an empty session id.", func(*request) []string { return []string{""} }),
	named("session/id-two", "Sets two session ids.", func(*request) []string { return []string{"first", "second"} }),
	named("session/id-control", "Sets a session id with control characters.", func(*request) []string { return []string{"a\x01b\x7fc"} }),
	named("session/id-blanks", "Sets a session id with blanks, quotes and characters beyond ASCII.", func(*request) []string {
		return []string{`"hostile", größe; id=1`}
	}),
	named("session/id-megabyte", "Sets a session id of a megabyte.", func(*request) []string { return []string{strings.Repeat("s", 1<<20)} }),
	named("session/id-secret", "Sets the client's Authorization as the session id, which exposes clients that log the id.", func(req *request) []string {
		return []string{req.http.Header.Get("Authorization")}
	}),
	legacyOnly(whenever("session/busy", "Rejects every second call with 409, because it serves one at a time.", func(req *request) {
		if req.nth%2 == 0 {
			req.reply(http.StatusConflict, "text/plain", "one at a time")
			return
		}
		req.answerWell()
	}, "misbehave")),

	legacyOnly(whenever("shutdown/hang", "Never answers the DELETE of the session.", (*request).hang, "DELETE")),
	legacyOnly(whenever("shutdown/405", "Rejects the DELETE of the session with 405, as it may.", plainStatus(405), "DELETE")),
	legacyOnly(whenever("shutdown/500", "Rejects the DELETE of the session with 500.", plainStatus(500), "DELETE")),
	legacyOnly(whenever("shutdown/reset", "Resets the connection of the DELETE of the session.", func(req *request) { req.raw((*rawConn).reset) }, "DELETE")),
	legacyOnly(whenever("shutdown/endless", "Answers the DELETE of the session with a body that never ends.", func(req *request) {
		req.begin(200, "text/plain", "bye")
		req.flood("bye ")
	}, "DELETE")),
	legacyOnly(whenever("shutdown/elsewhere", "Redirects the DELETE of the session to another origin.", func(req *request) { redirectTo(req, 307, req.server.otherOrigin) }, "DELETE")),
	legacyOnly(whenever("shutdown/switching", "Answers the DELETE of the session with 101 Switching Protocols.", switching, "DELETE")),
}

func switching(req *request) {
	req.raw(func(c *rawConn) {
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: hostile/1\r\n\r\n")
		c.wait()
	})
}
