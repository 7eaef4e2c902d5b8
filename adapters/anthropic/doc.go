// Package anthropic holds a test of package door with the helpers for MCP of Anthropic's SDK
// (github.com/anthropics/anthropic-sdk-go/mcp). They take a session of the go-sdk, so nothing
// is needed between:
//
//	host := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
//	session, err := host.Connect(ctx, door.Transport(client), nil)
//	listed, err := session.ListTools(ctx, nil)
//	tools, err := anthropicmcp.NewBetaTools(listed.Tools, session)
//	runner := model.Beta.Messages.NewToolRunner(tools, params)
//
// The session survives every crash of a server, so the tools do not have to be made again. A
// call that failed is an error of its tool, whose text says what happened: the model gets it
// as a tool result with is_error, and the runner goes on.
package anthropic
