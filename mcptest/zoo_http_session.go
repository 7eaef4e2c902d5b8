package mcptest

import (
	"net/http"
	"strconv"
	"strings"
)

// named is a server that gives its session this id, and takes any.
func named(name, about string, id func(v *visit) []string) HTTPMisbehaviour {
	return oldFashioned(whenever(name, about, func(v *visit) {
		if v.what == "initialize" {
			v.w.Header()["Mcp-Session-Id"] = id(v)
			v.say(v.answer())
			return
		}
		v.sessionless()
	}, "*"))
}

// sessionless does what a server without sessions does.
func (v *visit) sessionless() {
	switch {
	case v.what == http.MethodGet:
		v.stream()
	case v.what == http.MethodDelete, v.id == nil:
		v.w.WriteHeader(http.StatusAccepted)
	case v.what == "server/discover":
		v.behave()
	default:
		v.say(v.answer())
	}
}

// forgetting forgets every session and refuses the call that asked for it.
func forgetting(refuse act) act {
	return func(v *visit) {
		v.h.forget("")
		refuse(v)
	}
}

// sessionMisbehaviours are about sessions, which 2026-07-28 has none of.
var sessionMisbehaviours = []HTTPMisbehaviour{
	oldFashioned(whenCalled("session/lost", "Forgets the session, and says 404.", forgetting(plainStatus(404)))),
	oldFashioned(whenCalled("session/lost-rpc", "Forgets the session, and says so in a JSON-RPC error without an id under 404.",
		forgetting(rpcStatus(404, -32001, "Session not found", false)))),
	oldFashioned(whenCalled("session/lost-rpc-own", "Forgets the session, and says so in a JSON-RPC error with the request's id under 404.",
		forgetting(rpcStatus(404, -32001, "Session not found", true)))),
	oldFashioned(whenCalled("session/lost-400", "Forgets the session, and says 400 as one implementation does.",
		forgetting(rpcStatus(400, -32000, "Bad Request: Server not initialized", false)))),
	oldFashioned(whenCalled("session/lost-silently", "Forgets the session, and answers this one call as if nothing were.", forgetting(func(v *visit) {
		v.say(v.answer())
	}))),
	oldFashioned(whenever("session/lost-always", "Forgets the session before each call.", forgetting(plainStatus(404)), "tools/call")),
	oldFashioned(whenever("session/id-missing", "Gives the session no id, and wants one.", func(v *visit) {
		v.say(v.answer())
	}, "initialize")),
	oldFashioned(whenever("session/id-changes", "Names another session with everything that it says.", func(v *visit) {
		v.w.Header().Set("Mcp-Session-Id", "another-"+strconv.Itoa(v.nth))
		v.behave()
	}, "tools/call", "misbehave", "tools/list", "ping", "GET", "notifications/initialized")),
	named("session/id-empty", "Gives the session an empty id.", func(*visit) []string { return []string{""} }),
	named("session/id-two", "Gives the session two ids.", func(*visit) []string { return []string{"first", "second"} }),
	named("session/id-control", "Gives the session an id with control characters.", func(*visit) []string { return []string{"a\x01b\x7fc"} }),
	named("session/id-blanks", "Gives the session an id with blanks, quotes and letters beyond ASCII.", func(*visit) []string {
		return []string{`"zoo", größe; id=1`}
	}),
	named("session/id-megabyte", "Gives the session an id of a megabyte.", func(*visit) []string { return []string{strings.Repeat("s", 1<<20)} }),
	named("session/id-secret", "Gives the session our own Authorization as id.", func(v *visit) []string {
		return []string{v.r.Header.Get("Authorization")}
	}),
	oldFashioned(whenever("session/busy", "Refuses every second request with 409, because a session takes one at a time.", func(v *visit) {
		if v.nth%2 == 0 {
			v.reply(http.StatusConflict, "text/plain", "one at a time")
			return
		}
		v.behave()
	}, "misbehave")),

	oldFashioned(whenever("shutdown/hang", "Never answers the DELETE at the end.", (*visit).hang, "DELETE")),
	oldFashioned(whenever("shutdown/405", "Does not let clients end their sessions.", plainStatus(405), "DELETE")),
	oldFashioned(whenever("shutdown/500", "Fails to end a session.", plainStatus(500), "DELETE")),
	oldFashioned(whenever("shutdown/reset", "Resets the connection of the DELETE.", func(v *visit) { v.bare((*bareConn).reset) }, "DELETE")),
	oldFashioned(whenever("shutdown/endless", "Answers the DELETE with a body that never ends.", func(v *visit) {
		v.begin(200, "text/plain", "bye")
		v.flood("bye ")
	}, "DELETE")),
	oldFashioned(whenever("shutdown/elsewhere", "Redirects the DELETE to another origin.", func(v *visit) { redirectTo(v, 307, v.h.trap) }, "DELETE")),
	oldFashioned(whenever("shutdown/switching", "Says 101 Switching Protocols to the DELETE.", switching, "DELETE")),
}

func switching(v *visit) {
	v.bare(func(c *bareConn) {
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: zoo/1\r\n\r\n")
		c.wait()
	})
}
