package hostilehttp

import (
	"encoding/json"
	"net/http"
	"strings"
)

// answerMisbehaviours are about what is in an answer that comes as it should.
var answerMisbehaviours = []Misbehaviour{
	whenCalled("call/foreign-id", "Answers a request that the client never sent.", func(req *request) { req.say(req.withID("987654321")) }),
	whenCalled("call/string-id", "Returns the id as a string.", func(req *request) { req.say(req.withID(`"` + string(req.id) + `"`)) }),
	whenCalled("call/float-id", "Returns the id as a float, such as 7.0.", func(req *request) { req.say(req.withID(string(req.id) + ".0")) }),
	whenCalled("call/null-id", "Answers with an id that is null.", func(req *request) { req.say(req.withID("null")) }),
	whenCalled("call/no-version", "Leaves the member \"jsonrpc\" out of the answer.", func(req *request) { req.say(strings.Replace(req.answer(), `"jsonrpc":"2.0",`, "", 1)) }),
	whenCalled("call/two-answers", "Sends two answers in one body.", func(req *request) { req.say(req.answer() + req.answer()) }),
	whenCalled("call/batch", "Answers with a JSON-RPC batch of a notification and the answer.", func(req *request) {
		req.say("[" + progressMessage + "," + req.answer() + "]")
	}),
	whenCalled("call/empty-batch", "Answers with an empty JSON-RPC batch.", func(req *request) { req.say("[]") }),
	whenCalled("call/nested-batch", "Answers with 100,000 nested batches.", func(req *request) {
		const levels = 100_000
		req.say(strings.Repeat("[", levels) + req.answer() + strings.Repeat("]", levels))
	}),
	whenCalled("call/result-and-error", "Answers with both a result and an error.", func(req *request) {
		req.say(strings.TrimSuffix(req.answer(), "}") + `,"error":{"code":-32000,"message":"and an error"}}`)
	}),
	whenCalled("call/neither", "Answers with neither a result nor an error.", func(req *request) { req.say(`{"jsonrpc":"2.0","id":` + string(req.id) + `}`) }),
	whenCalled("call/echo-request", "Answers with the request itself.", func(req *request) {
		req.say(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"method":"tools/call","params":{"name":"misbehave"}}`)
	}),
	whenCalled("call/error-text", "Answers with an error that is a string instead of an object.", func(req *request) {
		req.say(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"error":"no such luck"}`)
	}),
	whenCalled("call/error-huge", "Answers with an error whose message is a megabyte long.", func(req *request) {
		req.sayError(http.StatusOK, -32000, strings.Repeat("very ", 200_000)+"bad")
	}),
	whenCalled("call/error-rude", "Answers with an error whose message holds control characters and a forged log line.", func(req *request) {
		req.sayError(http.StatusOK, -32000, "bad\r\n\x1b[2Jlevel=fatal msg=\"the host is on fire\"\x00")
	}),
	whenCalled("call/result-null", "Answers with a result that is null.", func(req *request) { req.say(req.resultMessage("null")) }),
	whenCalled("call/result-text", "Answers with a result that is a string.", func(req *request) { req.say(req.resultMessage(`"done"`)) }),
	whenCalled("call/content-holes", "Answers with content that holds null.", func(req *request) {
		req.say(req.resultMessage(`{"content":[null]}`))
	}),
	whenCalled("call/content-unknown", "Answers with a content block of an unknown type.", func(req *request) {
		req.say(req.resultMessage(`{"content":[{"type":"hologram","depth":3}]}`))
	}),
	whenCalled("call/tool-error", "Answers with isError, which is a failure of the tool and not of the server.", func(req *request) {
		req.say(req.resultMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`))
	}),
	{Name: "call/swapped", About: "Exchanges the answers of two concurrent calls.", handlers: swapped},
	whenCalled("call/on-the-stream", "Replies 202 to the call and sends the answer on the standalone stream.", func(req *request) {
		req.server.broadcast(req.answer())
		req.w.WriteHeader(http.StatusAccepted)
	}),
}

const progressMessage = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"hostile","progress":1}}`

// withID is the answer with another id.
func (req *request) withID(id string) string {
	req.id = json.RawMessage(id)
	return req.answer()
}

// swapped holds a call until another one has come.
func swapped() handlers {
	type guest struct {
		answer string
		other  chan string
	}
	waiting := make(chan guest)
	return handlers{"misbehave": func(req *request) {
		me := guest{req.answer(), make(chan string, 1)}
		select {
		case waiting <- me:
			select {
			case text := <-me.other:
				req.say(text)
			case <-req.http.Context().Done():
			}
		case first := <-waiting:
			first.other <- me.answer
			req.say(first.answer)
		case <-req.http.Context().Done():
		}
	}}
}
