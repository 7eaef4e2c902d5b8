package stdio

import (
	"bytes"
	"errors"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// A server may write to its stdout what is not a message: logs, banners, prompts. That is
// stray output (see [mcpvisor.StrayOutput]). "The server MUST NOT write anything to
// its stdout that is not a valid MCP message" (MCP, transports, stdio).

// The likely reasons of stray output.
const (
	reasonDocker        = "the stream has the headers of docker's attach protocol; run the container with -i and without -t"
	reasonUTF16         = "it is UTF-16; messages are UTF-8"
	reasonContentLength = "it frames messages with Content-Length, as LSP does; MCP has one message per line"
	reasonPrefixed      = "text stands in front of the message in its line: messages are prefixed, or a banner has no line end"
	reasonANSI          = "it holds ANSI escape codes; turn colours off, as with NO_COLOR=1"
	reasonQuestion      = "it asks a question and waits for the answer; start it so that it does not ask, as with npx -y"
	reasonSplit         = "a message is written over several lines; each must be one line"
	reasonJoined        = "a message shares its line with others or with NUL bytes; each must be one line, as when one thread writes at a time"
)

// guessReason returns the likely reason why a text is not a message. ended says whether
// the line is complete.
func guessReason(text []byte, ended bool) string {
	text = text[:min(len(text), jsonrpc.StrayTaken)]
	brace := bytes.IndexByte(text, '{')
	switch {
	case len(text) >= 8 && text[0] <= 2 && text[1] == 0 && text[2] == 0 && text[3] == 0:
		return reasonDocker
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")), 3*bytes.Count(text, []byte{0}) > len(text):
		return reasonUTF16
	case len(text) >= 15 && bytes.EqualFold(text[:15], []byte("content-length:")):
		return reasonContentLength
	case brace > 0 && bytes.Contains(text[brace:], []byte(`"jsonrpc"`)):
		return reasonPrefixed
	case asksQuestion(text, ended):
		return reasonQuestion
	case bytes.IndexByte(text, '\x1b') >= 0:
		return reasonANSI
	}
	return jsonrpc.StrayLog
}

// questionMarks are the ends of prompts, in lower case.
var questionMarks = []string{"?", "(y)", "(y/n)", "[y/n]", "(yes/no)", "[yes/no]", "password:", "passphrase:", "press enter", "to continue"}

// asksQuestion reports whether a text looks like a prompt. Most prompts wait for the
// answer in the same line.
func asksQuestion(text []byte, ended bool) bool {
	lower := strings.ToLower(strings.TrimRight(string(text), " \t:>.…"))
	if !ended && strings.Contains(lower, "? ") {
		return true
	}
	for _, mark := range questionMarks {
		if strings.HasSuffix(lower, strings.TrimRight(mark, ":")) {
			return true
		}
	}
	return false
}

// receiveMalformed records a line that is not a message.
func (c *conn) receiveMalformed(line []byte) {
	c.discarded.Malformed.Add(1)
	c.noteMalformed(line)
}

func (c *conn) noteMalformed(line []byte) {
	switch c.split.add(line) {
	case splitNone:
		c.remarks.AddStray(line, guessReason(line, true), false)
	case splitIncomplete:
		c.remarks.AddStray(c.split.text, reasonSplit, true)
	case splitComplete:
		c.remarks.AddStray(c.split.text, reasonSplit, true)
		c.failSplitMessage()
		c.split.reset()
	}
}

// ReceiveUnfinished implements [reader.Handler]. A prompt has no line end; a message begins
// with a bracket, and waits for its line end.
func (c *conn) ReceiveUnfinished(line []byte) {
	begin := line[:min(len(line), jsonrpc.StrayTaken)]
	text := bytes.TrimLeft(bytes.TrimPrefix(begin, byteOrderMark), filler)
	switch {
	case len(text) == 0 || bytes.HasPrefix(byteOrderMark, text):
	case text[0] == '{' || text[0] == '[':
		c.remarks.SetUnfinished(text, len(line))
	default:
		c.remarks.AddStray(line, guessReason(line, false), false)
	}
}

// filler stands around the messages of a line that holds several: white space, and
// the NULs of servers that end their texts with one, as in C.
const filler = "\x00 \t\r\n"

// receiveJoined handles the messages of a line that is not one message: threads of the
// server have written texts and line ends apart, or there are NULs around the message. The line
// counts as malformed nevertheless. It reports false if the line does not begin with a
// message, or is a part of one over several lines.
func (c *conn) receiveJoined(line []byte) bool {
	rest := bytes.Trim(line, filler)
	if c.split.depth > 0 || !beginsWithMessage(rest) {
		return false
	}
	c.discarded.Malformed.Add(1)
	for object := firstObject(rest); object != nil; object = firstObject(rest) {
		rest = bytes.Trim(rest[len(object):], filler)
		c.ReceiveLine(object)
	}
	if len(rest) > 0 {
		c.noteMalformed(rest)
	} else {
		c.remarks.AddStray(line, reasonJoined, false)
	}
	return true
}

// beginsWithMessage reports whether one of the objects that a line begins with is a message.
// What a comma or a closing bracket follows is a part of something else.
func beginsWithMessage(line []byte) bool {
	for object := firstObject(line); object != nil; object = firstObject(line) {
		line = bytes.Trim(line[len(object):], filler)
		if env, ok := jsonrpc.ScanEnvelope(object); ok && env.IsMessage() {
			return len(line) == 0 || strings.IndexByte(",:]}", line[0]) < 0
		}
	}
	return false
}

// firstObject returns the JSON object that a text begins with; nil if it begins with something else.
func firstObject(text []byte) []byte {
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	s := jsonscan.Scanner{Text: text}
	object, ok := s.Value()
	if !ok {
		return nil
	}
	return object
}

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
