package hostile

import (
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// callRows are about calls: the server ends, does not answer, or answers wrongly.
var callRows = []Misbehaviour{
	scripted("call/hang", "Never answers the call; everything else goes on.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionHang}),
	scripted("call/exit", "Exits with status 3 instead of an answer, a last word on stderr.",
		mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionStderrLine, Text: "fatal: out of paper"}, mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionExit, Code: 3}),
	scripted("call/exit-0", "Exits with status 0 instead of an answer, as if all were well.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionExit}),
	scripted("call/kill", "Is killed instead of answering, as by the kernel that has no memory left.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionDie}),
	scripted("call/abort", "Aborts with a stack trace instead of answering.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionDie, Signal: "ABRT"}),
	scripted("call/exit-in-answer", "Exits with half a line of the answer written.", mcptest.Fault{At: mcptest.StageAnswer, Tool: BadTool, Do: mcptest.ActionExit, Code: 4}),
	scripted("call/kill-in-answer", "Is killed with half a line of the answer written.", mcptest.Fault{At: mcptest.StageAnswer, Tool: BadTool, Do: mcptest.ActionDie}),
	scripted("call/exit-after-answer", "Answers the call and exits at once.", mcptest.Fault{At: mcptest.StageAfter, Tool: BadTool, Do: mcptest.ActionExit, Code: 5}),
	scripted("call/half-line", "Ends the line in the middle of the answer and goes on.", mcptest.Fault{At: mcptest.StageAnswer, Tool: BadTool, Do: mcptest.ActionHalfLine}),
	scripted("call/deaf", "Stops reading stdin, for good, at the call.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionHangAll}),
	scripted("call/late", "Answers the call long after it was cancelled.", mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionLateAnswer, Delay: 400 * time.Millisecond}),
	handWritten("call/never-reads", "Reads nothing any more once it is initialized.", onMethod("prompts/list", func(s *stdioServer, r request) {
		s.answerWell(r)
		s.park()
	})),
	handWritten("call/one-byte", "Writes one byte of the answer and dies.", onCall(func(s *stdioServer, r request) {
		s.write("{")
		s.exit(6)
	})),
	handWritten("call/byte-by-byte", "Writes the answer one byte at a time.", onCall(func(s *stdioServer, r request) {
		for _, b := range []byte(r.fill(`{"jsonrpc":"2.0","id":$id,"result":$fine}` + "\n")) {
			s.write(string(b))
			s.pause(200 * time.Microsecond)
		}
	})),
	handWritten("call/reverse", "Answers five calls in the reverse order in which they came.", reversed(5)),
	handWritten("call/twice", "Answers the call twice, with different results.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine}`+"\n"+`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"forged"}]}}`)),
	handWritten("call/answer-then-error", "Answers the call, and then says that it failed.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine}`+"\n"+`{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"after all, no"}}`)),
	handWritten("call/in-advance", "Answers the calls to come, whose ids it guesses, before they are made.", onCall(func(s *stdioServer, r request) {
		var b strings.Builder
		for n := range int64(100) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + plus(r.id, n+1) + `,"result":{"content":[{"type":"text","text":"forged"}]}}` + "\n")
		}
		s.write(b.String())
		s.answerWell(r)
	})),
	handWritten("call/in-advance-errors", "Fails the calls to come, whose ids it guesses, before they are made.", onCall(func(s *stdioServer, r request) {
		var b strings.Builder
		for n := range int64(100) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + plus(r.id, n+1) + `,"error":{"code":1,"message":"forged"}}` + "\n")
		}
		s.write(b.String())
		s.answerWell(r)
	})),
	handWritten("call/small-ids", "Answers the ids 0 to 20, which were answered before, before the call.", onCall(func(s *stdioServer, r request) {
		var b strings.Builder
		for n := range int64(21) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + plus("0", n) + `,"result":` + goodInitialize + "}\n")
		}
		s.write(b.String())
		s.answerWell(r)
	})),
	handWritten("call/half-line-unended", "Writes half of the answer, no end of line, and goes on: the next answer is glued to it.", onCall(func(s *stdioServer, r request) {
		s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"result":{"content":[`))
	})),
	handWritten("call/endless-line", "Begins a line that never ends, and writes on it until the client stops reading.", onCall(func(s *stdioServer, r request) {
		chunk := strings.Repeat("x", 64<<10)
		for s.ctx.Err() == nil {
			if _, err := s.out.Write([]byte(chunk)); err != nil {
				return
			}
			s.pause(time.Millisecond)
		}
	})),
	handWritten("call/endless-answer", "Begins a right answer of which the text never ends.", onCall(func(s *stdioServer, r request) {
		s.write(r.fill(`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"`))
		chunk := strings.Repeat("x", 64<<10)
		for s.ctx.Err() == nil {
			if _, err := s.out.Write([]byte(chunk)); err != nil {
				return
			}
			s.pause(time.Millisecond)
		}
	})),
	handWritten("call/only-notifies", "Answers the call with a notification that tells the result.",
		answersCall(`{"jsonrpc":"2.0","method":"tools/result","params":{"requestId":$id,"result":$fine}}`)),
	handWritten("call/echoes-the-request", "Sends the request back as it came, as a terminal would.",
		answersCall(`{"jsonrpc":"2.0","id":$id,"method":"tools/call","params":{"name":"bad","arguments":{}}}`)),
	handWritten("call/other-answer", "Answers the call with what belongs to another method.", results("tools/call", goodInitialize)),
}

// reversed collects n calls and answers the last one first, each with its own
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
