// Package table prints rows with aligned columns, in colours if the output is a terminal that
// has some, and tools with their parameters.
package table

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// maxCellLength is the longest cell, in characters. In the last column of what no terminal shows it is [MaxText].
const maxCellLength = 100

// MaxText is the longest text of a line that is no table, in characters, for [OneLine].
const MaxText = 400

const gap = "  "

// Color is the colour of a cell, from the palette of the terminal.
type Color string

// These are the colours: trouble is loud, the rest is calm.
const (
	Plain   Color = ""
	Good    Color = "32"   // green
	Busy    Color = "36"   // cyan
	Warning Color = "1;33" // yellow
	Failure Color = "1;31" // red
	Quiet   Color = "2"    // faint
)

// Cell is a value with a colour. Any other value is a plain cell.
type Cell struct {
	Value any
	Color Color
}

// Colored reports whether an output is a terminal that shows colours, and the user has not
// set NO_COLOR.
func Colored(out io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(out)
}

// IsTerminal reports whether a user reads an output as it comes.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Write prints a header and rows. Each row has as many cells as the header.
func Write(out io.Writer, colored bool, header []string, rows [][]any) error {
	texts := make([][]string, 0, len(rows)+1)
	texts = append(texts, header)
	widths := make([]int, len(header))
	for _, row := range rows {
		line := make([]string, len(header))
		for i := range header {
			most := maxCellLength
			if i == len(header)-1 && !IsTerminal(out) {
				most = MaxText
			}
			line[i] = OneLine(fmt.Sprint(cellOf(row[i]).Value), most)
		}
		texts = append(texts, line)
	}
	for _, line := range texts {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for n, line := range texts {
		pad := ""
		for i, text := range line {
			if text == "" && i == len(line)-1 {
				break // the line does not end with spaces
			}
			b.WriteString(pad)
			pad = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)) + gap
			if n > 0 && colored {
				text = Paint(text, cellOf(rows[n-1][i]).Color)
			}
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func cellOf(value any) Cell {
	if c, ok := value.(Cell); ok {
		return c
	}
	return Cell{Value: value}
}

// Paint returns a text in a colour.
func Paint(text string, c Color) string {
	if c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// OneLine returns text on one line, cut to a length in characters.
func OneLine(s string, most int) string {
	s = strings.Join(strings.Fields(display.Line(s)), " ")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:most-1])) + "…"
}
