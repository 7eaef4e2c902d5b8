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

// printer prints one fact at a time, with the verb in a fixed column. It is safe for
// concurrent use.
type printer struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	color bool
	width int // of the lines; 0 if they are not wrapped
	// nameWidth is the width of the column of servers.
	nameWidth int
}

// maxNameWidth is the widest column of servers.
const maxNameWidth = 20

func newPrinter(out io.Writer) *printer { return &printer{out: out, start: time.Now(), nameWidth: 6} }

// printFact prints the time, what happened, to which server, and details.
func (p *printer) printFact(color, verb, server, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := fmt.Sprintf("%5.1fs", time.Since(p.start).Seconds())
	head := fmt.Sprintf("%s  %-6s %-*s ", at, verb, p.nameWidth, server)
	indent := utf8.RuneCountInString(head)
	if p.color {
		head = fmt.Sprintf("\x1b[%sm%s\x1b[0m  %s %-*s ", dim, at, p.colorize(color, fmt.Sprintf("%-6s", verb)), p.nameWidth, server)
	}
	p.print(plainText, head, indent, fmt.Sprintf(format, args...))
}

// printLine prints a line without time.
func (p *printer) printLine(color, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	indent := 0
	if word, rest, found := strings.Cut(text, "  "); found && !strings.Contains(word, " ") { // as in "PASS  …"
		indent = utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(rest, " "))
	}
	p.print(color, "", indent, text)
}

// printRow prints a row of a table: its columns, and a last one that is continued below if it
// does not fit beside them. The columns are cut where they would wrap.
func (p *printer) printRow(color, columns, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := p.width - utf8.RuneCountInString(columns)
	if p.width == 0 || utf8.RuneCountInString(last) <= room {
		fmt.Fprintln(p.out, p.colorize(color, strings.TrimRight(columns+last, " ")))
		return
	}
	row := []rune(strings.TrimRight(columns, " "))
	if len(row) > p.width {
		row = append(row[:p.width-1], '…')
	}
	if room >= minRoom { // beside the columns
		p.print(color, p.colorize(color, columns), utf8.RuneCountInString(columns), last)
		return
	}
	fmt.Fprintln(p.out, p.colorize(color, string(row)))
	p.print(color, "    ", 4, last)
}

// print prints a text behind a head, in as many lines as it needs. Lines after the first
// are indented. p.mu is held.
func (p *printer) print(color, head string, indent int, text string) {
	room := max(p.width-indent, minRoom)
	if head == "" {
		room = max(p.width, minRoom)
	}
	if p.width == 0 {
		room = utf8.RuneCountInString(text)
	}
	first, rest := splitLine(text, room)
	fmt.Fprintln(p.out, strings.TrimRight(head+p.colorize(color, first), " "))
	for rest != "" {
		first, rest = splitLine(rest, max(p.width-indent, minRoom))
		fmt.Fprintln(p.out, strings.Repeat(" ", indent)+p.colorize(color, first))
	}
}

// minRoom is how wide a text is at least, in the narrowest terminal.
const minRoom = 20

// splitLine splits a text that is too long for a line: behind a "·", else at a space, else
// where the line ends.
func splitLine(text string, room int) (line, rest string) {
	runes := []rune(text)
	if len(runes) <= room {
		return text, ""
	}
	fits := string(runes[:room+1])
	for _, separator := range []string{" · ", " "} {
		if at := strings.LastIndex(fits, separator); at > 0 {
			end := at + len(strings.TrimRight(separator, " "))
			if utf8.RuneCountInString(text[:end]) <= room {
				return text[:end], strings.TrimLeft(text[end:], " ")
			}
		}
	}
	return string(runes[:room]), string(runes[room:])
}

func (p *printer) colorize(color, text string) string {
	if !p.color || color == plainText || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
