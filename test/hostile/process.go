package hostile

import (
	"bytes"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// processOnly marks a misbehaviour that needs a process.
func processOnly(m Misbehaviour) Misbehaviour {
	m.process = true
	return m
}

// atEnd serves correctly until stdin ends, and then calls do.
func atEnd(do func(*stdioServer)) func(*stdioServer) {
	return func(s *stdioServer) {
		s.serve()
		do(s)
	}
}

// processRows are about the process and its streams. linuxRows adds those that need
// Linux.
var processRows = append([]Misbehaviour{
	scripted("process/close-stdout", "Closes stdout when the call arrives, but does not exit.",
		mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionCloseStdout}, mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionHang}),
	handWritten("process/close-stdin", "Closes stdin when the call arrives and answers it, but does not exit.", onCall(func(s *stdioServer, r request) {
		_ = s.stdin.Close()
		s.answerWell(r)
		s.waitForever()
	})),
	handWritten("process/close-both", "Closes stdin and stdout when the call arrives, but does not exit.", onCall(func(s *stdioServer, r request) {
		_, _ = s.stdin.Close(), s.out.Close()
		s.waitForever()
	})),
	handWritten("process/stderr-flood", "Writes four megabytes of binary data to stderr before the answer, which blocks if the client does not read stderr.", onCall(func(s *stdioServer, r request) {
		block := []byte(strings.Repeat(allBytes()+"\n", 4096))
		for range 4 {
			_, _ = s.errs.Write(block)
		}
		s.answerWell(r)
	})),
	handWritten("process/stderr-line", "Writes a line of 100 megabytes without a line feed to stderr before the answer.", onCall(func(s *stdioServer, r request) {
		block := bytes.Repeat([]byte("e"), 1<<20)
		for range 100 {
			_, _ = s.errs.Write(block)
		}
		s.answerWell(r)
	})),
	handWritten("process/stderr-escapes", "Exits and leaves terminal escape sequences and a forged log line on stderr.", onCall(func(s *stdioServer, r request) {
		_, _ = s.errs.Write([]byte("\x1b[2J\x1b]0;pwned\a\u202egnp.exe\r2026-07-28 INFO all is well\n\x9b31m\xff\x00done\u2028"))
		s.exit(4)
	})),
	scripted("shutdown/stubborn", "Exits neither when stdin is closed nor by SIGTERM; only SIGKILL ends it.", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}),
	handWritten("shutdown/ignores-eof", "Does not exit when stdin is closed, only by a signal.", atEnd((*stdioServer).waitForever)),
	handWritten("shutdown/slow", "Exits 50 milliseconds after stdin was closed.", atEnd(func(s *stdioServer) { s.pause(50 * time.Millisecond) })),
	handWritten("shutdown/status", "Exits with status 1 when stdin is closed, although nothing failed.", atEnd(func(s *stdioServer) { s.exit(1) })),
	handWritten("shutdown/writes", "Writes a megabyte to stdout and stderr after stdin was closed, and then exits.", atEnd(func(s *stdioServer) {
		for range 10_000 {
			s.write(strings.Repeat("bye ", 25) + "\n")
			_, _ = s.errs.Write([]byte("bye\n"))
		}
	})),
	handWritten("shutdown/writes-for-ever", "Writes to stdout forever after stdin was closed.", atEnd(func(s *stdioServer) {
		for s.ctx.Err() == nil {
			if _, err := s.out.Write([]byte("still here\n")); err != nil {
				s.waitForever()
			}
		}
	})),
	handWritten("shutdown/asks", "Sends 100 requests when stdin is closed, and does not exit.", atEnd(func(s *stdioServer) {
		s.write(numberedRequests(100, "roots/list", "{}"))
		s.waitForever()
	})),
}, linuxRows...)
