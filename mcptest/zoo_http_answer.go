package mcptest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// answerMisbehaviours are about what is in an answer that comes as it should.
var answerMisbehaviours = []HTTPMisbehaviour{
	whenCalled("call/foreign-id", "Answers a request that nobody made.", func(v *visit) { v.say(v.withID("987654321")) }),
	whenCalled("call/string-id", "Gives the id back as a string.", func(v *visit) { v.say(v.withID(`"` + string(v.id) + `"`)) }),
	whenCalled("call/float-id", "Gives the id back as a number with a fraction of zero.", func(v *visit) { v.say(v.withID(string(v.id) + ".0")) }),
	whenCalled("call/null-id", "Gives no id back.", func(v *visit) { v.say(v.withID("null")) }),
	whenCalled("call/no-version", "Leaves out \"jsonrpc\".", func(v *visit) { v.say(strings.Replace(v.answer(), `"jsonrpc":"2.0",`, "", 1)) }),
	whenCalled("call/two-answers", "Writes two answers one behind the other.", func(v *visit) { v.say(v.answer() + v.answer()) }),
	whenCalled("call/batch", "Puts the answer into a batch, behind a notification.", func(v *visit) {
		v.say("[" + zooProgress + "," + v.answer() + "]")
	}),
	whenCalled("call/empty-batch", "Answers with an empty batch.", func(v *visit) { v.say("[]") }),
	whenCalled("call/nested-batch", "Answers with a batch in a batch in a batch, and so on.", func(v *visit) {
		const levels = 100_000
		v.say(strings.Repeat("[", levels) + v.answer() + strings.Repeat("]", levels))
	}),
	whenCalled("call/result-and-error", "Sends a result and an error in one.", func(v *visit) {
		v.say(strings.TrimSuffix(v.answer(), "}") + `,"error":{"code":-32000,"message":"and an error"}}`)
	}),
	whenCalled("call/neither", "Sends neither result nor error.", func(v *visit) { v.say(`{"jsonrpc":"2.0","id":` + string(v.id) + `}`) }),
	whenCalled("call/echo-request", "Sends the request back.", func(v *visit) {
		v.say(`{"jsonrpc":"2.0","id":` + string(v.id) + `,"method":"tools/call","params":{"name":"misbehave"}}`)
	}),
	whenCalled("call/error-text", "Sends a bare string as error.", func(v *visit) {
		v.say(`{"jsonrpc":"2.0","id":` + string(v.id) + `,"error":"no such luck"}`)
	}),
	whenCalled("call/error-huge", "Sends an error with a message of a megabyte.", func(v *visit) {
		v.sayError(http.StatusOK, -32000, strings.Repeat("very ", 200_000)+"bad")
	}),
	whenCalled("call/error-rude", "Sends an error with control characters and a line of log of its own in the message.", func(v *visit) {
		v.sayError(http.StatusOK, -32000, "bad\r\n\x1b[2Jlevel=fatal msg=\"the host is on fire\"\x00")
	}),
	whenCalled("call/result-null", "Sends null as result.", func(v *visit) { v.say(v.resultMessage("null")) }),
	whenCalled("call/result-text", "Sends a string as result.", func(v *visit) { v.say(v.resultMessage(`"done"`)) }),
	whenCalled("call/content-holes", "Sends a result in whose content there is a hole.", func(v *visit) {
		v.say(v.resultMessage(`{"content":[null]}`))
	}),
	whenCalled("call/content-unknown", "Sends a kind of content that nobody knows.", func(v *visit) {
		v.say(v.resultMessage(`{"content":[{"type":"hologram","depth":3}]}`))
	}),
	whenCalled("call/tool-error", "Says that the tool has failed.", func(v *visit) {
		v.say(v.resultMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`))
	}),
	{Name: "call/swapped", About: "Sends the answers of two calls each on the other's exchange.", habits: swapped},
	whenCalled("call/on-the-stream", "Accepts the call with 202 and answers it on the standalone stream.", func(v *visit) {
		v.h.broadcast(v.answer())
		v.w.WriteHeader(http.StatusAccepted)
	}),
}

const zooProgress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"zoo","progress":1}}`

// withID is the answer with another id.
func (v *visit) withID(id string) string {
	v.id = json.RawMessage(id)
	return v.answer()
}

// swapped holds a call until another one has come.
func swapped() habits {
	type guest struct {
		answer string
		other  chan string
	}
	waiting := make(chan guest)
	return habits{"misbehave": func(v *visit) {
		me := guest{v.answer(), make(chan string, 1)}
		select {
		case waiting <- me:
			select {
			case text := <-me.other:
				v.say(text)
			case <-v.r.Context().Done():
			}
		case first := <-waiting:
			first.other <- me.answer
			v.say(first.answer)
		case <-v.r.Context().Done():
		}
	}}
}
