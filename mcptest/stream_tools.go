package mcptest

import (
	"encoding/json"
	"strconv"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/statedir"
)

// The tools of this file need a pair of streams, or what a process has beside
// them.

func die(c *toolCall, a nameArgs) toolResult {
	c.lines.host.die(c.lines, a.Name)
	return toolResult{silent: true}
}

func stderr(c *toolCall, a textArgs) toolResult {
	c.lines.logf("%s", a.Text)
	return textResult("written")
}

func writeJunk(c *toolCall, a countArgs) toolResult {
	c.lines.writeJunk(max(1, a.Count), "")
	return textResult("written")
}

func fork(c *toolCall, a struct{ Detached bool }) toolResult {
	child, err := c.lines.fork(a.Detached)
	if err != nil {
		return errorResult(err.Error())
	}
	return jsonResult(map[string]int{"pid": child})
}

func logMessage(c *toolCall, a struct{ Level, Text string }) toolResult {
	c.on.log(c, orDefault(a.Level, "info"), a.Text)
	return textResult("sent")
}

func touch(c *toolCall, a struct{ URI string }) toolResult {
	c.on.notifyUpdated(c, a.URI)
	return textResult("announced")
}

// ask sends a request of the server to the client and answers with what the
// client text.
func ask(c *toolCall, a struct {
	Method string
	Params json.RawMessage
}) toolResult {
	if a.Method == "" {
		return errorResult("ask: method is empty; name a request such as ping or roots/list")
	}
	id, answer := c.lines.clientRequests.register()
	line := append([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":`), quote(a.Method)...)
	if len(a.Params) > 0 {
		line = append(append(line, `,"params":`...), a.Params...)
	}
	c.lines.out.writeLine(append(line, '}'))
	select {
	case text := <-answer:
		return textResult(string(text))
	case <-c.ctx.Done():
		return toolResult{silent: true}
	}
}

// server is the backend of the tools on a pair of streams.

func (s *server) identity() (string, int) { return s.instance, s.start }

func (s *server) stateCounter() *statedir.Counter { return s.counter }

func (s *server) progress(c *toolCall, done, total int) {
	var meta struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(c.meta, &meta) != nil || len(meta.Token) == 0 {
		return
	}
	s.notify("notifications/progress", mustJSON(map[string]any{
		"progressToken": meta.Token, "progress": done, "total": total, "message": "step " + strconv.Itoa(done),
	}))
}

func (s *server) addTool(t ToolDef) {
	s.catalog.add(t)
	s.toolsChanged()
}

func (s *server) removeTool(name string) bool {
	removed := s.catalog.remove(name)
	if removed {
		s.toolsChanged()
	}
	return removed
}

func (s *server) crash(code int) { s.host.exit(s, code) }

// fork starts a grandchild and records it.
func (s *server) fork(detached bool) (int, error) {
	child, err := s.host.fork(detached)
	if err != nil {
		return 0, err
	}
	return child, s.counter.RecordPID(child)
}
