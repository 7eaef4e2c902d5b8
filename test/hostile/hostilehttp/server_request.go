package hostilehttp

import (
	"fmt"
	"strings"
)

// requestsFirst sends requests to the client before it answers the calls of [BadTool].
func requestsFirst(name, about string, requests func(req *request) []string, onAnswer handler) Misbehaviour {
	return Misbehaviour{Name: name, About: about, handlers: func() handlers {
		h := handlers{"misbehave": func(req *request) {
			e := req.events()
			for _, r := range requests(req) {
				if !e.message(r) {
					return
				}
			}
			e.message(req.answer())
		}}
		if onAnswer != nil {
			h["answer"] = onAnswer
		}
		return h
	}}
}

// requestsOf returns one request of the server for each method.
func requestsOf(methods ...string) func(*request) []string {
	return func(*request) (all []string) {
		for i, method := range methods {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":"hostile-%d","method":%q,"params":{}}`, i, method))
		}
		return all
	}
}

var (
	everyRequest = []string{"ping", "sampling/createMessage", "roots/list", "elicitation/create", "completion/complete",
		"tools/list", "initialize", "hostile/unknown", ""}
	hundredPings = strings.Fields(strings.Repeat("ping ", 100))
)

// serverRequestMisbehaviours are about requests and notifications from the server.
var serverRequestMisbehaviours = []Misbehaviour{
	requestsFirst("answers/accepted", "Sends requests of every kind on the call's stream before it answers the call.", requestsOf(everyRequest...), nil),
	requestsFirst("answers/500", "Sends requests on the call's stream and rejects the client's answers with 500.", requestsOf(everyRequest...), plainStatus(500)),
	requestsFirst("answers/401", "Sends requests on the call's stream and rejects the client's answers with 401.", requestsOf("ping", "roots/list"), plainStatus(401)),
	requestsFirst("answers/400", "Sends requests on the call's stream and rejects the client's answers with 400.", requestsOf("ping", "roots/list"), plainStatus(400)),
	requestsFirst("answers/html", "Sends a request on the call's stream and replies to the client's answer with an HTML page.", requestsOf("ping"), func(req *request) {
		req.reply(200, "text/html", webPage)
	}),
	requestsFirst("answers/stalled", "Sends a hundred requests on the call's stream and never replies to the client's answers.", requestsOf(hundredPings...), (*request).waitForClient),
	requestsFirst("answers/stalled-body", "Sends requests on the call's stream and never ends its replies to the client's answers.", requestsOf("ping", "ping"), func(req *request) {
		req.beginReply(500, "text/plain", "I never")
		req.waitForClient()
	}),
	requestsFirst("answers/reset", "Sends requests on the call's stream and resets the connections of the client's answers.", requestsOf("ping", "ping"), func(req *request) {
		req.takeOverConn((*rawConn).reset)
	}),
	requestsFirst("answers/elsewhere", "Sends a request on the call's stream and redirects the client's answer to another origin.", requestsOf("ping"), func(req *request) {
		redirectTo(req, 307, req.server.otherOrigin)
	}),
	requestsFirst("answers/own-id", "Sends a ping under the id of the client's own call, which exposes clients that keep both in one table.", func(req *request) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, req.id)}
	}, nil),
	requestsFirst("answers/same-id", "Sends 50 requests under one id.", func(*request) []string {
		return strings.Split(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}|`, 50)+progressMessage, "|")
	}, nil),
	requestsFirst("answers/odd-ids", "Sends requests with invalid ids.", func(*request) (all []string) {
		for _, id := range []string{"null", "true", "{}", "[1]", "1.5", "-0", "1e999", `""`, `"` + strings.Repeat("i", 1<<16) + `"`} {
			all = append(all, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		}
		return all
	}, nil),
	requestsFirst("answers/broad", "Sends requests with 300,000 empty messages and options, and a cancellation with as many objects.", func(*request) []string {
		return []string{
			`{"jsonrpc":"2.0","id":"broad-1","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[` +
				strings.Repeat(`{"role":"user","content":{"type":"text","text":""}},`, 300_000) + `{"role":"user","content":{"type":"text","text":""}}]}}`,
			`{"jsonrpc":"2.0","id":"broad-2","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":[` +
				strings.Repeat(`"",`, 300_000) + `"x"]}}}}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","_meta":{"m":[` + strings.Repeat(`{"a":0},`, 300_000) + `0]}}}`,
		}
	}, nil),
	requestsFirst("answers/odd-notifications", "Sends notifications with parameters of wrong types.", func(req *request) (all []string) {
		for _, method := range []string{"notifications/cancelled", "notifications/progress", "notifications/message", "notifications/resources/updated",
			"notifications/elicitation/complete", "notifications/tools/list_changed", "notifications/initialized", "notifications/unheard-of"} {
			for _, params := range []string{"null", "[]", "{}", `"x"`, "7", `{"requestId":` + string(req.id) + `,"progressToken":{},"uri":5,"level":9}`} {
				all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
			}
		}
		return all
	}, nil),
	requestsFirst("answers/cancels-us", "Cancels the client's call, which only the client may do, and then answers it.", func(req *request) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, req.id)}
	}, nil),
	requestsFirst("answers/list-changed-storm", "Sends a thousand list_changed notifications, which exposes clients that list the tools again after each.", func(*request) []string {
		return strings.Split(strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}|`, 1000), "|"), "|")
	}, nil),
}
