package mcpvisor

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is one tool of one server, as the client lists it.
type Tool struct {
	// Name is the qualified name, as in "fs/list_directory". CallTool takes it.
	Name string `json:"name"`
	// Server is the name of the server that offers the tool.
	Server string `json:"server"`
	// OriginalName is the server's own name for the tool, or ToolSetting.Name; it may contain "/".
	OriginalName string `json:"originalName"`
	// Alias is the name for language model providers, as in "mcp__fs__list_directory":
	// at most 64 characters of [a-zA-Z0-9_-]. CallTool takes it, too.
	Alias string `json:"alias"`
	// Unavailable: the server is down, and offered this last. Only a client with
	// facade.WithStickyTools lists such tools. A call fails with ErrUnavailable, or waits
	// with facade.WithWaitReady.
	Unavailable bool `json:"unavailable,omitempty"`
	// TaskSupport is the value of execution.taskSupport (MCP 2025-11-25, tasks):
	// "required", "optional", or empty for none.
	TaskSupport string `json:"taskSupport,omitempty"`
	// Definition is the entry as the server declared it, or as ServerSpec.ToolSettings change it. Its InputSchema and OutputSchema are
	// json.RawMessage, byte for byte as the server sent them. It is shared by all
	// listings: do not change it.
	Definition *mcp.Tool `json:"definition"`
	// Raw is the entry as the server sent it, byte for byte, with all members, unless ServerSpec.ToolSettings change it. Names and texts in it are
	// not shortened. Where a schema has an empty list in place of an object, as PHP writes it, it has {} here and in
	// Definition. Do not change it.
	Raw json.RawMessage `json:"-"`
}

// bytesPerToken is about how many bytes of English text and JSON make one token of a
// language model.
const bytesPerToken = 4

// TokenEstimate estimates how many tokens the tool costs a language model that is given it: the
// bytes of its alias, description and input schema, divided by 4. Models count differently, so
// use it for comparisons, not for billing.
func (t Tool) TokenEstimate() int {
	n := len(t.Alias)
	if t.Definition != nil {
		n += len(t.Definition.Description)
		switch schema := t.Definition.InputSchema.(type) {
		case nil:
		case json.RawMessage:
			n += len(schema)
		default: // not from a listing of this client
			text, _ := json.Marshal(schema)
			n += len(text)
		}
	}
	return (n + bytesPerToken - 1) / bytesPerToken
}

// Resource is one resource of one server, as the client lists it.
type Resource struct {
	// Server is the name of the server that offers the resource.
	Server string `json:"server"`
	// URI identifies the resource at its server. ReadResource takes both.
	URI string `json:"uri"`
	// Definition is the entry as the server declared it. It is shared: do not change it.
	Definition *mcp.Resource `json:"definition"`
	// Raw is the entry as the server sent it, byte for byte, with all members. Names and texts in it are
	// not shortened. Do not change it.
	Raw json.RawMessage `json:"-"`
}

// ResourceTemplate is one resource template of one server, as the client lists it.
type ResourceTemplate struct {
	// Server is the name of the server that offers the template.
	Server string `json:"server"`
	// URITemplate is an RFC 6570 template. ReadResource takes URIs that it expands to.
	URITemplate string `json:"uriTemplate"`
	// Definition is the entry as the server declared it. It is shared: do not change it.
	Definition *mcp.ResourceTemplate `json:"definition"`
	// Raw is the entry as the server sent it, byte for byte, with all members. Names and texts in it are
	// not shortened. Do not change it.
	Raw json.RawMessage `json:"-"`
}

// Prompt is one prompt of one server, as the client lists it.
type Prompt struct {
	// Name is the qualified name, as in "fs/summarize". GetPrompt takes it.
	Name string `json:"name"`
	// Server is the name of the server that offers the prompt.
	Server string `json:"server"`
	// OriginalName is the server's own name for the prompt.
	OriginalName string `json:"originalName"`
	// Definition is the entry as the server declared it. It is shared: do not change it.
	Definition *mcp.Prompt `json:"definition"`
	// Raw is the entry as the server sent it, byte for byte, with all members. Names and texts in it are
	// not shortened. Do not change it.
	Raw json.RawMessage `json:"-"`
}
