package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The colours say nothing that a glyph or a word does not say as well.
const (
	plainText = ""
	dim       = "2"
	bold      = "1"
	red       = "31"
	green     = "32"
	yellow    = "33"
	cyan      = "36"
)

// printer prints lines: one fact each, the verb in a fixed column. Safe for
// concurrent use.
type printer struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	color bool
	width int // 0: not a terminal, nothing is cut
}

func newPrinter(out io.Writer) *printer { return &printer{out: out, start: time.Now()} }

// printFact prints when something happened, what, to whom, and the particulars.
func (p *printer) printFact(color, verb, who, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	head := fmt.Sprintf("%5.1fs  %-6s %-7s", time.Since(p.start).Seconds(), verb, who)
	what = p.truncate(what, utf8.RuneCountInString(head)+1)
	if p.color {
		head = fmt.Sprintf("\x1b[%sm%5.1fs\x1b[0m  %s %-7s", dim, time.Since(p.start).Seconds(), p.colorize(color, fmt.Sprintf("%-6s", verb)), who)
	}
	fmt.Fprintf(p.out, "%s %s\n", head, what)
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

// truncate keeps a line from wrapping.
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
