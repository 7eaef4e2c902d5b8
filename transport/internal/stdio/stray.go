package stdio

import (
	"bytes"
	"strings"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// The likely reasons of stray text.
const (
	strayDocker   = "the stream has the headers of docker's attach protocol; run the container with -i and without -t"
	strayUTF16    = "it is UTF-16; messages are UTF-8"
	strayLength   = "it frames messages with Content-Length, as LSP does; MCP has one message per line"
	strayPrefixed = "text stands in front of the message in its line: messages are prefixed, or a banner has no line end"
	strayANSI     = "it holds ANSI escape codes; turn colours off, as with NO_COLOR=1"
	strayQuestion = "it asks a question and waits for the answer; start it so that it does not ask, as with npx -y"
	strayLines    = "a message is written over several lines; each must be one line"
)

// strayReason guesses why a text is no message. ended says that its line has
// ended.
func strayReason(text []byte, ended bool) string {
	text = text[:min(len(text), jsonrpc.StrayTaken)]
	brace := bytes.IndexByte(text, '{')
	switch {
	case len(text) >= 8 && text[0] <= 2 && text[1] == 0 && text[2] == 0 && text[3] == 0:
		return strayDocker
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")), 3*bytes.Count(text, []byte{0}) > len(text):
		return strayUTF16
	case len(text) >= 15 && bytes.EqualFold(text[:15], []byte("content-length:")):
		return strayLength
	case brace > 0 && bytes.Contains(text[brace:], []byte(`"jsonrpc"`)):
		return strayPrefixed
	case asksQuestion(text, ended):
		return strayQuestion
	case bytes.IndexByte(text, '\x1b') >= 0:
		return strayANSI
	}
	return jsonrpc.StrayLog
}

// questionMarks are how prompts end, in lower case.
var questionMarks = []string{"?", "(y)", "(y/n)", "[y/n]", "(yes/no)", "[yes/no]", "password:", "passphrase:", "press enter", "to continue"}

// asksQuestion reports whether a text looks like a prompt. Most wait for the
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

// junk records a line that is no message.
func (w *wire) junk(line []byte) {
	w.noise.Malformed.Add(1)
	switch w.several.add(line) {
	case severalNone:
		w.remarks.AddStray(line, strayReason(line, true), false)
	case severalBegun:
		w.remarks.AddStray(w.several.text, strayLines, true)
	case severalComplete:
		w.remarks.AddStray(w.several.text, strayLines, true)
		w.failSeveral()
		w.several.reset()
	}
}

// unfinished is told of a line as far as it has been read, when there is no more
// of it for the moment. A message begins with a brace; a prompt has no line end.
func (w *wire) unfinished(line []byte) {
	text := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(text) > 0 && text[0] != '{' && text[0] != '[' && !bytes.HasPrefix(byteOrderMark, text) {
		w.remarks.AddStray(line, strayReason(line, false), false)
	}
}
