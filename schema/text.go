package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Text puts the result of a tool call into words for a language model. Texts are
// separated by a line break. Of an image, a sound or a binary resource it says what it is
// and how large; to show it to the model, pass it on in the provider's own form. A result
// without content is its structured content as JSON. A result with nothing says so,
// because providers reject empty texts.
//
// Text says nothing about IsError: pass that on in the provider's own field, as Anthropic's
// is_error, or put a word before the text.
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
	if b.Len() > 0 {
		return b.String()
	}
	if result.StructuredContent != nil {
		if text, err := json.Marshal(result.StructuredContent); err == nil {
			return string(text)
		}
	}
	return noContent
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
