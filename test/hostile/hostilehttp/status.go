package hostilehttp

import (
	"fmt"
	"net/http"
	"time"
)

// statuses are answered without JSON-RPC, each in a misbehaviour of its own.
var statuses = []int{202, 204, 205, 300, 304, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 413, 415,
	418, 421, 422, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 507, 511, 599}

// statusMisbehaviours answer a call with a status.
func statusMisbehaviours() []Misbehaviour {
	var all []Misbehaviour
	for _, status := range statuses {
		name := fmt.Sprintf("call/status-%d", status)
		all = append(all, onCall(name, fmt.Sprintf("Answers the call with HTTP %d and no JSON-RPC message.", status), plainStatus(status)))
	}
	return append(all,
		onCall("call/challenge-401", "Answers 401 with an OAuth challenge in WWW-Authenticate.", func(req *request) {
			req.w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="http://127.0.0.1:1/none"`)
			req.reply(http.StatusUnauthorized, "application/json", `{"error":"invalid_token","error_description":"The token has expired"}`)
		}),
		onCall("call/scope-403", "Answers 403 with an OAuth challenge that requires another scope.", func(req *request) {
			req.w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="admin"`)
			req.reply(http.StatusForbidden, "", "")
		}),
		onCall("call/html-400", "Answers 400 with an HTML page.", func(req *request) {
			req.reply(http.StatusBadRequest, "text/html", webPage)
		}),
		onCall("call/html-502", "Answers 502 with an HTML page, as gateways do.", func(req *request) {
			req.reply(http.StatusBadGateway, "text/html", webPage)
		}),
		onCall("call/html-404", "Answers 404 with an HTML page although the session exists, which exposes clients that end the session at any 404.", func(req *request) {
			req.reply(http.StatusNotFound, "text/html", webPage)
		}),
		onCall("call/rpc-400", "Answers 400 with a JSON-RPC error that has the request's id.", rpcStatus(400, -32602, "that will not do", true)),
		onCall("call/rpc-400-null", "Answers 400 with a JSON-RPC error whose id is null.", rpcStatus(400, -32600, "that will not do", false)),
		onCall("call/rpc-404", "Answers 404 with a JSON-RPC error about the tool, which exposes clients that take it for a lost session.",
			rpcStatus(404, -32602, "the tool has gone fishing", true)),
		onCall("call/rpc-500", "Answers 500 with a JSON-RPC error that has the request's id.", rpcStatus(500, -32603, "something broke", true)),
		onCall("call/rpc-401", "Answers 401 with a JSON-RPC error that has the request's id.", rpcStatus(401, -32001, "who are you?", true)),
		onCall("call/retry-seconds", "Answers 429 with a Retry-After in seconds.", retryAfterIs(429, "7")),
		onCall("call/retry-date", "Answers 503 with a Retry-After that is a date.", func(req *request) {
			retryAfterIs(503, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))(req)
		}),
		onCall("call/retry-absurd", "Answers 429 with a Retry-After of a hundred years, which exposes clients that wait for it.", retryAfterIs(429, "3155760000")),
		onCall("call/retry-huge", "Answers 429 with a Retry-After that fits no integer type.", retryAfterIs(429, "99999999999999999999999")),
		onCall("call/retry-negative", "Answers 503 with a negative Retry-After.", retryAfterIs(503, "-30")),
		onCall("call/retry-words", "Answers 503 with a Retry-After that is neither a number nor a date.", retryAfterIs(503, "tomorrow, perhaps")),
		onCall("call/long-reason", "Answers 500 with a megabyte of text that begins with control characters.", func(req *request) {
			req.beginReply(http.StatusInternalServerError, "text/plain", "\x1b[31mred\x00\a\r\n")
			for range 16 {
				_, _ = req.w.Write(block)
			}
		}),
	)
}

// webPage is an HTML page as a proxy sends it for a login or an error.
const webPage = "<!DOCTYPE html>\n<html><head><title>Oops</title></head><body>Please log in</body></html>"

