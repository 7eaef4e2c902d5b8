package mcptest

import (
	"bytes"
	"strings"
	"time"
)

// alone marks what needs a process of its own.
func alone(m Misbehaviour) Misbehaviour {
	m.process = true
	return m
}

// atEnd serves well, and then does not just end when stdin does.
func atEnd(do func(*creature)) func(*creature) {
	return func(c *creature) {
		c.serve()
		do(c)
	}
}

// processZoo is what a server does with its process and its streams, as far as
// every system lets it.
var processZoo = append([]Misbehaviour{
	scripted("process/close-stdout", "Closes stdout at the call, and lives.",
		Fault{At: StageCall, Tool: ZooBad, Do: ActionCloseStdout}, Fault{At: StageCall, Tool: ZooBad, Do: ActionHang}),
	wild("process/close-stdin", "Closes stdin at the call, which it answers, and lives.", atCall(func(c *creature, q question) {
		_ = c.stdin.Close()
		c.behave(q)
		c.park()
	})),
	wild("process/close-both", "Closes stdin and stdout at the call, and lives.", atCall(func(c *creature, q question) {
		_, _ = c.stdin.Close(), c.out.Close()
		c.park()
	})),
	wild("process/stderr-flood", "Writes four megabytes of all bytes there are to stderr before the answer.", atCall(func(c *creature, q question) {
		block := []byte(strings.Repeat(allBytes()+"\n", 4096))
		for range 4 {
			_, _ = c.errs.Write(block)
		}
		c.behave(q)
	})),
	wild("process/stderr-line", "Writes a line of 100 megabytes to stderr that does not end, before the answer.", atCall(func(c *creature, q question) {
		block := bytes.Repeat([]byte("e"), 1<<20)
		for range 100 {
			_, _ = c.errs.Write(block)
		}
		c.behave(q)
	})),
	wild("process/stderr-escapes", "Exits, with a terminal's escape sequences and forged lines of a log on stderr.", atCall(func(c *creature, q question) {
		_, _ = c.errs.Write([]byte("\x1b[2J\x1b]0;pwned\a\u202egnp.exe\r2026-07-28 INFO all is well\n\x9b31m\xff\x00done\u2028"))
		c.end(4)
	})),
	scripted("shutdown/stubborn", "Ends neither when its stdin does nor when it is asked to by a signal.", Fault{At: StageStart, Do: ActionIgnoreShutdown}),
	wild("shutdown/ignores-eof", "Does not end when its stdin does, but by a signal.", atEnd((*creature).park)),
	wild("shutdown/slow", "Takes a moment to end after its stdin has.", atEnd(func(c *creature) { c.rest(50 * time.Millisecond) })),
	wild("shutdown/status", "Ends with status 1 when it is asked to end.", atEnd(func(c *creature) { c.end(1) })),
	wild("shutdown/writes", "Writes a megabyte of last words to stdout and stderr before it ends.", atEnd(func(c *creature) {
		for range 10_000 {
			c.write(strings.Repeat("bye ", 25) + "\n")
			_, _ = c.errs.Write([]byte("bye\n"))
		}
	})),
	wild("shutdown/writes-for-ever", "Writes to stdout for ever when it is asked to end.", atEnd(func(c *creature) {
		for c.ctx.Err() == nil {
			if _, err := c.out.Write([]byte("still here\n")); err != nil {
				c.park()
			}
		}
	})),
	wild("shutdown/asks", "Makes requests of the client when it is asked to end, and waits for the answers.", atEnd(func(c *creature) {
		c.write(numbered(100, "roots/list", "{}"))
		c.park()
	})),
}, unixZoo...)
