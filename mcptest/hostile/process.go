package hostile

import (
	"bytes"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// alone marks a misbehaviour that needs a process.
func alone(m Misbehaviour) Misbehaviour {
	m.process = true
	return m
}

// atEnd serves well until stdin ends, and then calls do.
func atEnd(do func(*stdioServer)) func(*stdioServer) {
	return func(s *stdioServer) {
		s.serve()
		do(s)
	}
}

// processRows are about the process and its streams, on every system; linuxRows are
// added where they exist.
var processRows = append([]Misbehaviour{
	scripted("process/close-stdout", "Closes stdout at the call, and lives.",
		mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionCloseStdout}, mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionHang}),
	handWritten("process/close-stdin", "Closes stdin at the call, which it answers, and lives.", onCall(func(s *stdioServer, r request) {
		_ = s.stdin.Close()
		s.answerWell(r)
		s.park()
	})),
	handWritten("process/close-both", "Closes stdin and stdout at the call, and lives.", onCall(func(s *stdioServer, r request) {
		_, _ = s.stdin.Close(), s.out.Close()
		s.park()
	})),
	handWritten("process/stderr-flood", "Writes four megabytes of all bytes there are to stderr before the answer.", onCall(func(s *stdioServer, r request) {
		block := []byte(strings.Repeat(allBytes()+"\n", 4096))
		for range 4 {
			_, _ = s.errs.Write(block)
		}
		s.answerWell(r)
	})),
	handWritten("process/stderr-line", "Writes a line of 100 megabytes to stderr that does not end, before the answer.", onCall(func(s *stdioServer, r request) {
		block := bytes.Repeat([]byte("e"), 1<<20)
		for range 100 {
			_, _ = s.errs.Write(block)
		}
		s.answerWell(r)
	})),
	handWritten("process/stderr-escapes", "Exits, with a terminal's escape sequences and forged lines of a log on stderr.", onCall(func(s *stdioServer, r request) {
		_, _ = s.errs.Write([]byte("\x1b[2J\x1b]0;pwned\a\u202egnp.exe\r2026-07-28 INFO all is well\n\x9b31m\xff\x00done\u2028"))
		s.exit(4)
	})),
	scripted("shutdown/stubborn", "Ends neither when its stdin does nor when it is asked to by a signal.", mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}),
	handWritten("shutdown/ignores-eof", "Does not end when its stdin does, but by a signal.", atEnd((*stdioServer).park)),
	handWritten("shutdown/slow", "Takes a moment to end after its stdin has.", atEnd(func(s *stdioServer) { s.pause(50 * time.Millisecond) })),
	handWritten("shutdown/status", "Ends with status 1 when it is asked to end.", atEnd(func(s *stdioServer) { s.exit(1) })),
	handWritten("shutdown/writes", "Writes a megabyte of last words to stdout and stderr before it ends.", atEnd(func(s *stdioServer) {
		for range 10_000 {
			s.write(strings.Repeat("bye ", 25) + "\n")
			_, _ = s.errs.Write([]byte("bye\n"))
		}
	})),
	handWritten("shutdown/writes-for-ever", "Writes to stdout forever when it is asked to end.", atEnd(func(s *stdioServer) {
		for s.ctx.Err() == nil {
			if _, err := s.out.Write([]byte("still here\n")); err != nil {
				s.park()
			}
		}
	})),
	handWritten("shutdown/asks", "Makes requests of the client when it is asked to end, and waits for the answers.", atEnd(func(s *stdioServer) {
		s.write(numbered(100, "roots/list", "{}"))
		s.park()
	})),
}, linuxRows...)
