package hostile

import (
	"io"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/test/fixture/junk"
)

// wrapsStdout wraps stdout during the answer to each call of [BadTool].
func wrapsStdout(wrap func(io.WriteCloser) io.WriteCloser) func(*stdioServer) {
	return onCall(func(s *stdioServer, r request) {
		stdout := s.out
		s.out = wrap(stdout)
		s.answerWell(r)
		s.out = stdout
	})
}

// streamRows are about the bytes on stdout and about probes.
var streamRows = []Misbehaviour{
	handWritten("stream/crlf", "Ends its lines with CR LF, as Windows programs do.", func(s *stdioServer) {
		s.out = replacingWriter{s.out, strings.NewReplacer("\n", "\r\n")}
		s.serve()
	}),
	handWritten("stream/spaces", "Surrounds its messages with white space and blank lines.", func(s *stdioServer) {
		s.out = replacingWriter{s.out, strings.NewReplacer("{\"jsonrpc\"", "\n \t{ \"jsonrpc\"", "\n", " \t\r\n\n\r\n")}
		s.serve()
	}),
	handWritten("stream/bom", "Begins stdout with a byte order mark, as PowerShell does.", func(s *stdioServer) {
		s.write("\ufeff")
		s.serve()
	}),
	handWritten("stream/bom-in-answer", "Begins the answer with a byte order mark.", answersCall("\ufeff"+`{"jsonrpc":"2.0","id":$id,"result":$fine}`)),
	handWritten("stream/pretty", "Formats the answer over several lines.", answersCall("{\n  \"jsonrpc\": \"2.0\",\n  \"id\": $id,\n  \"result\": $fine\n}")),
	handWritten("stream/two-on-a-line", "Writes a notification and the answer on one line.", answersCall(`{"jsonrpc":"2.0","method":"notifications/hostile"}{"jsonrpc":"2.0","id":$id,"result":$fine}`)),
	handWritten("stream/trailing", "Writes a comment after the answer on the same line.", answersCall(`{"jsonrpc":"2.0","id":$id,"result":$fine} // done`)),
	handWritten("stream/leading", "Writes a log prefix and the answer on one line.", answersCall(`2026-07-28T00:00:00Z INFO {"jsonrpc":"2.0","id":$id,"result":$fine}`)),
	handWritten("stream/batch", "Answers with a JSON-RPC batch of one message.", answersCall(`[{"jsonrpc":"2.0","id":$id,"result":$fine}]`)),
	handWritten("stream/batch-mixed", "Answers with a batch that also holds values that are not JSON-RPC messages.", answersCall(`[null,1,"x",[],{},{"jsonrpc":"2.0","id":$id,"result":$fine},{"jsonrpc":"2.0","method":"notifications/hostile"}]`)),
	handWritten("stream/batch-large", "Answers with a batch of 3,000 notifications and the answer.",
		answersCall(`[`+repeated(`{"jsonrpc":"2.0","method":"notifications/hostile"},`, 3_000)+`{"jsonrpc":"2.0","id":$id,"result":$fine}]`)),
	handWritten("stream/batch-nested", "Answers with a batch nested in two others.", answersCall(`[[[{"jsonrpc":"2.0","id":$id,"result":$fine}]]]`)),
	handWritten("stream/utf-16-le", "Answers in little-endian UTF-16, as Windows programs do.", wrapsStdout(func(w io.WriteCloser) io.WriteCloser { return utf16Writer{w, false} })),
	handWritten("stream/utf-16-be", "Answers in big-endian UTF-16.", wrapsStdout(func(w io.WriteCloser) io.WriteCloser { return utf16Writer{w, true} })),
	handWritten("stream/junk", "Writes lines of many kinds that are not JSON-RPC before the answer.", sendsFirst(string(junk.Lines(len(junk.Kinds), ""))+
		`{"method":"GET","path":"/","status":200}`+"\n"+`{"id":5,"error":"disk"}`+"\n"+`{"result":"ok"}`+"\n{}\n[[]]\n\"\n\x00\n\xff\xfe\n{\"a\n")),
	handWritten("stream/junk-flood", "Writes 200,000 lines that are not JSON-RPC before the answer.", sendsFirst(repeated("DEBUG tick\n", 200_000))),
	handWritten("stream/blank-flood", "Writes two million blank lines before the answer.", sendsFirst(repeated("\n", 2_000_000))),
	handWritten("stream/junk-long", "Writes a line of 16 megabytes that is not JSON-RPC before the answer.", sendsFirst(repeated("x", 16<<20)+"\n")),
	handWritten("stream/junk-deep", "Writes a line of a million brackets before the answer, which exposes recursive parsers.", sendsFirst(repeated("[", 1_000_000)+"\n"+repeated(`{"a":`, 200_000)+"\n")),
	handWritten("stream/junk-quotes", "Writes a line of a million backslashes and quotes before the answer.", sendsFirst(`{"a":"`+repeated(`\\"\"`, 250_000)+"\n")),
	handWritten("stream/binary", "Writes a line with a megabyte of binary data before the answer.", sendsFirst(repeated(allBytes(), 4096)+"\n")),
	handWritten("stream/progress-bar", "Draws a progress bar with carriage returns and writes the answer on the same line.", onCall(func(s *stdioServer, r request) {
		s.write("\r10%\r50%\r100%")
		s.answerWell(r)
	})),

	handWritten("liveness/no-ping", "Answers calls but no probe: neither ping nor a repeated server/discover.", failsProbes(func(*stdioServer, request) {})),
	handWritten("liveness/ping-refused", "Answers probes with an error, which still shows that it is alive.", failsProbes(func(s *stdioServer, r request) {
		s.write(r.expandPlaceholders(`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}` + "\n"))
	})),
	handWritten("liveness/ping-text", "Answers probes with a string instead of an object.", failsProbes(func(s *stdioServer, r request) { s.result(r, `"pong"`) })),
	handWritten("liveness/ping-exit", "Exits when it receives a probe.", failsProbes(func(s *stdioServer, _ request) { s.exit(2) })),
	handWritten("liveness/chatty", "Answers no probe but sends a log message from time to time, so it is alive without answering.", failsProbes(func(s *stdioServer, _ request) {
		for range 20 {
			s.write(notifications(1, "notifications/message", `{"level":"info","data":"here"}`))
			s.pause(10 * time.Millisecond)
		}
	})),
	handWritten("liveness/only-ping", "Answers probes but no call, so a client that only probes takes it for healthy.", onMethod("tools/call", func(*stdioServer, request) {})),
}

// failsProbes serves correctly until it is probed. The second incarnation always serves
// correctly.
func failsProbes(do func(*stdioServer, request)) func(*stdioServer) {
	return func(s *stdioServer) {
		if s.start > 1 {
			s.serve()
			return
		}
		s.handlers["ping"] = do
		negotiated := false
		s.handlers["server/discover"] = func(s *stdioServer, r request) {
			if negotiated {
				do(s, r)
				return
			}
			negotiated = true
			s.answerWell(r)
		}
		s.serve()
	}
}

// allBytes returns every byte except the line feed.
func allBytes() string {
	b := make([]byte, 0, 255)
	for i := range 256 {
		if i != '\n' {
			b = append(b, byte(i))
		}
	}
	return string(b)
}
