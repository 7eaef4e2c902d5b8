package hostilehttp

import (
	"encoding/json"
	"net/http"
	"strings"
)

// answerMisbehaviours are about the JSON-RPC message of an answer; its transfer over
// HTTP is correct.
var answerMisbehaviours = []Misbehaviour{
	onCall("call/foreign-id", "Answers a request that the client never sent.", func(req *request) { req.replyMessage(req.withID("987654321")) }),
	onCall("call/string-id", "Returns the id as a string.", func(req *request) { req.replyMessage(req.withID(`"` + string(req.id) + `"`)) }),
	onCall("call/float-id", "Returns the id as a float, such as 7.0.", func(req *request) { req.replyMessage(req.withID(string(req.id) + ".0")) }),
	onCall("call/null-id", "Answers with an id that is null.", func(req *request) { req.replyMessage(req.withID("null")) }),
	onCall("call/no-version", "Leaves the member \"jsonrpc\" out of the answer.", func(req *request) { req.replyMessage(strings.Replace(req.answer(), `"jsonrpc":"2.0",`, "", 1)) }),
	onCall("call/two-answers", "Sends two answers in one body.", func(req *request) { req.replyMessage(req.answer() + req.answer()) }),
	onCall("call/batch", "Answers with a JSON-RPC batch of a notification and the answer.", func(req *request) {
		req.replyMessage("[" + progressMessage + "," + req.answer() + "]")
	}),
	onCall("call/empty-batch", "Answers with an empty JSON-RPC batch.", func(req *request) { req.replyMessage("[]") }),
	onCall("call/nested-batch", "Answers with 100,000 nested batches.", func(req *request) {
		const levels = 100_000
		req.replyMessage(strings.Repeat("[", levels) + req.answer() + strings.Repeat("]", levels))
	}),
	onCall("call/result-and-error", "Answers with both a result and an error.", func(req *request) {
		req.replyMessage(strings.TrimSuffix(req.answer(), "}") + `,"error":{"code":-32000,"message":"and an error"}}`)
	}),
	onCall("call/neither", "Answers with neither a result nor an error.", func(req *request) { req.replyMessage(`{"jsonrpc":"2.0","id":` + string(req.id) + `}`) }),
	onCall("call/echo-request", "Answers with the request itself.", func(req *request) {
		req.replyMessage(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"method":"tools/call","params":{"name":"misbehave"}}`)
	}),
	onCall("call/error-text", "Answers with an error that is a string instead of an object.", func(req *request) {
		req.replyMessage(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"error":"no such luck"}`)
	}),
	onCall("call/error-huge", "Answers with an error whose message is a megabyte long.", func(req *request) {
		req.replyError(http.StatusOK, -32000, strings.Repeat("very ", 200_000)+"bad")
	}),
	onCall("call/error-rude", "Answers with an error whose message holds control characters and a forged log line.", func(req *request) {
		req.replyError(http.StatusOK, -32000, "bad\r\n\x1b[2Jlevel=fatal msg=\"the host is on fire\"\x00")
	}),
	onCall("call/result-null", "Answers with a result that is null.", func(req *request) { req.replyMessage(req.resultMessage("null")) }),
	onCall("call/result-text", "Answers with a result that is a string.", func(req *request) { req.replyMessage(req.resultMessage(`"done"`)) }),
	onCall("call/content-holes", "Answers with content that holds null.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"content":[null]}`))
	}),
	onCall("call/content-unknown", "Answers with a content block of an unknown type.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"content":[{"type":"hologram","depth":3}]}`))
	}),
	onCall("call/tool-error", "Answers with isError, which is a failure of the tool and not of the server.", func(req *request) {
		req.replyMessage(req.resultMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`))
	}),
	onCall("call/error-no-id", "Sends an error whose id is null on the event stream of the call, and nothing after it.", func(req *request) {
		req.events().message(req.errorMessage("null", -32603, "something failed"))
		req.waitForClient()
	}),
	onCall("call/error-no-id-then-answer", "Sends an error whose id is null on the event stream of the call, and then the answer.", func(req *request) {
		e := req.events()
		e.message(req.errorMessage("null", -32603, "something failed"))
		e.message(req.answer())
	}),
	onCall("call/task", "Answers with a task, which the call did not ask for.", func(req *request) {
		const members = `"taskId":"t-1","status":"working","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z"`
		if req.modern() {
			req.replyMessage(`{"jsonrpc":"2.0","id":` + string(req.id) + `,"result":{"resultType":"task",` + members + `,"ttlMs":60000}}`)
			return
		}
		req.replyMessage(req.resultMessage(`{"task":{` + members + `,"ttl":60000}}`))
	}),
	{Name: "call/swapped", About: "Exchanges the answers of two concurrent calls.", handlers: swapped},
	onCall("call/on-the-stream", "Replies 202 to the call and sends the answer on the standalone stream.", func(req *request) {
		req.server.broadcast(req.answer())
		req.w.WriteHeader(http.StatusAccepted)
	}),
}

const progressMessage = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"hostile","progress":1}}`

// withID returns the right answer under another id.
func (req *request) withID(id string) string {
	req.id = json.RawMessage(id)
	return req.answer()
}

// swapped holds each call until a second one arrives, and then exchanges their answers.
func swapped() handlers {
	type pendingCall struct {
		answer string
		other  chan string
	}
	waiting := make(chan pendingCall)
	return handlers{"misbehave": func(req *request) {
		me := pendingCall{req.answer(), make(chan string, 1)}
		select {
		case waiting <- me:
			select {
			case text := <-me.other:
				req.replyMessage(text)
			case <-req.http.Context().Done():
			}
		case first := <-waiting:
			first.other <- me.answer
			req.replyMessage(first.answer)
		case <-req.http.Context().Done():
		}
	}}
}
