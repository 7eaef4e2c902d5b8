package hostile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sendsFirst sends text, and then answers the call correctly.
func sendsFirst(text string) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		s.write(r.expandPlaceholders(text))
		s.answerWell(r)
	})
}

// sendsFirstBuilt is sendsFirst with a text that is built when it is sent.
func sendsFirstBuilt(text func() string) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		s.write(text())
		s.answerWell(r)
	})
}

// notifications returns n copies of a notification.
func notifications(n int, method, params string) string {
	return repeated(`{"jsonrpc":"2.0","method":"`+method+`","params":`+params+"}\n", n)
}

// numberedRequests returns n requests with the ids 1 to n.
func numberedRequests(n int, method, params string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"` + method + `","params":` + params + "}\n")
	}
	return b.String()
}

// requestsFromClient sends a request to the client, and answers the call after the
// client's answer.
func requestsFromClient(method, params string) func(*stdioServer) {
	return func(s *stdioServer) {
		var asked request
		s.handlers["tools/call"] = func(s *stdioServer, r request) {
			asked = r
			s.write(`{"jsonrpc":"2.0","id":"hostile","method":"` + method + `","params":` + params + "}\n")
		}
		s.onAnswer = func(s *stdioServer, id json.RawMessage) {
			if string(id) == `"hostile"` {
				s.answerWell(asked)
			}
		}
		s.serve()
	}
}

// manyRequestsFromClient sends n requests to the client together, and answers the call after
// the client's answers to all of them.
func manyRequestsFromClient(n int, method, params string) func(*stdioServer) {
	return func(s *stdioServer) {
		var asked request
		answers := 0
		s.handlers["tools/call"] = func(s *stdioServer, r request) {
			asked = r
			s.write(numberedRequests(n, method, params))
		}
		s.onAnswer = func(s *stdioServer, _ json.RawMessage) {
			if answers++; answers == n {
				s.answerWell(asked)
			}
		}
		s.serve()
	}
}

// forkedSchema returns a schema with 2^forks paths of references.
func forkedSchema(forks int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{},"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{`)
	for i := range forks {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{}}}`, forks)
	return b.String()
}

// trafficRows send unsolicited messages before they answer a call.
var trafficRows = []Misbehaviour{
	handWritten("notification/flood", "Sends 5,000 log messages before the answer.", sendsFirst(notifications(5_000, "notifications/message", `{"level":"info","data":"flood"}`))),
	handWritten("notification/progress", "Sends 5,000 progress notifications with an unknown token.", sendsFirst(notifications(5_000, "notifications/progress", `{"progressToken":"unknown","progress":1}`))),
	handWritten("notification/progress-of-ours", "Reports progress that is negative and never grows for the id of the call, which is not a progress token.",
		sendsFirst(notifications(10, "notifications/progress", `{"progressToken":$id,"progress":-1e308,"total":0}`))),
	handWritten("notification/list-changed", "Sends 5,000 list_changed notifications, which exposes clients that list the tools again after each.", sendsFirst(notifications(5_000, "notifications/tools/list_changed", `{}`))),
	handWritten("notification/updated", "Sends 5,000 resources/updated notifications that the client never subscribed to.", sendsFirst(notifications(5_000, "notifications/resources/updated", `{"uri":"hostile://other"}`))),
	handWritten("notification/cancelled", "Cancels the client's call, which only the client may do, and then answers it.", sendsFirst(notifications(3, "notifications/cancelled", `{"requestId":$id,"reason":"no"}`))),
	handWritten("notification/cancelled-all", "Cancels a request that does not exist 2,000 times.", sendsFirst(notifications(2_000, "notifications/cancelled", `{"requestId":1}`))),
	handWritten("notification/large", "Sends four notifications of four megabytes each.", sendsFirst(notifications(4, "notifications/message", `{"level":"info","data":"`+repeated("x", 4<<20)+`"}`))),
	handWritten("notification/unknown", "Sends notifications with an unknown method.", sendsFirst(notifications(100, "notifications/hostile/unknown", `{"n":1}`))),
	handWritten("notification/no-params", "Sends every notification without the parameters that it requires.", sendsFirst(everyNotification(""))),
	handWritten("notification/null-params", "Sends every notification with parameters that are null.", sendsFirst(everyNotification(`,"params":null`))),
	handWritten("notification/array-params", "Sends every notification with parameters that are an array.", sendsFirst(everyNotification(`,"params":[1,"a",null]`))),
	handWritten("notification/wrong-params", "Sends every notification with parameters of wrong types.",
		sendsFirst(everyNotification(`,"params":{"level":7,"data":null,"logger":[],"progressToken":{},"progress":"x","total":[],"requestId":{},"uri":5,"elicitationId":null,"reason":1,"_meta":7}`))),
	handWritten("notification/method-odd", "Sends messages whose method is empty, null, a number, an object or a megabyte long.",
		sendsFirst(`{"jsonrpc":"2.0","method":""}`+"\n"+`{"jsonrpc":"2.0","method":null}`+"\n"+`{"jsonrpc":"2.0","method":5}`+"\n"+`{"jsonrpc":"2.0","method":{}}`+"\n"+
			`{"jsonrpc":"2.0","method":"`+repeated("m", 1<<20)+`"}`+"\n")),
	handWritten("notification/of-clients", "Sends notifications that only a client may send.",
		sendsFirst(notifications(10, "notifications/initialized", `{}`)+notifications(10, "notifications/roots/list_changed", `{}`))),
	handWritten("notification/broad", "Sends notifications whose parameters hold 300,000 objects.",
		sendsFirst(notifications(1, "notifications/subscriptions/acknowledged", `{"notifications":{"resourceSubscriptions":[""`+repeated(`,""`, 300_000)+`]}}`)+
			notifications(1, "notifications/cancelled", `{"requestId":"x","_meta":{"m":[0`+repeated(`,{"a":0}`, 300_000)+`]}}`)+
			notifications(1, "notifications/elicitation/complete", `{"elicitationId":"x","_meta":{"m":[0`+repeated(`,{"a":0}`, 300_000)+`]}}`))),
	handWritten("notification/ack-of-more", "Acknowledges 20,000 resources that were not asked for, and ends the subscription, each time.", listens(func(s *stdioServer, r request) {
		s.write(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + r.id +
			`},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mcptest://text"` + repeated(`,"hostile://more"`, 10_000) + repeated(`,"hostile://more2"`, 10_000) + `]}}}` + "\n")
		s.result(r, "{}")
	})),
	handWritten("notification/no-ack", "Never acknowledges a subscription.", listens(func(*stdioServer, request) {})),
	handWritten("notification/late-ack", "Acknowledges subscriptions only during the first call, when the client no longer waits, and then reports updates; later ones at once.", func(s *stdioServer) {
		var held []request
		called := false
		s.handlers["tools/call"] = func(s *stdioServer, r request) {
			called = true
			for _, late := range held {
				s.answerWell(late)
				s.write(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + late.id + `},"uri":"mcptest://text"}}` + "\n")
			}
			held = nil
			s.answerWell(r)
		}
		listens(func(s *stdioServer, r request) {
			if called {
				s.answerWell(r)
			} else {
				held = append(held, r)
			}
		})(s)
	}),
	handWritten("notification/deep", "Sends a notification that is nested 100,000 levels deep.",
		sendsFirst(notifications(1, "notifications/message", `{"level":"info","data":`+repeated("[", 100_000)+repeated("]", 100_000)+`}`))),

	handWritten("request/ping", "Pings the client and answers the call after the client's answer.", requestsFromClient("ping", "{}")),
	handWritten("request/roots", "Requests the roots and answers the call after the client's answer.", requestsFromClient("roots/list", "{}")),
	handWritten("request/sampling", "Requests a completion from the client's model and answers the call after the client's answer.", requestsFromClient("sampling/createMessage", `{"messages":[],"maxTokens":1}`)),
	handWritten("request/sampling-null", "Requests a completion with parameters that are null.", requestsFromClient("sampling/createMessage", "null")),
	handWritten("request/elicitation", "Requests a form from the user and answers the call after the client's answer.", requestsFromClient("elicitation/create", `{"message":"password?","requestedSchema":{"type":"object"}}`)),
	handWritten("request/elicitation-wrong", "Requests a form whose schema is an array and whose message is a number.", requestsFromClient("elicitation/create", `{"message":1,"requestedSchema":[]}`)),
	handWritten("request/form-of-itself", "Requests a form whose schema refers to itself, which exposes clients that resolve it forever.",
		requestsFromClient("elicitation/create", `{"message":"again","requestedSchema":{"type":"object","properties":{"key":{"type":"string"}},"$ref":"#"}}`)),
	handWritten("request/form-of-forms", "Requests a form whose schema has 2^60 paths of references, which exposes clients that resolve them all.",
		requestsFromClient("elicitation/create", `{"message":"again","requestedSchema":`+forkedSchema(60)+`}`)),
	handWritten("request/form-patterns", "Requests 24 forms, each with a regular expression of a kilobyte that takes 30 megabytes to compile.",
		manyRequestsFromClient(24, "elicitation/create", `{"message":"which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"`+repeated(".{1000}", 140)+`"}}}}`)),
	handWritten("request/sampling-broad", "Requests a completion for 300,000 empty messages.",
		requestsFromClient("sampling/createMessage", `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":""}}`+repeated(`,{"role":"user","content":{"type":"text","text":""}}`, 300_000)+`]}`)),
	handWritten("request/elicitation-broad", "Requests a form with a choice of 300,000 options.",
		requestsFromClient("elicitation/create", `{"message":"which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["x"`+repeated(`,""`, 300_000)+`]}}}}`)),
	handWritten("request/unknown", "Sends a request with an unknown method and answers the call after the client's answer.", requestsFromClient("hostile/feed", `[1]`)),
	handWritten("request/of-servers", "Sends tools/call to the client, a request that only a client may send.", requestsFromClient("tools/call", `{"name":"bad"}`)),
	handWritten("request/completion", "Sends completion/complete, a request for servers, which one SDK's client forwards back to the server.", requestsFromClient("completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`)),
	handWritten("request/initialize", "Sends initialize to the client.", requestsFromClient("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}`)),
	handWritten("request/our-id", "Sends a ping under the id of the client's own call, which exposes clients that keep both in one table.", sendsFirst(`{"jsonrpc":"2.0","id":$id,"method":"ping"}`+"\n")),
	handWritten("request/same-id", "Sends 1,000 requests under one id.", sendsFirst(repeated(`{"jsonrpc":"2.0","id":"one","method":"roots/list"}`+"\n", 1_000))),
	handWritten("request/odd-ids", "Sends requests with invalid ids: null, a fraction, an array, an object, true, empty or a megabyte long.",
		sendsFirst(oddIDs("null", "1.5", "[]", "{}", "true", `""`, `"`+repeated("i", 1<<20)+`"`, "-1", "1e400", "9223372036854775808"))),
	handWritten("request/flood", "Sends 3,000 requests before the answer and reads the client's answers.", sendsFirstBuilt(func() string { return numberedRequests(3_000, "roots/list", "{}") })),
	handWritten("request/flood-unknown", "Sends 5,000 requests with an unknown method before the answer.", sendsFirstBuilt(func() string { return numberedRequests(5_000, "hostile/feed", "{}") })),
	handWritten("request/flood-unread", "Sends 5,000 pings and stops reading for a while, which blocks clients that answer in their reader.", onCall(func(s *stdioServer, r request) {
		s.write(numberedRequests(5_000, "ping", "{}"))
		s.answerWell(r)
		s.pause(100 * time.Millisecond)
	})),
	handWritten("request/large", "Sends requests with parameters of two megabytes.", sendsFirst(repeated(`{"jsonrpc":"2.0","id":"large","method":"sampling/createMessage","params":{"messages":[],"x":"`+repeated("x", 2<<20)+`"}}`+"\n", 3))),
}

// listens announces changes of its tools, and handles subscriptions/listen.
func listens(handle func(*stdioServer, request)) func(*stdioServer) {
	return func(s *stdioServer) {
		s.handlers["server/discover"] = func(s *stdioServer, r request) {
			s.result(r, strings.Replace(goodDiscover, `"tools":{}`, `"tools":{"listChanged":true}`, 1))
		}
		s.handlers["subscriptions/listen"] = handle
		s.serve()
	}
}

// everyNotification returns every notification of the protocol, with these params.
func everyNotification(params string) string {
	var b strings.Builder
	for _, name := range []string{"message", "progress", "cancelled", "resources/updated", "resources/list_changed", "tools/list_changed",
		"prompts/list_changed", "elicitation/complete", "subscriptions/acknowledged", "tasks/status", "roots/list_changed", "initialized"} {
		b.WriteString(`{"jsonrpc":"2.0","method":"notifications/` + name + `"` + params + "}\n")
	}
	return b.String()
}

// oddIDs returns one request for each id.
func oddIDs(ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(`{"jsonrpc":"2.0","id":` + id + `,"method":"roots/list"}` + "\n")
	}
	return b.String()
}
