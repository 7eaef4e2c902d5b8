package facade_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// A server that speaks HTTP+SSE, the deprecated transport of 2024-11-05, needs only its
// URL. HTTP.SSE would save the attempt at Streamable HTTP.
func ExampleHTTP_sse() {
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()

	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(ctx) }()
	err = c.Register(ctx, mcpvisor.ServerSpec{Name: "old", HTTP: &mcpvisor.HTTP{URL: web.URL + "/sse"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.CallTool(ctx, "old/echo", map[string]any{"text": "still here"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	status, _ := c.ServerStatus("old")
	fmt.Println(status.Session.Deprecated != "")
	// Output:
	// still here
	// true
}
