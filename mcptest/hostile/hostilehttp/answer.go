package hostilehttp

import (
	"encoding/json"
	"net/http"
	"strings"
)

// answerMisbehaviours are about what is in an answer that comes as it should.
var answerMisbehaviours = []Misbehaviour{
	whenCalled("call/foreign-id", "Answers a request that was not made.", func(req *request) { req.say(req.withID("987654321")) }),
	whenCalled("call/string-id", "Gives the id back as a string.", func(req *request) { req.say(req.withID(`"` + string(req.id) + `"`)) }),
	whenCalled("call/float-id", "Gives the id back as a number with a fraction of zero.", func(req *request) { req.say(req.withID(string(req.id) + ".0")) }),
	whenCalled("call/null-id", "Gives no id back.", func(req *request) { req.say(req.withID("null")) }),
	whenCalled("call/no-version", "Leaves out \"jsonrpc\".", func(req *request) { req.say(strings.Replace(req.answer(), `"jsonrpc":"2.0",`, "", 1)) }),
	whenCalled("call/two-answers", "Writes two answers one behind the other.", func(req *request) { req.say(req.answer() + req.answer()) }),
	whenCalled("call/batch", "Puts the answer into a batch, behind a notification.", func(req *request) {
		req.say("[" + progressMessage + "," + req.answer() + "]")
	}),
	whenCalled("call/empty-batch", "Answers with an empty batch.", func(req *request) { req.say("[]") }),
	whenCalled("call/nested-batch", "Answers with a batch in a batch in a batch, and so on.", func(req *request) {
		const levels = 100_000
		req.say(strings.Repeat("[", levels) + req.answer() + strings.Repeat("]", levels))
	}),
	whenCalled("call/result-and-error", "Sends a result and an error in one.", func(req *request) {
		req.say(strings.TrimSuffix(req.answer(), "}") + `,"error":{"code":-32000,"message":"and an error"}}`)
	}),
	whenCalled("call/neither", "Sends neither result nor error.", func(req *request) { req.say(`{"jsonrpc":"2.0","id":` + string(req.id) + `}`) }),
	whenCalled("call/echo-request", "Sends the request back.", func(req *request) {
		req.say(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"method":"tools/call","params":{"name":"misbehave"}}`)
	}),
	whenCalled("call/error-text", "Sends a bare string as error.", func(req *request) {
		req.say(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"error":"no such luck"}`)
	}),
	whenCalled("call/error-huge", "Sends an error with a message of a megabyte.", func(req *request) {
		req.sayError(http.StatusOK, -32000, strings.Repeat("very ", 200_000)+"bad")
	}),
	whenCalled("call/error-rude", "Sends an error with control characters and a line of log of its own in the message.", func(req *request) {
		req.sayError(http.StatusOK, -32000, "bad\r\n\x1b[2Jlevel=fatal msg=\"the host is on fire\"\x00")
	}),
	whenCalled("call/result-null", "Sends null as result.", func(req *request) { req.say(req.resultMessage("null")) }),
	whenCalled("call/result-text", "Sends a string as result.", func(req *request) { req.say(req.resultMessage(`"done"`)) }),
	whenCalled("call/content-holes", "Sends a result in whose content there is a hole.", func(req *request) {
		req.say(req.resultMessage(`{"content":[null]}`))
	}),
	whenCalled("call/content-unknown", "Sends content of an unknown kind.", func(req *request) {
		req.say(req.resultMessage(`{"content":[{"type":"hologram","depth":3}]}`))
	}),
	whenCalled("call/tool-error", "Says that the tool has failed.", func(req *request) {
		req.say(req.resultMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`))
	}),
	{Name: "call/swapped", About: "Sends the answers of two calls each on the other's exchange.", handlers: swapped},
	whenCalled("call/on-the-stream", "Accepts the call with 202 and answers it on the standalone stream.", func(req *request) {
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
