package commandline

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// ManualPage is what the model of kong does not know.
type ManualPage struct {
	Model   *kong.Application
	Summary string    // what the program does, in a few words
	Date    time.Time // when the program was changed
	// Sections come after the commands, in this order.
	Sections []Section
}

// Section is a section with a list of terms.
type Section struct {
	Title string
	// Intro is its first text; may be empty.
	Intro string
	Items [][2]string // term and text
}

// Write writes the page.
func (p ManualPage) Write(w io.Writer) error {
	b := new(builder)
	name := p.Model.Name
	b.macro("Dd", p.Date.Format("January 2, 2006"))
	b.macro("Dt", strings.ToUpper(name), "1")
	b.macro("Os")
	b.section("NAME")
	b.macro("Nm", name)
	b.macro("Nd", p.Summary)
	b.section("SYNOPSIS")
	b.macro("Nm", name)
	b.macro("Op", "Ar", "option", "...")
	b.macro("Ar", "command")
	b.macro("Op", "Ar", "argument", "...")
	b.section("DESCRIPTION")
	b.text(p.Model.Help)
	b.section("OPTIONS")
	b.text("Options come before or after the command.")
	b.flags(p.Model.Flags)
	b.section("COMMANDS")
	for _, command := range p.Model.Children {
		if !command.Hidden {
			b.command(name, command)
		}
	}
	for _, s := range p.Sections {
		b.section(s.Title)
		b.text(s.Intro)
		b.open("tag", "Ds")
		for _, item := range s.Items {
			b.line(".It " + macroText(item[0]))
			b.text(item[1])
		}
		b.line(".El")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// builder collects the lines of a page.
type builder struct{ strings.Builder }

func (b *builder) line(text string) { fmt.Fprintln(b, text) }

// macro writes a macro with arguments, which are escaped.
func (b *builder) macro(name string, args ...string) {
	text := "." + name
	for _, arg := range args {
		text += " " + escape(arg)
	}
	b.line(text)
}

func (b *builder) section(title string) { b.macro("Sh", title) }

func (b *builder) open(kind, width string) { b.line(".Bl -" + kind + " -width " + width) }

// text writes paragraphs, which an empty line separates. Each sentence begins on a line of
// its own, as mdoc wants it.
func (b *builder) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if paragraph == "" {
			continue
		}
		if i > 0 {
			b.line(".Pp")
		}
		for _, sentence := range sentences(paragraph) {
			for _, line := range wrap(sentence) {
				b.line(escapeLine(line))
			}
		}
	}
}

// lineLength is the longest line of text, before it is escaped.
const lineLength = 72

// wrap breaks a sentence into lines.
func wrap(sentence string) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(sentence) {
		if line != "" && len(line)+1+len(word) > lineLength {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// sentences returns the sentences of a paragraph.
func sentences(paragraph string) (all []string) {
	text := strings.Join(strings.Fields(paragraph), " ")
	for text != "" {
		end := strings.Index(text, ". ")
		if end < 0 {
			return append(all, text)
		}
		all = append(all, text[:end+1])
		text = text[end+2:]
	}
	return all
}

func (b *builder) flags(flags []*kong.Flag) {
	b.open("tag", "Ds")
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		term := ".It Fl " + escape("-"+flag.Name)
		if flag.Short != 0 {
			term = ".It Fl " + string(flag.Short) + " , Fl " + escape("-"+flag.Name)
		}
		if !flag.IsBool() && !flag.IsCounter() {
			term += " Ar " + macroText(flag.FormatPlaceHolder())
		}
		b.line(term)
		b.text(flag.Help)
	}
	b.line(".El")
}

// command writes one command with its arguments and flags, and then the commands below it.
func (b *builder) command(program string, command *kong.Node) {
	b.macro("Ss", program+" "+command.Name)
	synopsis := ".Ic " + escape(program+" "+command.Name)
	for _, arg := range command.Positional {
		more := ""
		if arg.IsCumulative() {
			more = " ..."
		}
		if arg.Required {
			synopsis += " Ar " + escape(arg.Name) + more
		} else {
			synopsis += " Op Ar " + escape(arg.Name) + more
		}
	}
	b.line(synopsis)
	b.line(".Pp")
	b.text(command.Help)
	visible := 0
	for _, flag := range command.Flags {
		if !flag.Hidden {
			visible++
		}
	}
	if len(command.Positional) > 0 {
		b.open("tag", "Ds")
		for _, arg := range command.Positional {
			b.line(".It Ar " + escape(arg.Name))
			b.text(arg.Help)
		}
		b.line(".El")
	}
	if visible > 0 {
		b.flags(command.Flags)
	}
	for _, below := range command.Children {
		if !below.Hidden {
			b.command(program+" "+command.Name, below)
		}
	}
}

// macroText escapes a text that follows a macro in its line.
func macroText(text string) string {
	return `"` + strings.ReplaceAll(escape(text), `"`, `""`) + `"`
}

// escape returns text for roff.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "–", `\(en`).Replace(text)
}

// escapeLine is escape for a line of text, which must not look like a macro.
func escapeLine(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "--", `\-\-`, "…", "...", "–", `\(en`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
