package schema_test

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/schema"
)

// The tools of a client become the functions of a request. Each change that the provider
// makes necessary is noted.
func ExampleList() {
	tools := []mcpvisor.Tool{{ // client.Tools()
		Name: "notes/find", Server: "notes", OriginalName: "find", Alias: "mcp__notes__find",
		Definition: &mcp.Tool{Name: "find", Description: "Finds notes", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"tags":{"type":"array"}},"anyOf":[{"required":["tags"]}]}`)},
	}}
	functions, notes := schema.List(tools, schema.OpenAI)
	text, _ := json.Marshal(functions)
	fmt.Println(string(text))
	for _, n := range notes {
		fmt.Println(n)
	}
	// Output:
	// [{"function":{"description":"Finds notes","name":"mcp__notes__find","parameters":{"properties":{"tags":{"items":{},"type":"array"}},"required":["tags"],"type":"object"}},"type":"function"}]
	// notes/find: anyOf at the top level was combined into one object: which properties go together is left to the server
	// notes/find /properties/tags: items were added to an array without them
}

func ExampleText() {
	result := &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "The page:"},
		&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 2048)},
	}}
	fmt.Println(schema.Text(result))
	// Output:
	// The page:
	// [image, image/png, 2048 bytes]
}
