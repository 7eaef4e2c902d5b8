package mcptest

import (
	"strings"
	"time"
)

// What happens to a call: the server ends, is silent, or answers in a way of
// its own.
var callZoo = []Misbehaviour{
	scripted("call/hang", "Never answers the call; everything else goes on.", Fault{At: StageCall, Tool: ZooBad, Do: ActionHang}),
	scripted("call/exit", "Exits with status 3 instead of an answer, a last word on stderr.",
		Fault{At: StageCall, Tool: ZooBad, Do: ActionStderrLine, Text: "fatal: out of paper"}, Fault{At: StageCall, Tool: ZooBad, Do: ActionExit, Code: 3}),
	scripted("call/exit-0", "Exits with status 0 instead of an answer, as if all were well.", Fault{At: StageCall, Tool: ZooBad, Do: ActionExit}),
	scripted("call/kill", "Is killed instead of answering, as by the kernel that has no memory left.", Fault{At: StageCall, Tool: ZooBad, Do: ActionDie}),
	scripted("call/abort", "Aborts with a stack trace instead of answering.", Fault{At: StageCall, Tool: ZooBad, Do: ActionDie, Signal: "ABRT"}),
	scripted("call/exit-in-answer", "Exits with half a line of the answer written.", Fault{At: StageAnswer, Tool: ZooBad, Do: ActionExit, Code: 4}),
	scripted("call/kill-in-answer", "Is killed with half a line of the answer written.", Fault{At: StageAnswer, Tool: ZooBad, Do: ActionDie}),
	scripted("call/exit-after-answer", "Answers the call and exits at once.", Fault{At: StageAfter, Tool: ZooBad, Do: ActionExit, Code: 5}),
	scripted("call/half-line", "Ends the line in the middle of the answer and goes on.", Fault{At: StageAnswer, Tool: ZooBad, Do: ActionHalfLine}),
	scripted("call/deaf", "Stops reading stdin, for good, at the call.", Fault{At: StageCall, Tool: ZooBad, Do: ActionHangAll}),
	scripted("call/late", "Answers the call long after it was cancelled.", Fault{At: StageCall, Tool: ZooBad, Do: ActionLateAnswer, Delay: 400 * time.Millisecond}),
	wild("call/never-reads", "Reads nothing any more once it is initialized.", instead("prompts/list", func(c *creature, q question) {
		c.behave(q)
		c.park()
	})),
	wild("call/one-byte", "Writes one byte of the answer and dies.", atCall(func(c *creature, q question) {
		c.write("{")
		c.end(6)
	})),
	wild("call/byte-by-byte", "Writes the answer one byte at a time.", atCall(func(c *creature, q question) {
		for _, b := range []byte(q.fill(`{"jsonrpc":"2.0","id":$id,"result":$fine}` + "\n")) {
			c.write(string(b))
			c.rest(200 * time.Microsecond)
		}
	})),
	wild("call/reverse", "Answers five calls in the reverse order in which they came.", reversed(5)),
	wild("call/twice", "Answers the call twice, with different results.",
		answers(`{"jsonrpc":"2.0","id":$id,"result":$fine}`+"\n"+`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"forged"}]}}`)),
	wild("call/answer-then-error", "Answers the call, and then says that it failed.",
		answers(`{"jsonrpc":"2.0","id":$id,"result":$fine}`+"\n"+`{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"after all, no"}}`)),
	wild("call/in-advance", "Answers the calls to come, whose ids it guesses, before they are made.", atCall(func(c *creature, q question) {
		var b strings.Builder
		for n := range int64(100) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + plus(q.id, n+1) + `,"result":{"content":[{"type":"text","text":"forged"}]}}` + "\n")
		}
		c.write(b.String())
		c.behave(q)
	})),
	wild("call/in-advance-errors", "Fails the calls to come, whose ids it guesses, before they are made.", atCall(func(c *creature, q question) {
		var b strings.Builder
		for n := range int64(100) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + plus(q.id, n+1) + `,"error":{"code":1,"message":"forged"}}` + "\n")
		}
		c.write(b.String())
		c.behave(q)
	})),
	wild("call/small-ids", "Answers the ids 0 to 20, which nobody asks about any more, before the call.", atCall(func(c *creature, q question) {
		var b strings.Builder
		for n := range int64(21) {
			b.WriteString(`{"jsonrpc":"2.0","id":` + plus("0", n) + `,"result":` + goodInitialize + "}\n")
		}
		c.write(b.String())
		c.behave(q)
	})),
	wild("call/half-line-unended", "Writes half of the answer, no end of line, and goes on: the next answer is glued to it.", atCall(func(c *creature, q question) {
		c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"result":{"content":[`))
	})),
	wild("call/endless-line", "Begins a line that never ends, and writes on it for as long as anybody reads.", atCall(func(c *creature, q question) {
		chunk := strings.Repeat("x", 64<<10)
		for c.ctx.Err() == nil {
			if _, err := c.out.Write([]byte(chunk)); err != nil {
				return
			}
			c.rest(time.Millisecond)
		}
	})),
	wild("call/endless-answer", "Begins a right answer of which the text never ends.", atCall(func(c *creature, q question) {
		c.write(q.fill(`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"`))
		chunk := strings.Repeat("x", 64<<10)
		for c.ctx.Err() == nil {
			if _, err := c.out.Write([]byte(chunk)); err != nil {
				return
			}
			c.rest(time.Millisecond)
		}
	})),
	wild("call/only-notifies", "Answers the call with a notification that tells the result.",
		answers(`{"jsonrpc":"2.0","method":"tools/result","params":{"requestId":$id,"result":$fine}}`)),
	wild("call/echoes-the-request", "Sends the request back as it came, as a terminal would.",
		answers(`{"jsonrpc":"2.0","id":$id,"method":"tools/call","params":{"name":"bad","arguments":{}}}`)),
	wild("call/other-answer", "Answers the call with what belongs to another method.", results("tools/call", goodInitialize)),
}

// reversed collects calls and answers the last one first, each with its own
// argument.
func reversed(n int) func(*creature) {
	var held []question
	return atCall(func(c *creature, q question) {
		if held = append(held, q); len(held) < n {
			return
		}
		for len(held) > 0 {
			last := held[len(held)-1]
			held = held[:len(held)-1]
			last.params.Name = ZooEcho
			c.behave(last)
		}
	})
}
