package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
)

// progressLine is the last line of a terminal, which shows the progress of a call. nil shows
// nothing. Safe for concurrent use.
type progressLine struct {
	out   io.Writer
	width int

	mu     sync.Mutex
	shown  bool
	paused bool // a form is shown
}

// progressLine returns a line if stderr is a terminal.
func (inv *invocation) progressLine() *progressLine {
	file, ok := inv.Err.(*os.File)
	if !ok || inv.JSON || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	return &progressLine{out: file, width: width}
}

// show replaces what the line shows.
func (p *progressLine) show(report mcpvisor.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return
	}
	text := fmt.Sprintf("%g", report.Progress)
	if report.Total > 0 {
		text = fmt.Sprintf("%3.0f%%  %g of %g", 100*min(max(report.Progress/report.Total, 0), 1), report.Progress, report.Total)
	}
	text = table.OneLine(strings.TrimSpace(text+"  "+report.Message), p.width-1)
	_, _ = fmt.Fprint(p.out, "\r\x1b[K", text)
	p.shown = true
}

// clear removes the line.
func (p *progressLine) clear() { p.pause(false) }

// pause removes the line, and shows it no more until pause(false).
func (p *progressLine) pause(paused bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.shown, p.paused = false, paused
}
