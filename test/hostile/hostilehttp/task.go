package hostilehttp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TaskID is the id of the task of the rows about tasks. A client shows it nowhere, but in the
// header Mcp-Name.
const TaskID = "task-secret-1"

const (
	// taskOf is the beginning of what the server says about its task, up to its members.
	taskOf     = `{"resultType":"complete","taskId":"` + TaskID + `",`
	newTask    = `{"resultType":"task","taskId":"` + TaskID + `","status":"working","pollIntervalMs":%d}`
	taskWorks  = taskOf + `"status":"working","pollIntervalMs":1}`
	taskIsFine = taskOf + `"status":"completed","result":{"content":[{"type":"text","text":"hello"}]}}`
)

// onTask is a server of 2026-07-28 that makes a task of each call of [BadTool], wants to be asked
// every poll milliseconds, and handles tasks/get and what else more names.
func onTask(name, about string, poll int, get handler, more handlers) Misbehaviour {
	return Misbehaviour{Name: name, About: about, handlers: func() handlers {
		all := handlers{
			"server/discover": func(req *request) {
				req.replyMessage(strings.Replace(req.answer(), `"tools":{}`, `"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1))
			},
			"misbehave": func(req *request) {
				if !req.modern() {
					req.answerWell()
					return
				}
				req.replyMessage(req.resultMessage(fmt.Sprintf(newTask, poll)))
			},
			"tasks/get": get,
		}
		for key, do := range more {
			all[key] = do
		}
		return all
	}}
}

// taskStates answers tasks/get with the next of states; the last one again and again.
func taskStates(states ...string) handler {
	return func(req *request) {
		req.replyMessage(req.resultMessage(states[min(req.count, len(states))-1]))
	}
}

// tells acknowledges a stream about the task, and then sends text on it, times times.
func tells(text string, times int) handler {
	return func(req *request) {
		stream := req.events()
		stream.message(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`,
			mcp.MetaKeySubscriptionID, req.id, req.params.Notifications))
		for range times {
			if !stream.send("data: %s\n\n", text) {
				return
			}
		}
		if times > 0 {
			req.waitForClient()
		}
	}
}

const taskChanged = `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"` + TaskID + `","status":"working"}}`

// taskMisbehaviours are about calls that the server executes as tasks, since 2026-07-28.
var taskMisbehaviours = []Misbehaviour{
	onTask("task/no-answer", "Makes a task, and never answers when it is asked for it.", 1, (*request).waitForClient, nil),
	onTask("task/stalled", "Makes a task, and sends the beginning of the answer when it is asked for it.", 1, func(req *request) {
		req.beginReply(http.StatusOK, "application/json", req.resultMessage(taskWorks)[:20])
		req.waitForClient()
	}, nil),
	onTask("task/html", "Makes a task, and answers with a page when it is asked for it.", 1, func(req *request) { req.reply(200, "text/html", webPage) }, nil),
	onTask("task/unavailable", "Makes a task, and answers 503 whenever it is asked for it.", 1, plainStatus(503), nil),
	onTask("task/unavailable-briefly", "Makes a task, and answers 503 four times when it is asked for it.", 1, func(req *request) {
		if req.count <= 4 {
			req.reply(503, "text/plain", "the backend restarts")
			return
		}
		req.replyMessage(req.resultMessage(taskIsFine))
	}, nil),
	onTask("task/404", "Makes a task, and answers 404 whenever it is asked for it.", 1, plainStatus(404), nil),
	onTask("task/oversize", "Has a task with a result that exceeds the message limit.", 1,
		taskStates(taskOf+`"status":"completed","result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 2<<20)+`"}]}}`), nil),
	onTask("task/never-ends", "Has a task that never ends.", 1, taskStates(taskWorks), nil),
	onTask("task/told-flood", "Sends a notification about the task 10,000 times, and has completed when it is asked for the third time.", 3_600_000,
		taskStates(strings.Replace(taskWorks, ":1}", ":3600000}", 1), strings.Replace(taskWorks, ":1}", ":3600000}", 1), taskIsFine),
		handlers{"subscriptions/listen": tells(taskChanged, 10_000)}),
	onTask("task/told-oversize", "Sends a notification about the task that exceeds the message limit.", 1000, taskStates(taskIsFine),
		handlers{"subscriptions/listen": tells(strings.Replace(taskChanged, `"working"`, `"completed","result":{"x":"`+strings.Repeat("x", 2<<20)+`"}`, 1), 1)}),
	onTask("task/listen-ends", "Acknowledges the stream about the task, and ends it, each time.", 1000,
		taskStates(strings.Replace(taskWorks, ":1}", ":1000}", 1), taskIsFine), handlers{"subscriptions/listen": tells("", 0)}),
	onTask("task/listen-refused", "Answers a stream about the task with 500.", 1000, taskStates(taskIsFine), handlers{"subscriptions/listen": plainStatus(500)}),
	onTask("task/listen-no-header", "Never responds to a stream about the task.", 1000, taskStates(taskIsFine), handlers{"subscriptions/listen": (*request).waitForClient}),
}
