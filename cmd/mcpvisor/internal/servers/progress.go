package servers

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/contents"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
)

// ProgressLine is the last line of a terminal, which shows the progress of a call. nil shows
// nothing. Safe for concurrent use.
type ProgressLine struct {
	out   io.Writer
	width int

	mu     sync.Mutex
	shown  bool
	paused bool // a form is shown
}

// ProgressLine returns a line if stderr is a terminal.
func (o *Opener) progressLine() *ProgressLine {
	file, ok := o.Err.(*os.File)
	if !ok || o.JSON || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	return &ProgressLine{out: file, width: width}
}

// Show replaces what the line shows.
func (p *ProgressLine) Show(report mcpvisor.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return
	}
	text := table.OneLine(contents.Progress(report), p.width-1)
	_, _ = fmt.Fprint(p.out, "\r\x1b[K", text)
	p.shown = true
}

// Clear removes the line.
func (p *ProgressLine) Clear() { p.pause(false) }

// pause removes the line, and shows it no more until pause(false).
func (p *ProgressLine) pause(paused bool) {
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
