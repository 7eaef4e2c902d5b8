package hostilehttp

import (
	"fmt"
	"strings"
)

// asksFirst sends requests to the client before it answers the calls of [BadTool].
func asksFirst(name, about string, requests func(req *request) []string, answered handler) Misbehaviour {
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
		if answered != nil {
			h["answer"] = answered
		}
		return h
	}}
}

// requestsOf returns requests of the server, one for each method.
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

// serverRequestMisbehaviours are about requests and notifications of the server.
var serverRequestMisbehaviours = []Misbehaviour{
	asksFirst("answers/accepted", "Asks the client all kinds of things before it answers.", requestsOf(everyRequest...), nil),
	asksFirst("answers/500", "Asks the client before it answers, and refuses what it says with 500.", requestsOf(everyRequest...), plainStatus(500)),
	asksFirst("answers/401", "Asks the client before it answers, and refuses what it says with 401.", requestsOf("ping", "roots/list"), plainStatus(401)),
	asksFirst("answers/400", "Asks the client before it answers, and refuses what it says with 400.", requestsOf("ping", "roots/list"), plainStatus(400)),
	asksFirst("answers/html", "Asks the client before it answers, and greets what it says with a web page.", requestsOf("ping"), func(req *request) {
		req.reply(200, "text/html", webPage)
	}),
	asksFirst("answers/stalled", "Asks the client a hundred times before it answers, and never takes what it says.", requestsOf(hundredPings...), (*request).hang),
	asksFirst("answers/stalled-body", "Asks the client before it answers, and sends half of a reply to what it says.", requestsOf("ping", "ping"), func(req *request) {
		req.begin(500, "text/plain", "I never")
		req.hang()
	}),
	asksFirst("answers/reset", "Asks the client before it answers, and resets the connection of what it says.", requestsOf("ping", "ping"), func(req *request) {
		req.raw((*rawConn).reset)
	}),
	asksFirst("answers/elsewhere", "Asks the client before it answers, and redirects what it says to another origin.", requestsOf("ping"), func(req *request) {
		redirectTo(req, 307, req.server.otherOrigin)
	}),
	asksFirst("answers/own-id", "Asks the client something under the id of the client's own request.", func(req *request) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, req.id)}
	}, nil),
	asksFirst("answers/same-id", "Asks the client many things under one id.", func(*request) []string {
		return strings.Split(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}|`, 50)+progressMessage, "|")
	}, nil),
	asksFirst("answers/odd-ids", "Asks the client under invalid ids.", func(*request) (all []string) {
		for _, id := range []string{"null", "true", "{}", "[1]", "1.5", "-0", "1e999", `""`, `"` + strings.Repeat("i", 1<<16) + `"`} {
			all = append(all, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		}
		return all
	}, nil),
	asksFirst("answers/broad", "Asks a model to answer, and a user to choose from, 300,000 empty things, and cancels as much.", func(*request) []string {
		return []string{
			`{"jsonrpc":"2.0","id":"broad-1","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[` +
				strings.Repeat(`{"role":"user","content":{"type":"text","text":""}},`, 300_000) + `{"role":"user","content":{"type":"text","text":""}}]}}`,
			`{"jsonrpc":"2.0","id":"broad-2","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":[` +
				strings.Repeat(`"",`, 300_000) + `"x"]}}}}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","_meta":{"m":[` + strings.Repeat(`{"a":0},`, 300_000) + `0]}}}`,
		}
	}, nil),
	asksFirst("answers/odd-notifications", "Sends notifications with invalid parameters.", func(req *request) (all []string) {
		for _, method := range []string{"notifications/cancelled", "notifications/progress", "notifications/message", "notifications/resources/updated",
			"notifications/elicitation/complete", "notifications/tools/list_changed", "notifications/initialized", "notifications/unheard-of"} {
			for _, params := range []string{"null", "[]", "{}", `"x"`, "7", `{"requestId":` + string(req.id) + `,"progressToken":{},"uri":5,"level":9}`} {
				all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
			}
		}
		return all
	}, nil),
	asksFirst("answers/cancels-us", "Cancels the client's own request, and answers it all the same.", func(req *request) []string {
		return []string{fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, req.id)}
	}, nil),
	asksFirst("answers/list-changed-storm", "Says a thousand times that its tools have changed.", func(*request) []string {
		return strings.Split(strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}|`, 1000), "|"), "|")
	}, nil),
}
