package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// decodeContents decodes each block by itself. A block of a kind that the go-sdk
// does not know becomes nil.
func decodeContents(blocks []json.RawMessage) []mcp.Content {
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

// contentPrinter prints answers, one below the other. Not safe for concurrent use.
type contentPrinter struct {
	out   io.Writer
	safe  bool
	begun bool // something was printed, and has no line end yet
}

// newContentPrinter returns a printer. A safe one, for terminals, removes the characters that
// would change what the terminal shows, and ends each text with a line break. Another one
// writes texts as the server sent them; a line break is only between two of them.
func newContentPrinter(out io.Writer, safe bool) *contentPrinter {
	return &contentPrinter{out: out, safe: safe}
}

// print prints texts, and describes other content.
func (p *contentPrinter) print(list []mcp.Content) error {
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

// printResource prints one content of a resource.
func (p *contentPrinter) printResource(r *mcp.ResourceContents) error { return p.text(resourceText(r)) }

func (p *contentPrinter) text(text string) error {
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

// contents returns the printer of answers. stdout that is no terminal gets texts unchanged.
func (inv *invocation) contents() *contentPrinter {
	file, isFile := inv.Out.(*os.File)
	return newContentPrinter(inv.Out, isFile && term.IsTerminal(int(file.Fd())))
}
