// Package contents prints what servers answer: the results of tools, resources and prompts.
package contents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Result is the result of a tool. The go-sdk's type would reject the whole result for one block of
// an unknown kind, and would change numbers.
type Result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
}

// Print prints the content, or the structured content if there is no other.
func (r *Result) Print(p *Printer) error {
	if len(r.Content) > 0 {
		return p.Print(Decode(r.Content))
	}
	if len(r.Structured) == 0 || string(r.Structured) == "null" {
		return nil
	}
	var text bytes.Buffer
	if err := json.Indent(&text, r.Structured, "", "  "); err != nil {
		return err
	}
	return p.text(plaintext.JSON(text.String()) + "\n")
}

// AsksUser reports whether the error of a tool is about elicitation. A server of 2025-11-25
// learns that the client asks nothing before or during the call, and says so in its own words.
func (r *Result) AsksUser() bool {
	return r.IsError && slices.ContainsFunc(r.Content, func(block json.RawMessage) bool {
		return bytes.Contains(bytes.ToLower(block), []byte("elicit"))
	})
}

// Progress says in one line how far a call has come.
func Progress(report mcpvisor.Progress) string {
	text := fmt.Sprintf("%g", report.Progress)
	if report.Total > 0 {
		text = fmt.Sprintf("%3.0f%%  %g of %g", 100*min(max(report.Progress/report.Total, 0), 1), report.Progress, report.Total)
	}
	return display.Line(strings.TrimSpace(text + "  " + report.Message))
}

// Decode decodes each block by itself. A block of a kind that the go-sdk
// does not know becomes nil.
func Decode(blocks []json.RawMessage) []mcp.Content {
	list := make([]mcp.Content, len(blocks))
	for i, block := range blocks {
		var one mcp.CallToolResult
		whole := append(append([]byte(`{"content":[`), block...), "]}"...)
		if json.Unmarshal(whole, &one) == nil && len(one.Content) == 1 {
			list[i] = one.Content[0]
		}
	}
	return list
}

// Printer prints answers, one below the other. Not safe for concurrent use.
type Printer struct {
	out   io.Writer
	safe  bool
	begun bool // something was printed, and has no line end yet
}

// NewPrinter returns a printer. A safe one, for terminals, removes the characters that
// would change what the terminal shows, and ends each text with a line break. Another one
// writes texts as the server sent them; a line break is only between two of them.
func NewPrinter(out io.Writer, safe bool) *Printer {
	return &Printer{out: out, safe: safe}
}

// Print prints texts, and describes other content.
func (p *Printer) Print(list []mcp.Content) error {
	for _, one := range list {
		var text string
		switch c := one.(type) {
		case *mcp.TextContent:
			text = c.Text
		case *mcp.ImageContent:
			text = fmt.Sprintf("[image %s, %s; --json shows it]", c.MIMEType, display.Count(len(c.Data), "byte"))
		case *mcp.AudioContent:
			text = fmt.Sprintf("[audio %s, %s; --json shows it]", c.MIMEType, display.Count(len(c.Data), "byte"))
		case *mcp.ResourceLink:
			text = fmt.Sprintf("[resource %s %s]", c.URI, c.Name)
		case *mcp.EmbeddedResource:
			text = resourceText(c.Resource)
		default:
			text = "[content of an unknown kind; --json shows it]"
		}
		if err := p.text(text); err != nil {
			return err
		}
	}
	return nil
}

func (p *Printer) PrintResource(r *mcp.ResourceContents) error { return p.text(resourceText(r)) }

func (p *Printer) text(text string) error {
	if p.safe {
		_, err := fmt.Fprintln(p.out, strings.TrimSuffix(display.Text(text), "\n"))
		return err
	}
	if p.begun {
		text = "\n" + text
	}
	p.begun = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(p.out, text)
	return err
}

func resourceText(r *mcp.ResourceContents) string {
	switch {
	case r == nil:
		return "[empty resource]"
	case r.Blob != nil:
		return fmt.Sprintf("[%s %s, %s; --json shows it]", r.URI, r.MIMEType, display.Count(len(r.Blob), "byte"))
	}
	return r.Text
}
