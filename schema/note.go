package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Note says what was changed in a tool's description, so that a provider accepts it.
type Note struct {
	// Tool is the qualified name of the tool, as in "fs/list_directory".
	Tool string
	// Path is where the change is, as a JSON pointer into the input schema with its
	// references replaced; "" is the schema as a whole, or the tool's description.
	Path string
	// Count is how many places have the same change. Path is the first one.
	Count int
	// Text says what was changed and why.
	Text string
}

// String is the note in one line.
func (n Note) String() string {
	s := n.Tool
	if n.Path != "" {
		s += " " + n.Path
	}
	s += ": " + n.Text
	if n.Count > 1 {
		s += " (" + strconv.Itoa(n.Count) + " places)"
	}
	return s
}

// maxNotes bounds the notes about one tool. The rest is counted by one more.
const maxNotes = 50

// notes collects the notes about one tool, in the order of their first places.
type notes struct {
	tool  string
	list  []Note
	index map[string]int // text → position in list
	more  int
}

// add notes a change at a path. What it quotes of the server is shown as in a log.
func (n *notes) add(at path, format string, args ...any) {
	text := display.Line(fmt.Sprintf(format, args...))
	if i, known := n.index[text]; known {
		n.list[i].Count++
		return
	}
	if len(n.list) >= maxNotes {
		n.more++
		return
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[text] = len(n.list)
	n.list = append(n.list, Note{Tool: n.tool, Path: display.Line(at.String()), Count: 1, Text: text})
}

// all returns the notes.
func (n *notes) all() []Note {
	if n.more > 0 {
		return append(n.list, Note{Tool: n.tool, Count: n.more, Text: "further changes are not listed"})
	}
	return n.list
}

// path is a place in a schema: a list of steps, the innermost first. nil is the root.
type path = *step

type step struct {
	parent *step
	name   string
	depth  int
}

// to returns the path of a member.
func (p *step) to(name string) path { return &step{parent: p, name: name, depth: p.level() + 1} }

// at returns the path of an element of a list.
func (p *step) at(name string, i int) path { return p.to(name).to(strconv.Itoa(i)) }

func (p *step) level() int {
	if p == nil {
		return 0
	}
	return p.depth
}

// maxPathBytes bounds the text of a path: servers choose the names in it.
const maxPathBytes = 300

var escapeStep = strings.NewReplacer("~", "~0", "/", "~1")

// String is the path as a JSON pointer. The middle of a long one is left out.
func (p *step) String() string {
	var steps []string
	for ; p != nil; p = p.parent {
		steps = append(steps, escapeStep.Replace(p.name))
	}
	var b strings.Builder
	for i := len(steps) - 1; i >= 0; i-- {
		b.WriteString("/" + steps[i])
	}
	if s := b.String(); len(s) > maxPathBytes {
		return strings.ToValidUTF8(s[:maxPathBytes/2], "") + "…" + strings.ToValidUTF8(s[len(s)-maxPathBytes/2:], "")
	}
	return b.String()
}
