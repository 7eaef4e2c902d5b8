package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
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
}

const (
	nameWidth = 6  // of the column of servers
	minRoom   = 14 // how wide a text is at least, in the narrowest terminal
)

func newPrinter(out io.Writer) *printer { return &printer{out: out, start: time.Now()} }

// printFact prints the time, what happened, to which server, and details.
func (p *printer) printFact(color, verb, server, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, verb := fmt.Sprintf("%5.1fs", time.Since(p.start).Seconds()), fmt.Sprintf("%-6s", verb)
	server = fmt.Sprintf(" %-*s ", nameWidth, server)
	p.print(at+"  "+verb+server, p.colorize(dim, at)+"  "+p.colorize(color, verb)+server, plainText, fmt.Sprintf(format, args...))
}

// printLine prints a line without time. Its first word is a head if two spaces follow it, as in
// "PASS  …".
func (p *printer) printLine(color, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	head, text := "", fmt.Sprintf(format, args...)
	if word, rest, found := strings.Cut(text, "  "); found && word != "" && !strings.Contains(word, " ") {
		text = strings.TrimLeft(rest, " ")
		head = word + strings.Repeat(" ", 2+len(rest)-len(text))
	}
	p.print(head, p.colorize(color, head), color, text)
}

// printTable prints the status of the servers. The last column, the policy, is continued in the next line
// if it does not fit.
func (p *printer) printTable(all []mcpvisor.ServerStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row := func(color, last string, columns ...any) {
		head := fmt.Sprintf("%s %-*s %-8v %-8v %-5v %-10v %-7v ", append([]any{columns[0], nameWidth}, columns[1:]...)...)
		p.print(head, p.colorize(color, head), color, last)
	}
	fmt.Fprintln(p.out)
	row(dim, "POLICY", " ", "NAME", "STATE", "RESTARTS", "TOOLS", "PROTOCOL", "PID")
	for _, s := range all {
		protocol, pid := "–", "–"
		if s.Session != nil {
			protocol = s.Session.ProtocolVersion
			if s.Session.PID != 0 {
				pid = fmt.Sprint(s.Session.PID)
			}
		}
		glyph, color := "○", yellow
		switch s.State {
		case supervisor.StateReady:
			glyph, color = "●", green
		case supervisor.StateEvicted:
			glyph, color = "✗", red
		default:
		}
		row(color, s.Policy, glyph, s.Name, s.State, s.Restarts, s.Catalog.Tools, protocol, pid)
	}
}

// print prints a text beside its head, in as many lines as it needs. styled is the head with colours. p.mu is held.
func (p *printer) print(head, styled, color, text string) {
	indent, room := utf8.RuneCountInString(head), utf8.RuneCountInString(text)
	if p.width > 0 {
		room = max(p.width-indent, minRoom)
	}
	for {
		line, rest := splitLine(text, room)
		fmt.Fprintln(p.out, strings.TrimRight(styled+p.colorize(color, line), " "))
		if rest == "" {
			return
		}
		styled, text = strings.Repeat(" ", indent), rest
	}
}

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

func roundedDuration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}