func plainStatus(status int) handler {
	return func(req *request) {
		if status == http.StatusNoContent || status == http.StatusNotModified || status == http.StatusResetContent {
			req.w.WriteHeader(status)
			return
		}
		body := http.StatusText(status)
		if status < 300 {
			body = ""
		}
		req.reply(status, "text/plain", body)
	}
}

func rpcStatus(status, code int, message string, own bool) handler {
	return func(req *request) {
		id := "null"
		if own {
			id = string(req.id)
		}
		req.reply(status, "application/json", req.errorMessage(id, code, message))
	}
}

func retryAfterIs(status int, value string) handler {
	return func(req *request) {
		req.w.Header().Set("Retry-After", value)
		req.reply(status, "text/plain", "not now")
	}
}

// redirectMisbehaviours redirect the call.
var redirectMisbehaviours = []Misbehaviour{
	onCall("redirect/same-origin-307", "Redirects the call with 307 within its origin and answers it there.", func(req *request) {
		if req.http.URL.Path == endpointPath {
			redirectTo(req, 307, endpointPath+"/new?home=1")
			return
		}
		req.answerWell()
	}),
	onCall("redirect/same-origin-308-absolute", "Redirects the call with 308 to an absolute URL of its origin and answers it there.", func(req *request) {
		if req.http.URL.Path == endpointPath {
			redirectTo(req, 308, "http://"+req.http.Host+"/other")
			return
		}
		req.answerWell()
	}),
	onCall("redirect/same-origin-302", "Redirects the call with 302, which turns a POST into a GET.", func(req *request) {
		redirectTo(req, 302, "/other")
	}),
	onCall("redirect/see-other-303", "Redirects the call with 303, which turns a POST into a GET.", func(req *request) { redirectTo(req, 303, "/other") }),
	onCall("redirect/elsewhere-307", "Redirects the call with 307 to another origin, which exposes clients that send their credentials there.", func(req *request) {
		redirectTo(req, 307, req.server.otherOrigin)
	}),
	onCall("redirect/elsewhere-301", "Redirects the call with 301 to another origin.", func(req *request) { redirectTo(req, 301, req.server.otherOrigin) }),
	onCall("redirect/user-in-url", "Redirects the call within its origin to a URL with a user and a password, which exposes clients that send them.", func(req *request) {
		if req.http.URL.Path == endpointPath {
			redirectTo(req, 307, "http://admin:letmein@"+req.http.Host+"/other")
			return
		}
		req.answerWell()
	}),
	onCall("redirect/loop", "Redirects the call to its own URL, again and again.", func(req *request) { redirectTo(req, 307, req.http.URL.Path) }),
	onCall("redirect/file", "Redirects the call to a file URL.", func(req *request) { redirectTo(req, 307, "file:///etc/passwd") }),
	onCall("redirect/websocket", "Redirects the call to a ws URL.", func(req *request) { redirectTo(req, 308, "ws://"+req.http.Host+endpointPath) }),
	onCall("redirect/nowhere", "Redirects the call without a Location.", func(req *request) { req.reply(307, "", "") }),
	onCall("redirect/garbage", "Redirects the call to an invalid URL.", func(req *request) { redirectTo(req, 307, "http://[::1") }),
	onCall("redirect/stalled-body", "Redirects the call with a body that never ends, which exposes clients that read it first.", func(req *request) {
		if req.http.URL.Path != endpointPath {
			req.answerWell()
			return
		}
		req.w.Header().Set("Location", "/other")
		req.beginReply(307, "text/plain", "moved, and")
		req.waitForClient()
	}),
	onCall("redirect/to-slash", "Redirects the call to its own path with a slash, as web frameworks do.", func(req *request) {
		if req.http.URL.Path == endpointPath {
			redirectTo(req, 307, endpointPath+"/")
			return
		}
		req.answerWell()
	}),
}

func redirectTo(req *request, status int, target string) {
	req.w.Header().Set("Location", target)
	req.reply(status, "text/html", "<a href=elsewhere>elsewhere</a>")
}
