package hostile

import "strings"

// TaskID is the id of the task of the rows about tasks. A client shows it nowhere.
const TaskID = "task-secret-1"

// taskOf is the beginning of what the server says about its task, up to its members.
const taskOf = `{"resultType":"complete","taskId":"` + TaskID + `","pollIntervalMs":1,`

// task declares the extension, answers the calls of [BadTool] with the task created, and each
// tasks/get with the next of states; the last one again and again. Without states it does not
// know the task.
func task(created string, states ...string) func(*stdioServer) {
	return func(s *stdioServer) {
		s.handleTask(created, states)
		s.serve()
	}
}

// handleTask sets the handlers of [task].
func (s *stdioServer) handleTask(created string, states []string) {
	answer := func(result string) func(*stdioServer, request) {
		return func(s *stdioServer, r request) { s.result(r, result) }
	}
	s.handlers["server/discover"] = answer(strings.Replace(goodDiscover, goodCapabilities, `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1))
	s.handlers["tools/call"] = answer(created)
	s.handlers["tasks/update"] = answer(`{"resultType":"complete"}`)
	s.handlers["tasks/cancel"] = answer(`{"resultType":"complete"}`)
	asked := 0
	s.handlers["tasks/get"] = func(s *stdioServer, r request) {
		if len(states) == 0 {
			s.write(`{"jsonrpc":"2.0","id":` + r.id + `,"error":{"code":-32602,"message":"no task ` + TaskID + `"}}` + "\n")
			return
		}
		s.result(r, states[min(asked, len(states)-1)])
		asked++
	}
}

const (
	newTask    = `{"resultType":"task","taskId":"` + TaskID + `","status":"working","pollIntervalMs":1}`
	taskWorks  = taskOf + `"status":"working"}`
	taskIsFine = taskOf + `"status":"completed","result":` + fineResult + `}`
	taskAsks   = taskOf + `"status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`
)

// taskRows are about calls that the server executes as tasks, since 2026-07-28.
var taskRows = []Misbehaviour{
	handWritten("task/never-ends", "Answers the call with a task that never ends.", task(newTask, taskWorks)),
	handWritten("task/no-id", "Answers the call with a task that has no id.", task(`{"resultType":"task","status":"working"}`, taskWorks)),
	handWritten("task/other-id", "Answers for another task than it was asked for.", task(newTask, `{"resultType":"complete","taskId":"task-secret-2","status":"completed","result":`+fineResult+`}`)),
	handWritten("task/back", "Says that the task has completed when it makes it, then that it works, then that it has completed.",
		task(`{"resultType":"task","taskId":"`+TaskID+`","status":"completed","pollIntervalMs":1}`, taskWorks, taskWorks, taskIsFine)),
	handWritten("task/no-result", "Says that the task has completed, without its result.", task(newTask, taskOf+`"status":"completed"}`)),
	handWritten("task/key-twice", "Asks for the same input again and again.", task(newTask, taskAsks)),
	handWritten("task/times-negative", "Wants to be asked every -5 ms, and keeps the task for -1 ms.",
		task(`{"resultType":"task","taskId":"`+TaskID+`","status":"working","pollIntervalMs":-5,"ttlMs":-1}`, taskIsFine)),
	handWritten("task/ttl-over", "Keeps the task for 1 ms, and knows it longer.",
		task(`{"resultType":"task","taskId":"`+TaskID+`","status":"working","pollIntervalMs":1,"ttlMs":1}`, taskWorks, taskWorks, taskWorks, taskIsFine)),
	handWritten("task/forgotten", "Does not know the task that it has just made.", task(newTask)),
	handWritten("task/oversize", "Has a result that exceeds the message limit.", task(newTask, taskOf+`"status":"completed","result":{"content":[{"type":"text","text":"`+repeated("x", 2<<20)+`"}]}}`)),
	handWritten("task/notices", "Answers each question about the task after 10,000 notifications about tasks that the client does not know.", func(s *stdioServer) {
		s.handleTask(newTask, []string{taskIsFine})
		get := s.handlers["tasks/get"]
		s.handlers["tasks/get"] = func(s *stdioServer, r request) {
			s.write(repeated(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"other","status":"working"}}`+"\n", 10_000))
			get(s, r)
		}
		s.serve()
	}),
}
