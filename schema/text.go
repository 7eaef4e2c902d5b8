package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Text turns the result of a tool call into text for a language model. Texts are separated by a
// line break. Of an image, a sound or a binary resource it says what it is and how large; to show
// it to the model, pass it on in the provider's own form. A result without content is its
// structured content as JSON. A result with nothing says so, because providers reject empty
// texts.
//
// Characters that a model reads and people do not see are removed (control characters, tags,
// marks of the text direction, zero-width characters where no script needs them). A last line
// says so. The result itself is not changed.
//
// Text says nothing about IsError: pass that on in the provider's own field, as Anthropic's
// is_error, or take [TextWithError].
func Text(result *mcp.CallToolResult) string {
	if result == nil {
		return noContent
	}
	var b strings.Builder
	for _, c := range result.Content {
		text := contentText(c)
		if text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	if b.Len() == 0 && result.StructuredContent != nil {
		if text, err := json.Marshal(result.StructuredContent); err == nil {
			b.Write(text)
		}
	}
	if b.Len() == 0 {
		return noContent
	}
	text, removed := display.ForModel(b.String())
	if removed == "" {
		return text
	}
	return strings.TrimSuffix(text, "\n") + "\n[removed from this text: " + removed + ", " + hiddenNote + "]"
}

// TextWithError is [Text] for a provider or a framework without a field for IsError: the
// text of a failed call begins with "Error: ".
func TextWithError(result *mcp.CallToolResult) string {
	text := Text(result)
	if result != nil && result.IsError {
		return "Error: " + text
	}
	return text
}

const noContent = "(no content)"

func contentText(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return binary("image", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return binary("audio", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return "[resource " + strings.TrimSpace(c.Name+" "+c.URI) + "]"
	case *mcp.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return ""
		case r.Blob != nil:
			return binary("resource "+r.URI, r.MIMEType, len(r.Blob))
		default:
			return r.Text
		}
	case nil:
		return ""
	}
	return fmt.Sprintf("[content of the unknown type %T]", c)
}

// binary describes content that cannot be shown as text.
func binary(what, mimeType string, size int) string {
	if mimeType != "" {
		what += ", " + mimeType
	}
	return fmt.Sprintf("[%s, %d bytes]", what, size)
}
