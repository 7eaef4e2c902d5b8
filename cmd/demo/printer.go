package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The colours repeat what a glyph or a word says.
const (
	plainText = ""
	dim       = "2"
	bold      = "1"
	red       = "31"
	green     = "32"
	yellow    = "33"
	cyan      = "36"
)

// printer prints one line for each fact, with the verb in a fixed column. It is safe
// for concurrent use.
type printer struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	color bool
	width int // of the terminal; 0 if lines are not cut
}

func newPrinter(out io.Writer) *printer { return &printer{out: out, start: time.Now()} }

// printFact prints the time, what happened, to which server, and details.
func (p *printer) printFact(color, verb, server, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	details := fmt.Sprintf(format, args...)
	head := fmt.Sprintf("%5.1fs  %-6s %-7s", time.Since(p.start).Seconds(), verb, server)
	details = p.truncate(details, utf8.RuneCountInString(head)+1)
	if p.color {
		head = fmt.Sprintf("\x1b[%sm%5.1fs\x1b[0m  %s %-7s", dim, time.Since(p.start).Seconds(), p.colorize(color, fmt.Sprintf("%-6s", verb)), server)
	}
	fmt.Fprintf(p.out, "%s %s\n", head, details)
}

// printLine prints a line as it is.
func (p *printer) printLine(color, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.out, strings.TrimRight(p.colorize(color, p.truncate(fmt.Sprintf(format, args...), 0)), " "))
}

func (p *printer) colorize(color, text string) string {
	if !p.color || color == plainText || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// truncate shortens a line that would wrap. used is the width of what comes before it.
func (p *printer) truncate(text string, used int) string {
	room := p.width - used
	if p.width == 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	if room < 2 {
		return ""
	}
	return string([]rune(text)[:room-1]) + "…"
}
