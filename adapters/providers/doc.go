// Package providers holds tests with the Go SDKs of the model providers, and no code. It is a
// module of its own, so that the SDKs stay out of mcpvisor.
//
// The maps of package schema are what each SDK calls a tool: each function of the recorded
// catalogs becomes the SDK's own type, and back, without a loss.
//
// The helpers for MCP of Anthropic's SDK (github.com/anthropics/anthropic-sdk-go/mcp) take a
// session of the go-sdk, so they need no adapter:
//
//	host := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
//	session, err := host.Connect(ctx, gateway.Transport(client), nil)
//	listed, err := session.ListTools(ctx, nil)
//	tools, err := anthropicmcp.NewBetaTools(listed.Tools, session)
//	runner := model.Beta.Messages.NewToolRunner(tools, params)
//
// The session survives every crash of a server, so the tools need not be made again. A call
// that failed is an error of its tool, whose text says what happened: the model gets it as a
// tool result with is_error, and the runner continues.
package providers
