package mcpvisor

import "github.com/modelcontextprotocol/go-sdk/mcp"

// Tool is one tool of one server, as it is listed.
type Tool struct {
	// Name is the qualified name that Call takes: "fs/list_directory".
	Name string `json:"name"`
	// Server is the registration that offers the tool.
	Server string `json:"server"`
	// OriginalName is the server's own name for it; it may hold a "/".
	OriginalName string `json:"originalName"`
	// Alias is the name for model providers; see [Alias]. Call takes it too.
	Alias string `json:"alias"`
	// Definition is what the server declared. Its InputSchema and OutputSchema
	// are json.RawMessage, byte for byte as the server sent them. Shared between
	// all who list it: do not change it.
	Definition *mcp.Tool `json:"definition"`
}

// Resource is one resource of one server.
type Resource struct {
	Server string `json:"server"`
	// URI is what Read takes beside the server's name.
	URI string `json:"uri"`
	// Definition is what the server declared. Do not change it.
	Definition *mcp.Resource `json:"definition"`
}

// ResourceTemplate is one resource template of one server.
type ResourceTemplate struct {
	Server string `json:"server"`
	// URITemplate is an RFC 6570 template.
	URITemplate string `json:"uriTemplate"`
	// Definition is what the server declared. Do not change it.
	Definition *mcp.ResourceTemplate `json:"definition"`
}

// Prompt is one prompt of one server.
type Prompt struct {
	// Name is the qualified name.
	Name   string `json:"name"`
	Server string `json:"server"`
	// OriginalName is what Prompt takes beside the server's name.
	OriginalName string `json:"originalName"`
	// Definition is what the server declared. Do not change it.
	Definition *mcp.Prompt `json:"definition"`
}
