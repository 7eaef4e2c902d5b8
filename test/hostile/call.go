package hostile

import (
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// callRows are about calls: the server exits, does not answer, or answers wrongly.
var callRows = []Misbehaviour{
	scripted("call/hang", "Never answers the call but serves every other request.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionHang}),
	scripted("call/exit", "Writes a line to stderr and exits with status 3 instead of answering the call.",
		mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionStderrLine, Text: "fatal: out of paper"}, mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionExit, Code: 3}),
	scripted("call/exit-0", "Exits with status 0 instead of answering; a client may take that for an orderly end.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionExit}),
	scripted("call/kill", "Is killed by SIGKILL instead of answering, as by the kernel when memory runs out.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionDie}),
	scripted("call/abort", "Aborts with a Go stack trace on stderr instead of answering the call.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionDie, Signal: "ABRT"}),
	scripted("call/exit-in-answer", "Exits after writing half of the answer.", mcptest.Fault{At: mcptest.StageAnswer, Tool: BadTool, Do: mcptest.ActionExit, Code: 4}),
	scripted("call/kill-in-answer", "Is killed by SIGKILL after writing half of the answer.", mcptest.Fault{At: mcptest.StageAnswer, Tool: BadTool, Do: mcptest.ActionDie}),
	scripted("call/exit-after-answer", "Answers the call and then exits, so a client can lose an answer it has already received.", mcptest.Fault{At: mcptest.StageAfter, Tool: BadTool, Do: mcptest.ActionExit, Code: 5}),
	scripted("call/half-line", "Breaks the line in the middle of the answer and continues to serve; the call stays unanswered.", mcptest.Fault{At: mcptest.StageAnswer, Tool: BadTool, Do: mcptest.ActionHalfLine}),
	scripted("call/deaf", "Stops reading stdin when the call arrives and does not answer it.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionHangAll}),
	scripted("call/late", "Answers the call long after the client has cancelled it.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionLateAnswer, Delay: 400 * time.Millisecond}),
	handWritten("call/never-reads", "Stops reading stdin after it has answered prompts/list, so the client's writes eventually block.", onMethod("prompts/list", func(s *stdioServer, r request) {
		s.answerWell(r)
		s.waitForever()
	})),
	handWritten("call/one-byte", "Writes one byte of the answer and exits.", onCall(func(s *stdioServer, r request) {
		s.write("{")
		s.exit(6)
	})),
	handWritten("call/byte-by-byte", "Writes the answer one byte per write, which exposes clients that expect a message per read.", onCall(func(s *stdioServer, r request) {
		for _, b := range []byte(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"result":$fine}` + "\n")) {
			s.write(string(b))
			s.pause(200 * time.Microsecond)
		}
	})),
	handWritten("call/reverse", "Collects five calls and answers them in reverse order.", reversed(5)),
	handWritten("call/twice", "Answers the call twice, the second time with a forged result.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine}`+"\n"+`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"forged"}]}}`)),
	handWritten("call/answer-then-error", "Answers the call with a result, and then again with an error.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine}`+"\n"+`{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"after all, no"}}`)),
	handWritten("call/in-advance", "Guesses the ids of later calls and sends forged results for them in advance.", onCall(func(s *stdioServer, r request) {
		var b strings.Builder
		for n := range int64(100) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + addToID(r.id, n+1) + `,"result":{"content":[{"type":"text","text":"forged"}]}}` + "\n")
		}
		s.write(b.String())
		s.answerWell(r)
	})),
	handWritten("call/in-advance-errors", "Guesses the ids of later calls and sends forged errors for them in advance.", onCall(func(s *stdioServer, r request) {
		var b strings.Builder
		for n := range int64(100) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + addToID(r.id, n+1) + `,"error":{"code":1,"message":"forged"}}` + "\n")
		}
		s.write(b.String())
		s.answerWell(r)
	})),
	handWritten("call/small-ids", "Answers the ids 0 to 20 again before it answers the call.", onCall(func(s *stdioServer, r request) {
		var b strings.Builder
		for n := range int64(21) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + addToID("0", n) + `,"result":` + goodInitialize + "}\n")
		}
		s.write(b.String())
		s.answerWell(r)
	})),
	handWritten("call/half-line-unended", "Writes half of the answer without a line feed, so the next answer continues the same line.", onCall(func(s *stdioServer, r request) {
		s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"result":{"content":[`))
	})),
	handWritten("call/endless-line", "Writes one line to stdout that never ends, which exposes clients without a message limit.", onCall(func(s *stdioServer, r request) {
		chunk := strings.Repeat("x", 64<<10)
		for s.ctx.Err() == nil {
			if _, err := s.out.Write([]byte(chunk)); err != nil {
				return
			}
			s.pause(time.Millisecond)
		}
	})),
	handWritten("call/endless-answer", "Begins a valid answer whose text never ends, which exposes clients without a message limit.", onCall(func(s *stdioServer, r request) {
		s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"`))
		chunk := strings.Repeat("x", 64<<10)
		for s.ctx.Err() == nil {
			if _, err := s.out.Write([]byte(chunk)); err != nil {
				return
			}
			s.pause(time.Millisecond)
		}
	})),
	handWritten("call/only-notifies", "Sends the result in a notification instead of an answer.",
		answersCall(`{"jsonrpc":"2.0","method":"tools/result","params":{"requestId":$id,"result":$fine}}`)),
	handWritten("call/echoes-the-request", "Sends the request back to the client, as a terminal with echo does.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"method":"tools/call","params":{"name":"bad","arguments":{}}}`)),
	handWritten("call/other-answer", "Answers tools/call with the result of initialize.", results("tools/call", goodInitialize)),
}

// reversed collects n calls and answers them in reverse order, each with its own
// argument.
func reversed(n int) func(*stdioServer) {
	var held []request
	return onCall(func(s *stdioServer, r request) {
		if held = append(held, r); len(held) < n {
			return
		}
		for len(held) > 0 {
			last := held[len(held)-1]
			held = held[:len(held)-1]
			last.params.Name = EchoTool
			s.answerWell(last)
		}
	})
}
