package stdio

import (
	"errors"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxSplitBytes bounds how much of a message over several lines is kept, in bytes.
const maxSplitBytes = 256 << 10

// splitMessage collects a message that the server has written over several lines, as a
// pretty printer does: "Messages are delimited by newlines, and MUST NOT contain
// embedded newlines" (MCP, transports, stdio). Such a message is not served. It shows
// which request it would have answered, and that request fails at once. The goroutine
// that reads owns it.
type splitMessage struct {
	text  []byte
	depth int // the number of open brackets
}

// splitState says what a line is to a message over several lines.
type splitState uint8

const (
	splitNone       splitState = iota // the line is not part of such a message
	splitIncomplete                   // the line is part of one, and more lines follow
	splitComplete                     // the message is complete, or maxSplitBytes is reached
)

// add adds a line that is not a message by itself.
func (s *splitMessage) add(line []byte) splitState {
	if s.depth == 0 && (len(line) == 0 || line[0] != '{') {
		return splitNone
	}
	change, ok := bracketDepth(line)
	if !ok || s.depth+change < 0 || s.depth == 0 && change == 0 {
		s.reset()
		return splitNone
	}
	if s.depth > 0 {
		s.text = append(s.text, '\n')
	}
	s.text = append(s.text, line...)
	if s.depth += change; s.depth == 0 || len(s.text) > maxSplitBytes {
		return splitComplete
	}
	return splitIncomplete
}

// reset discards what was collected.
func (s *splitMessage) reset() { s.text, s.depth = nil, 0 }

// bracketDepth returns how many more brackets a line opens than it closes. ok is false
// for a line that ends within a string: JSON strings contain no line breaks.
func bracketDepth(line []byte) (change int, ok bool) {
	inString := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			change++
		case c == '}', c == ']':
			change--
		}
	}
	return change, !inString
}

// failSplitMessage fails the request that the collected message answers, if any.
func (c *conn) failSplitMessage() {
	text := c.split.text
	id, ok := jsonrpc.FindID(text[:min(len(text), jsonrpc.EdgeSize)], text[max(0, len(text)-jsonrpc.EdgeSize):])
	if ok {
		c.failResponse(id, errors.New("the server wrote its answer over several lines; each message must be one line"), "")
	}
}
