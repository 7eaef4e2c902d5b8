package mcptest

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/test/fixture/junk"
)

// injectStage injects the faults of a stage that is not about a request. It returns
// false if the server has ended.
func (s *server) injectStage(stage Stage) bool {
	for _, f := range s.plan.due(stage, "", "") {
		if f.Do == ActionDelay {
			s.pause(s.ctx, f.Delay)
			continue
		}
		s.injectFault(f)
	}
	return s.ctx.Err() == nil
}

// anyWaits reports whether one of the faults waits. Such faults must not be injected in
// the goroutine that reads stdin.
func anyWaits(faults []*Fault) bool {
	return slices.ContainsFunc(faults, func(f *Fault) bool { return f.Do == ActionDelay || f.Do == ActionLateAnswer })
}

// failure is the error of ActionError.
func (f Fault) failure() *jsonrpc.Error {
	return &jsonrpc.Error{Code: int64(cmp.Or(f.Code, jsonrpc.CodeInternalError)), Message: cmp.Or(f.Text, "failed as scripted")}
}

// injectBeforeAnswer injects a fault before a request is handled. It returns false if
// the request gets no other answer.
func (s *server) injectBeforeAnswer(f *Fault, r *request) bool {
	switch f.Do {
	case ActionHang:
		return false
	case ActionError:
		s.replyError(r, f.failure())
		return false
	case ActionMalformed, ActionOversize, ActionRepeatCursor, ActionBadTool, ActionRefuseVersion, ActionHalfLine:
		r.answerFaults = append(r.answerFaults, f)
		return true
	case ActionDelay:
		return s.pause(r.ctx, f.Delay)
	case ActionLateAnswer:
		r.uncancellable = true
		return s.pause(s.ctx, cmp.Or(f.Delay, time.Second))
	default:
	}
	s.injectFault(f)
	// A server that stops reading does not answer this request either.
	return s.ctx.Err() == nil && f.Do != ActionHangAll
}

// injectFault performs the actions that need no request.
func (s *server) injectFault(f *Fault) {
	switch f.Do {
	case ActionExit:
		s.host.exit(s, f.Code)
	case ActionDie:
		s.host.die(s, f.Signal)
	case ActionHangAll:
		s.stopReading()
	case ActionIgnoreShutdown:
		s.ignoresEOF.Store(true)
		s.host.ignoreShutdown()
	case ActionJunk:
		s.writeJunk(max(1, f.Count), f.Text)
	case ActionStderrFlood:
		s.stderrFlood(f.Bytes)
	case ActionStderrLine:
		s.logf("%s", f.Text)
	case ActionForkGrandchild:
		if _, err := s.Fork(f.Text == "detached"); err != nil {
			s.logf("mcptest: %v", err)
		}
	case ActionFlood:
		s.out.writeRaw(flood(f))
	case ActionCloseStdout:
		s.out.close()
	default:
	}
}

// faultOf returns the fault with that action among those that change this answer, or
// nil.
func (r *request) faultOf(do Action) *Fault {
	for _, f := range r.answerFaults {
		if f.Do == do {
			return f
		}
	}
	return nil
}

// reply writes an answer, changed by the faults of the request, and injects the faults
// of the stages answer and after.
func (s *server) reply(r *request, line []byte) {
	if f := r.faultOf(ActionOversize); f != nil {
		line = pad(line, f.Bytes)
	}
	lines := [][]byte{line}
	if f := r.faultOf(ActionMalformed); f != nil {
		lines = malformedLines(r, line, f.Text)
	}
	if r.faultOf(ActionHalfLine) != nil {
		lines = [][]byte{line[:len(line)/2]}
	}
	if due := s.plan.due(StageAnswer, r.method, r.params.target()); len(due) > 0 {
		s.replyInterrupted(due, lines[0])
		lines = lines[1:]
	}
	for _, line := range lines {
		s.out.writeLine(line)
	}
	for _, f := range s.plan.due(StageAfter, r.method, r.params.target()) {
		if f.Do == ActionDelay {
			s.pause(s.ctx, f.Delay)
			continue
		}
		s.injectFault(f)
	}
}

// replyInterrupted writes half of the answer, injects the faults, and writes the rest
// if the server still runs and reads. Other writes wait meanwhile.
func (s *server) replyInterrupted(faults []*Fault, line []byte) {
	half := len(line) / 2
	s.out.writeInterrupted(line[:half], func() []byte {
		rest := append(line[half:len(line):len(line)], '\n')
		for _, f := range faults {
			switch f.Do {
			case ActionHalfLine:
				rest = []byte("\n")
			case ActionDelay:
				s.pause(s.ctx, f.Delay)
			case ActionJunk:
				rest = append(junk.Lines(max(1, f.Count), f.Text), rest...)
			case ActionFlood:
				rest = append(flood(f), rest...)
			default:
				s.injectFault(f)
			}
			if s.ctx.Err() != nil || s.stoppedReading() {
				return nil
			}
		}
		return rest
	})
}

// flood returns Count notifications of one method.
func flood(f *Fault) []byte {
	method, params := f.Text, []byte(nil)
	if method == "" {
		method, params = "notifications/message", []byte(`{"level":"info","data":"flood"}`)
	}
	line := append(notification(method, params), '\n')
	return bytes.Repeat(line, max(1, f.Count))
}

// pad adds a member to the result, so that the line has at least size bytes.
func pad(line []byte, size int) []byte {
	const opening, closing = `,"padding":"`, `"}}`
	body, ok := bytes.CutSuffix(line, []byte("}}"))
	if !ok {
		return line
	}
	if bytes.HasSuffix(body, []byte("{")) {
		return pad(append(body, `"empty":true}}`...), size)
	}
	fill := max(0, size-len(body)-len(opening)-len(closing))
	out := make([]byte, 0, len(body)+fill+len(opening)+len(closing))
	out = append(append(out, body...), opening...)
	out = append(out, bytes.Repeat([]byte{'x'}, fill)...)
	return append(out, closing...)
}

// malformedLines returns the lines of a malformed answer.
func malformedLines(r *request, line []byte, how string) [][]byte {
	reply := func(id, rest string) [][]byte {
		return [][]byte{[]byte(`{"jsonrpc":"2.0"` + id + rest + `}`)}
	}
	id := `,"id":` + string(r.id)
	switch how {
	case malformedWrongID:
		return reply(`,"id":987654321`, `,"result":{}`)
	case malformedStringID:
		return reply(`,"id":"`+strings.Trim(string(r.id), `"`)+`"`, `,"result":{}`)
	case malformedDuplicate:
		return [][]byte{line, bytes.Clone(line)}
	case malformedNoID:
		return reply("", `,"result":{}`)
	case malformedNullID:
		return reply(`,"id":null`, `,"error":{"code":-32603,"message":"which request was that?"}`)
	case malformedErrorText:
		return reply(id, `,"error":"it did not work"`)
	case malformedEmpty:
		return reply(id, "")
	}
	return reply(id, `,"result":"not an object"`)
}

func (s *server) writeJunk(count int, text string) { s.out.writeRaw(junk.Lines(count, text)) }

// stderrFlood writes lines of 100 bytes, the last one shorter.
func (s *server) stderrFlood(size int) {
	line := []byte(strings.Repeat("e", 99) + "\n")
	for size > 0 {
		n := min(size, len(line))
		_, _ = s.errs.Write(line[len(line)-n:])
		size -= n
	}
}
