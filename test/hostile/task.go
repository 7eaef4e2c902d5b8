package hostile

import (
	"strconv"
	"strings"
)

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

// asksFor is a state of the task that asks for one thing, under a key.
func asksFor(key string) string { return strings.Replace(taskAsks, `"k"`, `"`+key+`"`, 1) }

// legacyTask makes a task of each call of [BadTool], as in 2025-11-25. Each tasks/get is answered
// with the next of states, and each tasks/result with the next of results, which are results or, in
// the form error:{…}, errors; the last one again and again.
func legacyTask(states, results []string) func(*stdioServer) {
	return func(s *stdioServer) {
		s.handlers["initialize"] = func(s *stdioServer, r request) {
			s.result(r, strings.Replace(goodInitialize, goodCapabilities, `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, 1))
		}
		s.handlers["tools/list"] = func(s *stdioServer, r request) {
			s.result(r, `{"tools":[`+strings.Replace(goodTools, `"description":"Misbehaves."`, `"execution":{"taskSupport":"required"}`, 1)+`]}`)
		}
		s.handlers["tools/call"] = func(s *stdioServer, r request) {
			s.result(r, `{"task":{"taskId":"`+TaskID+`","status":"working","pollInterval":1}}`)
		}
		asked, fetched := 0, 0
		s.handlers["tasks/get"] = func(s *stdioServer, r request) {
			s.result(r, `{"taskId":"`+TaskID+`","pollInterval":1,"status":"`+states[min(asked, len(states)-1)]+`"}`)
			asked++
		}
		s.handlers["tasks/result"] = func(s *stdioServer, r request) {
			result := results[min(fetched, len(results)-1)]
			if object, failed := strings.CutPrefix(result, "error:"); failed {
				s.write(`{"jsonrpc":"2.0","id":` + r.id + `,"error":` + object + "}\n")
			} else {
				s.result(r, result)
			}
			fetched++
		}
		s.handlers["tasks/cancel"] = func(s *stdioServer, r request) {
			s.result(r, `{"taskId":"`+TaskID+`","status":"cancelled"}`)
		}
		s.serve()
	}
}

// ManyTasks is how many calls the server of "task/many" answers with a task each.
const ManyTasks = 10_000

// taskRows are about calls that the server executes as tasks, since 2026-07-28; those of names that
// end in "-legacy", in 2025-11-25.
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
	handWritten("task/inputs-endless", "Asks for something else each time, without end.", func(s *stdioServer) {
		s.handleTask(newTask, []string{taskAsks})
		n := 0
		s.handlers["tasks/get"] = func(s *stdioServer, r request) {
			n++
			s.result(r, asksFor("k"+strconv.Itoa(n)))
		}
		s.serve()
	}),
	handWritten("task/key-long", "Asks for something under a key of 100,000 bytes.", task(newTask, asksFor(repeated("k", 100_000)))),
	handWritten("task/update-refused", "Asks for something, and refuses each answer.", func(s *stdioServer) {
		s.handleTask(newTask, []string{taskAsks})
		s.handlers["tasks/update"] = func(s *stdioServer, r request) {
			s.write(`{"jsonrpc":"2.0","id":` + r.id + `,"error":{"code":-32602,"message":"not for ` + TaskID + `"}}` + "\n")
		}
		s.serve()
	}),
	handWritten("task/many", "Answers ten thousand calls with a task each, which never ends.", func(s *stdioServer) {
		s.handleTask(newTask, []string{taskWorks})
		n := 0
		s.handlers["tools/call"] = func(s *stdioServer, r request) {
			n++
			s.result(r, strings.Replace(newTask, TaskID, TaskID+"-"+strconv.Itoa(n), 1))
		}
		s.serve()
	}),
	handWritten("task/told", "Wants to be asked every hour, and sends 10,000 notifications about the task each time it has said how it is.", func(s *stdioServer) {
		notices := repeated(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"`+TaskID+`","status":"working"}}`+"\n", 10_000)
		hourly := strings.NewReplacer(`"pollIntervalMs":1`, `"pollIntervalMs":3600000`)
		s.handleTask(hourly.Replace(newTask), []string{hourly.Replace(taskWorks), hourly.Replace(taskWorks), taskIsFine})
		for _, method := range []string{"tools/call", "tasks/get"} {
			answer := s.handlers[method]
			s.handlers[method] = func(s *stdioServer, r request) {
				answer(s, r)
				s.write(notices)
			}
		}
		s.serve()
	}),
	handWritten("task/told-junk", "Sends notifications about tasks that cannot be read.", func(s *stdioServer) {
		s.handleTask(newTask, []string{taskIsFine})
		get := s.handlers["tasks/get"]
		s.handlers["tasks/get"] = func(s *stdioServer, r request) {
			for _, params := range []string{`{}`, `[]`, `null`, `7`, `{"taskId":7}`, `{"taskId":"` + repeated("x", 2000) + `"}`, `{"taskId":"","status":{}}`} {
				s.write(`{"jsonrpc":"2.0","method":"notifications/tasks","params":` + params + "}\n")
			}
			get(s, r)
		}
		s.serve()
	}),
	handWritten("task/back-legacy", "Says that the task has completed, has no result of it, says that it works, and then has one.",
		legacyTask([]string{"completed", "working", "completed"}, []string{`error:{"code":-32603,"message":"no result of ` + TaskID + `"}`, fineResult})),
	handWritten("task/no-result-legacy", "Says that the task has completed, and never has its result.",
		legacyTask([]string{"completed"}, []string{`error:{"code":-32603,"message":"no result of ` + TaskID + `"}`})),
	handWritten("task/task-in-result-legacy", "Has a task as the result of its task.",
		legacyTask([]string{"completed"}, []string{`{"task":{"taskId":"` + TaskID + `","status":"working"}}`})),
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
