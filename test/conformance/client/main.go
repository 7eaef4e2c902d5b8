// Command client is the host that the official conformance suite tests. It uses only
// the public API. The suite appends the URL of the server to the command line and names
// the scenario in the environment.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

const server = "conformance"

// scenario is what the host does when its server is ready. A call may fail: the suite
// judges only the messages.
type scenario func(ctx context.Context, c *facade.Client) error

// scenarios are those that need more than connecting and listing.
var scenarios = map[string]scenario{
	"tools_call":                          calls(call{"add_numbers", map[string]any{"a": 5, "b": 3}}),
	"sse-retry":                           calls(call{"test_reconnection", map[string]any{}}),
	"elicitation-sep1034-client-defaults": calls(call{"test_client_elicitation_defaults", map[string]any{}}),
	"sep-2322-client-request-state": calls(call{"test_mrtr_echo_state", nil}, call{"test_mrtr_no_state", nil},
		call{"test_mrtr_unrelated", nil}, call{"test_mrtr_no_result_type", nil}),
	"json-schema-2020-12-preservation": echoSchema,
	"http-standard-headers":            oneOfEach,
	"http-custom-headers":              suppliedCalls,
	"http-invalid-tool-headers":        everyTool,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance client:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: client URL, with MCP_CONFORMANCE_SCENARIO in the environment")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := facade.New(facade.WithElicitationHandler(consent), facade.WithURLElicitationHandler(consent), facade.WithSamplingHandler(sample), facade.WithSamplingTools(),
		facade.WithRoots(mcp.Root{URI: "file:///", Name: "all"}))
	if err != nil {
		return err
	}
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	do, spec := scenarios[name], mcpvisor.ServerSpec{Name: server, HTTP: &mcpvisor.HTTP{URL: os.Args[1]}}
	if strings.HasPrefix(name, "auth/") {
		do = callTestTool
		if spec.HTTP.Auth, err = authorization(name); err != nil {
			return errors.Join(err, c.Close(ctx))
		}
	}
	err = c.Register(ctx, spec)
	if err == nil && do != nil {
		err = do(ctx, c)
	}
	return errors.Join(err, c.Close(ctx))
}

// sample returns the model's completion, always "hello".
func sample(context.Context, facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
	return &mcp.CreateMessageWithToolsResult{Model: "none", StopReason: "endTurn", Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
}

// consent accepts every form without changes, and every URL.
func consent(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept"}, nil
}

// call is one tool call.
type call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

func calls(list ...call) scenario {
	return func(ctx context.Context, c *facade.Client) error {
		var errs []error
		for _, one := range list {
			_, err := c.CallTool(ctx, server+"/"+one.Name, one.Arguments)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// suppliedCalls makes the calls that the suite lists in the environment.
func suppliedCalls(ctx context.Context, c *facade.Client) error {
	var supplied struct {
		ToolCalls []call `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &supplied); err != nil {
		return fmt.Errorf("MCP_CONFORMANCE_CONTEXT is not valid: %w", err)
	}
	return calls(supplied.ToolCalls...)(ctx, c)
}

// everyTool calls every listed tool.
func everyTool(ctx context.Context, c *facade.Client) error {
	var list []call
	for t := range c.AllTools() {
		list = append(list, call{t.OriginalName, map[string]any{"region": "us-west1"}})
	}
	return calls(list...)(ctx, c)
}

// echoSchema calls a tool with the schema of another tool as its argument.
func echoSchema(ctx context.Context, c *facade.Client) error {
	t, ok := c.Tool(server + "/json_schema_2020_12_tool")
	if !ok {
		return errors.New("the tool with the schema is not listed")
	}
	return calls(call{"json_schema_echo", map[string]any{"schema": t.Definition.InputSchema}})(ctx, c)
}

// oneOfEach uses the first tool, resource and prompt.
func oneOfEach(ctx context.Context, c *facade.Client) error {
	var errs []error
	if tools := c.Tools(); len(tools) > 0 {
		_, err := c.CallTool(ctx, tools[0].Name, nil)
		errs = append(errs, err)
	}
	if resources := c.Resources(); len(resources) > 0 {
		_, err := c.ReadResource(ctx, server, resources[0].URI)
		errs = append(errs, err)
	}
	if prompts := c.Prompts(); len(prompts) > 0 {
		_, err := c.GetPrompt(ctx, prompts[0].Name, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
