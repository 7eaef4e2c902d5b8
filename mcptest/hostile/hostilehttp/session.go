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
	legacyOnly(whenCalled("session/lost", "Forgets the session, and says 404.", forgetting(plainStatus(404)))),
	legacyOnly(whenCalled("session/lost-rpc", "Forgets the session, and says so in a JSON-RPC error without an id under 404.",
		forgetting(rpcStatus(404, -32001, "Session not found", false)))),
	legacyOnly(whenCalled("session/lost-rpc-own", "Forgets the session, and says so in a JSON-RPC error with the request's id under 404.",
		forgetting(rpcStatus(404, -32001, "Session not found", true)))),
	legacyOnly(whenCalled("session/lost-400", "Forgets the session, and says 400 as one implementation does.",
		forgetting(rpcStatus(400, -32000, "Bad Request: Server not initialized", false)))),
	legacyOnly(whenCalled("session/lost-silently", "Forgets the session, and answers this one call as if nothing were.", forgetting(func(req *request) {
		req.say(req.answer())
	}))),
	legacyOnly(whenever("session/lost-always", "Forgets the session before each call.", forgetting(plainStatus(404)), "tools/call")),
	legacyOnly(whenever("session/id-missing", "Gives the session no id, and wants one.", func(req *request) {
		req.say(req.answer())
	}, "initialize")),
	legacyOnly(whenever("session/id-changes", "Names another session with everything that it says.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", "another-"+strconv.Itoa(req.nth))
		req.answerWell()
	}, "tools/call", "misbehave", "tools/list", "ping", "GET", "notifications/initialized")),
	named("session/id-empty", "Gives the session an empty id.", func(*request) []string { return []string{""} }),
	named("session/id-two", "Gives the session two ids.", func(*request) []string { return []string{"first", "second"} }),
	named("session/id-control", "Gives the session an id with control characters.", func(*request) []string { return []string{"a\x01b\x7fc"} }),
	named("session/id-blanks", "Gives the session an id with blanks, quotes and letters beyond ASCII.", func(*request) []string {
		return []string{`"hostile", größe; id=1`}
	}),
	named("session/id-megabyte", "Gives the session an id of a megabyte.", func(*request) []string { return []string{strings.Repeat("s", 1<<20)} }),
	named("session/id-secret", "Gives the session our own Authorization as id.", func(req *request) []string {
		return []string{req.http.Header.Get("Authorization")}
	}),
	legacyOnly(whenever("session/busy", "Refuses every second request with 409, because a session takes one at a time.", func(req *request) {
		if req.nth%2 == 0 {
			req.reply(http.StatusConflict, "text/plain", "one at a time")
			return
		}
		req.answerWell()
	}, "misbehave")),

	legacyOnly(whenever("shutdown/hang", "Never answers the DELETE at the end.", (*request).hang, "DELETE")),
	legacyOnly(whenever("shutdown/405", "Does not let clients end their sessions.", plainStatus(405), "DELETE")),
	legacyOnly(whenever("shutdown/500", "Fails to end a session.", plainStatus(500), "DELETE")),
	legacyOnly(whenever("shutdown/reset", "Resets the connection of the DELETE.", func(req *request) { req.raw((*rawConn).reset) }, "DELETE")),
	legacyOnly(whenever("shutdown/endless", "Answers the DELETE with a body that never ends.", func(req *request) {
		req.begin(200, "text/plain", "bye")
		req.flood("bye ")
	}, "DELETE")),
	legacyOnly(whenever("shutdown/elsewhere", "Redirects the DELETE to another origin.", func(req *request) { redirectTo(req, 307, req.server.otherOrigin) }, "DELETE")),
	legacyOnly(whenever("shutdown/switching", "Says 101 Switching Protocols to the DELETE.", switching, "DELETE")),
}

func switching(req *request) {
	req.raw(func(c *rawConn) {
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: hostile/1\r\n\r\n")
		c.wait()
	})
}
