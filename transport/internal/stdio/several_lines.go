package stdio

import (
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// severalMax bounds a message over several lines that is put together, in bytes.
const severalMax = 256 << 10

// severalLines puts a message together that is written over several lines, as by
// a pretty printer: "Messages are delimited by newlines, and MUST NOT contain
// embedded newlines" (MCP, transports, stdio). It is not served, but it says which
// call it would have answered. It belongs to the goroutine that reads.
type severalLines struct {
	text  []byte
	depth int // of brackets that are open
}

type severalState uint8

const (
	severalNone     severalState = iota // the line is no part of a message
	severalBegun                        // it is, and more is to come
	severalComplete                     // the message is whole, or as much as is kept
)

// add takes a line that is no message by itself.
func (s *severalLines) add(line []byte) severalState {
	if s.depth == 0 && (len(line) == 0 || line[0] != '{') {
		return severalNone
	}
	change, ok := bracketDepth(line)
	if !ok || s.depth+change < 0 || s.depth == 0 && change == 0 {
		s.reset()
		return severalNone
	}
	if s.depth > 0 {
		s.text = append(s.text, '\n')
	}
	s.text = append(s.text, line...)
	if s.depth += change; s.depth == 0 || len(s.text) > severalMax {
		return severalComplete
	}
	return severalBegun
}

// reset forgets what was put together.
func (s *severalLines) reset() { s.text, s.depth = nil, 0 }

// bracketDepth is how many more brackets a line opens than it closes. It fails for
// a line that ends within a string: strings have no line breaks.
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

// failSeveral fails the request that a message over several lines answers.
func (w *wire) failSeveral() {
	const complaint = "the server wrote its answer over several lines; each message must be one line"
	text := w.several.text
	id, ok := jsonrpc.FindID(text[:min(len(text), jsonrpc.EdgeSize)], text[max(0, len(text)-jsonrpc.EdgeSize):])
	if !ok {
		return
	}
	if id < jsonrpc.FirstID {
		w.control.fail(id, complaint)
		return
	}
	if p := w.take(id); p != nil {
		p.answer <- answer{err: &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New(complaint)}}
	}
}
