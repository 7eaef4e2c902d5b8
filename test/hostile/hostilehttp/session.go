package hostilehttp

import (
	"net/http"
	"strconv"
	"strings"
)

// sessionIDRow is a server that sets these session ids and accepts any.
func sessionIDRow(name, about string, id func(req *request) []string) Misbehaviour {
	return legacyOnly(onKeys(name, about, func(req *request) {
		if req.method == "initialize" {
			req.w.Header()["Mcp-Session-Id"] = id(req)
			req.replyMessage(req.answer())
			return
		}
		req.answerWithoutSession()
	}, "*"))
}

// answerWithoutSession answers as a server without sessions does.
func (req *request) answerWithoutSession() {
	switch {
	case req.method == http.MethodGet:
		req.stream()
	case req.method == http.MethodDelete, req.id == nil:
		req.w.WriteHeader(http.StatusAccepted)
	case req.method == "server/discover":
		req.answerWell()
	default:
		req.replyMessage(req.answer())
	}
}

// forgetsSession forgets every session and then handles the call.
func forgetsSession(refuse handler) handler {
	return func(req *request) {
		req.server.forget("")
		refuse(req)
	}
}

// sessionMisbehaviours are about sessions, which 2026-07-28 does not have.
var sessionMisbehaviours = []Misbehaviour{
	legacyOnly(onCall("session/lost", "Forgets the session and answers 404.", forgetsSession(plainStatus(404)))),
	legacyOnly(onCall("session/lost-rpc", "Forgets the session and answers 404 with a JSON-RPC error whose id is null.",
		forgetsSession(rpcStatus(404, -32001, "Session not found", false)))),
	legacyOnly(onCall("session/lost-rpc-own", "Forgets the session and answers 404 with a JSON-RPC error that has the request's id.",
		forgetsSession(rpcStatus(404, -32001, "Session not found", true)))),
	legacyOnly(onCall("session/lost-400", "Forgets the session and answers 400, as one SDK does.",
		forgetsSession(rpcStatus(400, -32000, "Bad Request: Server not initialized", false)))),
	legacyOnly(onCall("session/lost-silently", "Answers the call but forgets the session, so the next request is rejected.", forgetsSession(func(req *request) {
		req.replyMessage(req.answer())
	}))),
	legacyOnly(onKeys("session/lost-always", "Forgets the session before every call.", forgetsSession(plainStatus(404)), "tools/call")),
	breaksAtCall("session/lost-410", "Forgets the session after a call, and answers 410.", true, plainStatus(410)),
	breaksAtCall("session/lost-200", "Forgets the session after a call, and answers 200 with a JSON-RPC error.", true, rpcStatus(200, -32600, "Session not found", true)),
	breaksAtCall("session/lost-500", "Forgets the session after a call, and answers 500.", true, plainStatus(500)),
	breaksAtCall("session/lost-in-other-words", "Forgets the session after a call, and answers 400 in words of its own.", true,
		rpcStatus(400, -32000, "Bad Request: No valid session ID or not an initialize request", false)),
	legacyOnly(onKeys("session/id-missing", "Sets no session id but requires one later.", func(req *request) {
		req.replyMessage(req.answer())
	}, "initialize")),
	legacyOnly(onKeys("session/id-changes", "Sends a different session id with each response after initialize, which exposes clients that adopt it.", func(req *request) {
		req.w.Header().Set("Mcp-Session-Id", "another-"+strconv.Itoa(req.count))
		req.answerWell()
	}, "tools/call", "misbehave", "tools/list", "ping", "GET", "notifications/initialized")),
	sessionIDRow("session/id-empty", "Sets an empty session id.", func(*request) []string { return []string{""} }),
	sessionIDRow("session/id-two", "Sets two session ids.", func(*request) []string { return []string{"first", "second"} }),
	sessionIDRow("session/id-control", "Sets a session id with control characters.", func(*request) []string { return []string{"a\x01b\x7fc"} }),
	sessionIDRow("session/id-blanks", "Sets a session id with blanks, quotes and characters beyond ASCII.", func(*request) []string {
		return []string{`"hostile", größe; id=1`}
	}),
	sessionIDRow("session/id-megabyte", "Sets a session id of a megabyte.", func(*request) []string { return []string{strings.Repeat("s", 1<<20)} }),
	sessionIDRow("session/id-secret", "Sets the client's Authorization as the session id, which exposes clients that log the id.", func(req *request) []string {
		return []string{req.http.Header.Get("Authorization")}
	}),
	legacyOnly(onKeys("session/busy", "Rejects every second call with 409, because it serves one at a time.", func(req *request) {
		if req.count%2 == 0 {
			req.reply(http.StatusConflict, "text/plain", "one at a time")
			return
		}
		req.answerWell()
	}, "misbehave")),

	legacyOnly(onKeys("shutdown/hang", "Never answers the DELETE of the session.", (*request).waitForClient, "DELETE")),
	legacyOnly(onKeys("shutdown/405", "Rejects the DELETE of the session with 405, as it may.", plainStatus(405), "DELETE")),
	legacyOnly(onKeys("shutdown/500", "Rejects the DELETE of the session with 500.", plainStatus(500), "DELETE")),
	legacyOnly(onKeys("shutdown/reset", "Resets the connection of the DELETE of the session.", func(req *request) { req.takeOverConn((*rawConn).reset) }, "DELETE")),
	legacyOnly(onKeys("shutdown/endless", "Answers the DELETE of the session with a body that never ends.", func(req *request) {
		req.beginReply(200, "text/plain", "bye")
		req.flood("bye ")
	}, "DELETE")),
	legacyOnly(onKeys("shutdown/elsewhere", "Redirects the DELETE of the session to another origin.", func(req *request) { redirectTo(req, 307, req.server.otherOrigin) }, "DELETE")),
	legacyOnly(onKeys("shutdown/stalled-redirects", "Redirects the DELETE of the session to its own URL, again and again, with bodies that never arrive.", func(req *request) {
		req.w.Header().Set("Content-Length", "100")
		redirectTo(req, 307, req.http.URL.Path)
		_ = req.flush()
		req.waitForClient()
	}, "DELETE")),
	legacyOnly(onKeys("shutdown/deaf", "Answers initialize and then nothing more: neither the GET nor a notification nor the DELETE.",
		(*request).waitForClient, "GET", "notifications/initialized", "notifications/cancelled", "DELETE")),
	legacyOnly(onKeys("shutdown/switching", "Answers the DELETE of the session with 101 Switching Protocols.", switching, "DELETE")),
}

func switching(req *request) {
	req.takeOverConn(func(c *rawConn) {
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: hostile/1\r\n\r\n")
		c.wait()
	})
}
