package hostile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// first sends text, and then answers the call well.
func first(text string) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		s.write(r.fill(text))
		s.answerWell(r)
	})
}

// firstOf is first with a text that is built when it is sent.
func firstOf(text func() string) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		s.write(text())
		s.answerWell(r)
	})
}

// notes returns one notification n times.
func notes(n int, method, params string) string {
	return many(`{"jsonrpc":"2.0","method":"`+method+`","params":`+params+"}\n", n)
}

// numbered returns n requests with the ids 1 to n.
func numbered(n int, method, params string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"` + method + `","params":` + params + "}\n")
	}
	return b.String()
}

// asking sends a request to the client, and answers the call when the client has
// answered.
func asking(method, params string) func(*stdioServer) {
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

// twice returns a schema with 2^forks paths of references to its end.
func twice(forks int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{},"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{`)
	for i := range forks {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{}}}`, forks)
	return b.String()
}

// trafficRows are unsolicited messages, before a call is answered well.
var trafficRows = []Misbehaviour{
	handWritten("notification/flood", "Sends 5,000 log messages before the answer.", first(notes(5_000, "notifications/message", `{"level":"info","data":"flood"}`))),
	handWritten("notification/progress", "Sends 5,000 progress notifications for an unknown token.", first(notes(5_000, "notifications/progress", `{"progressToken":"unknown","progress":1}`))),
	handWritten("notification/progress-of-ours", "Sends progress that goes backwards, beyond the total and below zero, for the call's own id.",
		first(notes(10, "notifications/progress", `{"progressToken":$id,"progress":-1e308,"total":0}`))),
	handWritten("notification/list-changed", "Announces 5,000 changes of its tools.", first(notes(5_000, "notifications/tools/list_changed", `{}`))),
	handWritten("notification/updated", "Announces 5,000 changes of resources without a subscription.", first(notes(5_000, "notifications/resources/updated", `{"uri":"hostile://other"}`))),
	handWritten("notification/cancelled", "Cancels the client's own request, and answers it.", first(notes(3, "notifications/cancelled", `{"requestId":$id,"reason":"no"}`))),
	handWritten("notification/cancelled-all", "Cancels 2,000 requests that there are not.", first(notes(2_000, "notifications/cancelled", `{"requestId":1}`))),
	handWritten("notification/large", "Sends four notifications of four megabytes each.", first(notes(4, "notifications/message", `{"level":"info","data":"`+many("x", 4<<20)+`"}`))),
	handWritten("notification/unknown", "Sends unknown notifications.", first(notes(100, "notifications/hostile/unknown", `{"n":1}`))),
	handWritten("notification/no-params", "Sends every notification without the parameters that it must have.", first(bare(""))),
	handWritten("notification/null-params", "Sends every notification with the parameters null.", first(bare(`,"params":null`))),
	handWritten("notification/array-params", "Sends every notification with an array of parameters.", first(bare(`,"params":[1,"a",null]`))),
	handWritten("notification/wrong-params", "Sends every notification with parameters of the wrong types.",
		first(bare(`,"params":{"level":7,"data":null,"logger":[],"progressToken":{},"progress":"x","total":[],"requestId":{},"uri":5,"elicitationId":null,"reason":1,"_meta":7}`))),
	handWritten("notification/method-odd", "Sends messages whose method is empty, null, a number, an object or a megabyte.",
		first(`{"jsonrpc":"2.0","method":""}`+"\n"+`{"jsonrpc":"2.0","method":null}`+"\n"+`{"jsonrpc":"2.0","method":5}`+"\n"+`{"jsonrpc":"2.0","method":{}}`+"\n"+
			`{"jsonrpc":"2.0","method":"`+many("m", 1<<20)+`"}`+"\n")),
	handWritten("notification/of-clients", "Sends notifications that only clients send.",
		first(notes(10, "notifications/initialized", `{}`)+notes(10, "notifications/roots/list_changed", `{}`))),
	handWritten("notification/broad", "Sends notifications with 300,000 objects in their parameters.",
		first(notes(1, "notifications/subscriptions/acknowledged", `{"notifications":{"resourceSubscriptions":[""`+many(`,""`, 300_000)+`]}}`)+
			notes(1, "notifications/cancelled", `{"requestId":"x","_meta":{"m":[0`+many(`,{"a":0}`, 300_000)+`]}}`)+
			notes(1, "notifications/elicitation/complete", `{"elicitationId":"x","_meta":{"m":[0`+many(`,{"a":0}`, 300_000)+`]}}`))),
	handWritten("notification/deep", "Sends a notification nested 100,000 levels deep.",
		first(notes(1, "notifications/message", `{"level":"info","data":`+many("[", 100_000)+many("]", 100_000)+`}`))),

	handWritten("request/ping", "Pings, and answers the call when the ping is answered.", asking("ping", "{}")),
	handWritten("request/roots", "Requests the roots before it answers the call.", asking("roots/list", "{}")),
	handWritten("request/sampling", "Wants a model to say something before it answers the call.", asking("sampling/createMessage", `{"messages":[],"maxTokens":1}`)),
	handWritten("request/sampling-null", "Wants a model to say something, with parameters that are null.", asking("sampling/createMessage", "null")),
	handWritten("request/elicitation", "Wants a user to fill in a form before it answers the call.", asking("elicitation/create", `{"message":"password?","requestedSchema":{"type":"object"}}`)),
	handWritten("request/elicitation-wrong", "Wants a user to fill in what is not a form.", asking("elicitation/create", `{"message":1,"requestedSchema":[]}`)),
	handWritten("request/form-of-itself", "Wants a user to fill in a form that consists of itself.",
		asking("elicitation/create", `{"message":"again","requestedSchema":{"type":"object","properties":{"key":{"type":"string"}},"$ref":"#"}}`)),
	handWritten("request/form-of-forms", "Wants a user to fill in a form of forms, sixty deep, each of them twice.",
		asking("elicitation/create", `{"message":"again","requestedSchema":`+twice(60)+`}`)),
	handWritten("request/sampling-broad", "Wants a model to answer 300,000 empty messages.",
		asking("sampling/createMessage", `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":""}}`+many(`,{"role":"user","content":{"type":"text","text":""}}`, 300_000)+`]}`)),
	handWritten("request/elicitation-broad", "Wants a user to choose from 300,000 options.",
		asking("elicitation/create", `{"message":"which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["x"`+many(`,""`, 300_000)+`]}}}}`)),
	handWritten("request/unknown", "Makes an unknown request.", asking("hostile/feed", `[1]`)),
	handWritten("request/of-servers", "Makes the request of the client that the client makes of it.", asking("tools/call", `{"name":"bad"}`)),
	handWritten("request/completion", "Makes a request that only servers serve, and which a well-known SDK gives back to the server.", asking("completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`)),
	handWritten("request/initialize", "Asks the client to initialize itself.", asking("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}`)),
	handWritten("request/our-id", "Makes a request under the id of the client's own.", first(`{"jsonrpc":"2.0","id":$id,"method":"ping"}`+"\n")),
	handWritten("request/same-id", "Makes 1,000 requests under one id.", first(many(`{"jsonrpc":"2.0","id":"one","method":"roots/list"}`+"\n", 1_000))),
	handWritten("request/odd-ids", "Makes requests whose ids are null, a fraction, an array, an object, true, empty or a megabyte.",
		first(oddIDs("null", "1.5", "[]", "{}", "true", `""`, `"`+many("i", 1<<20)+`"`, "-1", "1e400", "9223372036854775808"))),
	handWritten("request/flood", "Makes 3,000 requests before the answer, and reads what it is answered.", firstOf(func() string { return numbered(3_000, "roots/list", "{}") })),
	handWritten("request/flood-unknown", "Makes 5,000 unknown requests before the answer.", firstOf(func() string { return numbered(5_000, "hostile/feed", "{}") })),
	handWritten("request/flood-unread", "Makes 5,000 requests, answers the call, and reads nothing for a while.", onCall(func(s *stdioServer, r request) {
		s.write(numbered(5_000, "ping", "{}"))
		s.answerWell(r)
		s.pause(100 * time.Millisecond)
	})),
	handWritten("request/large", "Makes requests with parameters of two megabytes.", first(many(`{"jsonrpc":"2.0","id":"large","method":"sampling/createMessage","params":{"messages":[],"x":"`+many("x", 2<<20)+`"}}`+"\n", 3))),
}

// bare returns every notification of the protocol, with these params.
func bare(params string) string {
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
