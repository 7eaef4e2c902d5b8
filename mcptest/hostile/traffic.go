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
	handWritten("notification/progress", "Sends 5,000 progress notifications with an unknown token.", first(notes(5_000, "notifications/progress", `{"progressToken":"unknown","progress":1}`))),
	handWritten("notification/progress-of-ours", "Reports progress that is negative and never grows for the id of the call, which is not a progress token.",
		first(notes(10, "notifications/progress", `{"progressToken":$id,"progress":-1e308,"total":0}`))),
	handWritten("notification/list-changed", "Sends 5,000 list_changed notifications, which exposes clients that list the tools again after each.", first(notes(5_000, "notifications/tools/list_changed", `{}`))),
	handWritten("notification/updated", "Sends 5,000 resources/updated notifications that the client never subscribed to.", first(notes(5_000, "notifications/resources/updated", `{"uri":"hostile://other"}`))),
	handWritten("notification/cancelled", "Cancels the client's call, which only the client may do, and then answers it.", first(notes(3, "notifications/cancelled", `{"requestId":$id,"reason":"no"}`))),
	handWritten("notification/cancelled-all", "Cancels a request that does not exist 2,000 times.", first(notes(2_000, "notifications/cancelled", `{"requestId":1}`))),
	handWritten("notification/large", "Sends four notifications of four megabytes each.", first(notes(4, "notifications/message", `{"level":"info","data":"`+many("x", 4<<20)+`"}`))),
	handWritten("notification/unknown", "Sends notifications with an unknown method.", first(notes(100, "notifications/hostile/unknown", `{"n":1}`))),
	handWritten("notification/no-params", "Sends every notification without the parameters that it requires.", first(bare(""))),
	handWritten("notification/null-params", "Sends every notification with parameters that are null.", first(bare(`,"params":null`))),
	handWritten("notification/array-params", "Sends every notification with parameters that are an array.", first(bare(`,"params":[1,"a",null]`))),
	handWritten("notification/wrong-params", "Sends every notification with parameters of wrong types.",
		first(bare(`,"params":{"level":7,"data":null,"logger":[],"progressToken":{},"progress":"x","total":[],"requestId":{},"uri":5,"elicitationId":null,"reason":1,"_meta":7}`))),
	handWritten("notification/method-odd", "Sends messages whose method is empty, null, a number, an object or a megabyte long.",
		first(`{"jsonrpc":"2.0","method":""}`+"\n"+`{"jsonrpc":"2.0","method":null}`+"\n"+`{"jsonrpc":"2.0","method":5}`+"\n"+`{"jsonrpc":"2.0","method":{}}`+"\n"+
			`{"jsonrpc":"2.0","method":"`+many("m", 1<<20)+`"}`+"\n")),
	handWritten("notification/of-clients", "Sends notifications that only a client may send.",
		first(notes(10, "notifications/initialized", `{}`)+notes(10, "notifications/roots/list_changed", `{}`))),
	handWritten("notification/broad", "Sends notifications whose parameters hold 300,000 objects.",
		first(notes(1, "notifications/subscriptions/acknowledged", `{"notifications":{"resourceSubscriptions":[""`+many(`,""`, 300_000)+`]}}`)+
			notes(1, "notifications/cancelled", `{"requestId":"x","_meta":{"m":[0`+many(`,{"a":0}`, 300_000)+`]}}`)+
			notes(1, "notifications/elicitation/complete", `{"elicitationId":"x","_meta":{"m":[0`+many(`,{"a":0}`, 300_000)+`]}}`))),
	handWritten("notification/deep", "Sends a notification that is nested 100,000 levels deep.",
		first(notes(1, "notifications/message", `{"level":"info","data":`+many("[", 100_000)+many("]", 100_000)+`}`))),

	handWritten("request/ping", "Pings the client and answers the call after the client's answer.", asking("ping", "{}")),
	handWritten("request/roots", "Requests the roots and answers the call after the client's answer.", asking("roots/list", "{}")),
	handWritten("request/sampling", "Requests a completion from the client's model and answers the call after the client's answer.", asking("sampling/createMessage", `{"messages":[],"maxTokens":1}`)),
	handWritten("request/sampling-null", "Requests a completion with parameters that are null.", asking("sampling/createMessage", "null")),
	handWritten("request/elicitation", "Requests a form from the user and answers the call after the client's answer.", asking("elicitation/create", `{"message":"password?","requestedSchema":{"type":"object"}}`)),
	handWritten("request/elicitation-wrong", "Requests a form whose schema is an array and whose message is a number.", asking("elicitation/create", `{"message":1,"requestedSchema":[]}`)),
	handWritten("request/form-of-itself", "Requests a form whose schema refers to itself, which exposes clients that resolve it forever.",
		asking("elicitation/create", `{"message":"again","requestedSchema":{"type":"object","properties":{"key":{"type":"string"}},"$ref":"#"}}`)),
	handWritten("request/form-of-forms", "Requests a form whose schema has 2^60 paths of references, which exposes clients that resolve them all.",
		asking("elicitation/create", `{"message":"again","requestedSchema":`+twice(60)+`}`)),
	handWritten("request/sampling-broad", "Requests a completion for 300,000 empty messages.",
		asking("sampling/createMessage", `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":""}}`+many(`,{"role":"user","content":{"type":"text","text":""}}`, 300_000)+`]}`)),
	handWritten("request/elicitation-broad", "Requests a form with a choice of 300,000 options.",
		asking("elicitation/create", `{"message":"which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["x"`+many(`,""`, 300_000)+`]}}}}`)),
	handWritten("request/unknown", "Sends a request with an unknown method and answers the call after the client's answer.", asking("hostile/feed", `[1]`)),
	handWritten("request/of-servers", "Sends tools/call to the client, a request that only a client may send.", asking("tools/call", `{"name":"bad"}`)),
	handWritten("request/completion", "Sends completion/complete, a request for servers, which one SDK's client forwards back to the server.", asking("completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`)),
	handWritten("request/initialize", "Sends initialize to the client.", asking("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}`)),
	handWritten("request/our-id", "Sends a ping under the id of the client's own call, which exposes clients that keep both in one table.", first(`{"jsonrpc":"2.0","id":$id,"method":"ping"}`+"\n")),
	handWritten("request/same-id", "Sends 1,000 requests under one id.", first(many(`{"jsonrpc":"2.0","id":"one","method":"roots/list"}`+"\n", 1_000))),
	handWritten("request/odd-ids", "Sends requests with invalid ids: null, a fraction, an array, an object, true, empty or a megabyte long.",
		first(oddIDs("null", "1.5", "[]", "{}", "true", `""`, `"`+many("i", 1<<20)+`"`, "-1", "1e400", "9223372036854775808"))),
	handWritten("request/flood", "Sends 3,000 requests before the answer and reads the client's answers.", firstOf(func() string { return numbered(3_000, "roots/list", "{}") })),
	handWritten("request/flood-unknown", "Sends 5,000 requests with an unknown method before the answer.", firstOf(func() string { return numbered(5_000, "hostile/feed", "{}") })),
	handWritten("request/flood-unread", "Sends 5,000 pings and stops reading for a while, which blocks clients that answer in their reader.", onCall(func(s *stdioServer, r request) {
		s.write(numbered(5_000, "ping", "{}"))
		s.answerWell(r)
		s.pause(100 * time.Millisecond)
	})),
	handWritten("request/large", "Sends requests with parameters of two megabytes.", first(many(`{"jsonrpc":"2.0","id":"large","method":"sampling/createMessage","params":{"messages":[],"x":"`+many("x", 2<<20)+`"}}`+"\n", 3))),
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
