package hostilehttp

import (
	"net/http"
	"sync/atomic"
)

// breaksAtCall is a server that works until the first call of BadTool, which it answers. From
// then on it answers every request as refuse does, or until an initialize if mended.
func breaksAtCall(name, about string, mended bool, refuse handler) Misbehaviour {
	return legacyOnly(Misbehaviour{Name: name, About: about, handlers: func() handlers {
		var broken atomic.Bool
		answer := func(req *request) {
			if broken.Load() {
				refuse(req)
				return
			}
			req.answerWell()
		}
		return handlers{
			"*": answer,
			"misbehave": func(req *request) {
				answer(req)
				broken.Store(true)
			},
			"initialize": func(req *request) {
				broken.CompareAndSwap(mended, false)
				answer(req)
			},
		}
	}})
}

// tires is a server that refuses the requests with these keys after the first n of each session.
func tires(name, about string, n int64, refuse handler, keys ...string) Misbehaviour {
	return legacyOnly(Misbehaviour{Name: name, About: about, handlers: func() handlers {
		var count atomic.Int64
		h := handlers{"initialize": func(req *request) { count.Store(0); req.answerWell() }}
		for _, key := range keys {
			h[key] = func(req *request) {
				if count.Add(1) > n {
					refuse(req)
					return
				}
				req.answerWell()
			}
		}
		return h
	}})
}

// probeMisbehaviours are servers that look alive and are not, or are alive and do not look so.
var probeMisbehaviours = []Misbehaviour{
	breaksAtCall("probe/502", "Answers everything with 502 after a call, as a proxy without a backend does.", false, plainStatus(502)),
	breaksAtCall("probe/503-rpc", "Answers everything with 503 and a JSON-RPC error after a call.", false, rpcStatus(503, -32000, "no backend", true)),
	breaksAtCall("probe/504", "Answers everything with 504 after a call.", false, plainStatus(504)),
	breaksAtCall("probe/500", "Answers everything with 500 after a call.", false, plainStatus(500)),
	breaksAtCall("probe/html", "Answers everything with a web page after a call, as a captive portal does.", false, func(req *request) { req.reply(200, "text/html", webPage) }),
	breaksAtCall("probe/login", "Redirects everything to another origin after a call.", false, func(req *request) { redirectTo(req, 302, req.server.otherOrigin) }),
	breaksAtCall("probe/empty", "Answers everything with 200 and no content after a call.", false, func(req *request) { req.reply(200, "application/json", "") }),
	breaksAtCall("probe/json", "Answers everything with JSON that is no message after a call.", false, func(req *request) { req.reply(200, "application/json", `{"status":"up"}`) }),
	breaksAtCall("probe/other-id", "Answers every request with a result for another one after a call.", false, func(req *request) {
		req.reply(200, "application/json", `{"jsonrpc":"2.0","id":"other","result":{}}`)
	}),
	breaksAtCall("probe/heartbeat", "Answers everything with 502 after a call, but keeps its event stream open and sends comments.", false, func(req *request) {
		if req.method == http.MethodGet {
			req.events()
			req.flood(": heartbeat\n\n")
			return
		}
		plainStatus(502)(req)
	}),
	breaksAtCall("probe/401", "Refuses the credentials after a call.", false, plainStatus(401)),
	breaksAtCall("probe/403", "Forbids everything after a call.", false, plainStatus(403)),
	tires("probe/ping-405", "Refuses every ping with 405.", 0, plainStatus(405), "ping"),
	tires("probe/ping-403", "Forbids every ping, and nothing else.", 0, plainStatus(403), "ping"),
	tires("probe/ping-429", "Answers every ping with 429 and Retry-After.", 0, retryAfterIs(429, "1"), "ping"),
	tires("probe/ping-tires", "Refuses each ping of a session after the third, and nothing else, which exposes clients that replace each session.",
		3, plainStatus(400), "ping"),
}
