// Package contents prints what servers answer: blocks of text, images, audio and resources.
// Texts of servers cannot change the terminal.
package contents

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

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

// Print prints text as it is, and describes other content.
func Print(out io.Writer, list []mcp.Content) error {
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
		if err := printText(out, text); err != nil {
			return err
		}
	}
	return nil
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

// PrintResource prints one content of a resource.
func PrintResource(out io.Writer, r *mcp.ResourceContents) error {
	return printText(out, resourceText(r))
}

func printText(out io.Writer, text string) error {
	_, err := fmt.Fprintln(out, strings.TrimSuffix(display.Text(text), "\n"))
	return err
}
