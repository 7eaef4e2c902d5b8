package mcptest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// supportedOverHTTP reports whether the server of the go-sdk can inject the fault.
func supportedOverHTTP(f Fault) bool {
	return slices.Contains([]Action{ActionHang, ActionError, ActionDelay, ActionExit, ActionDie}, f.Do) && slices.Contains(beforeAnswer, f.At)
}

// newSDKServer returns a server of the go-sdk that offers what the script offers.
func (l *httpIncarnation) newSDKServer() *mcp.Server {
	s := l.script
	options := &mcp.ServerOptions{
		Instructions: s.Instructions, PageSize: s.PageSize,
		SupportedProtocolVersions: s.Versions,
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}
	if s.NoResources {
		options.SubscribeHandler, options.UnsubscribeHandler = nil, nil
	}
	server := mcp.NewServer(&mcp.Implementation{Name: s.Name, Version: s.Version}, options)
	if !s.NoTools {
		for _, t := range s.Tools {
			if !behaviourOf(t).NeedsStreams {
				l.addTool(server, t)
			}
		}
	}
	if !s.NoResources {
		addResources(server, s, l.catalog)
	}
	if !s.NoPrompts {
		addPrompts(server, s)
	}
	server.AddReceivingMiddleware(l.injectFaults)
	return server
}

// addTool adds a tool with its schema unchanged.
func (l *httpIncarnation) addTool(server *mcp.Server, t ToolDef) {
	def := new(mcp.Tool)
	if err := json.Unmarshal(t.definition(), def); err != nil {
		panic("mcptest: tool " + t.Name + ": " + err.Error() + "; correct its JSON")
	}
	server.AddTool(def, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, cancel := l.contextWithin(ctx)
		defer cancel()
		meta, err := json.Marshal(r.Params.Meta)
		if err != nil {
			return nil, err
		}
		responses, err := json.Marshal(r.Params.InputResponses)
		if err != nil {
			return nil, err
		}
		return behaviourOf(t).Run(&tools.Call{Context: ctx, Tool: t.Name, Arguments: r.Params.Arguments, Meta: meta,
			Server: httpTools{l, r.Session}, InputResponses: responses, RequestState: r.Params.RequestState}).SDK(ctx)
	})
}

// contextWithin returns a context that also ends with the incarnation.
func (l *httpIncarnation) contextWithin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func addResources(server *mcp.Server, s Script, c *catalog) {
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		res, ok := c.lookUp(r.Params.URI)
		if !ok {
			return nil, mcp.ResourceNotFoundError(r.Params.URI)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: res.URI, MIMEType: res.MIMEType, Text: res.Text, Blob: res.Blob}}}, nil
	}
	for _, r := range s.Resources {
		server.AddResource(&mcp.Resource{URI: r.URI, Name: r.Name, MIMEType: r.MIMEType}, read)
	}
	for _, t := range s.Templates {
		server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: t.URITemplate, Name: t.Name, MIMEType: t.MIMEType}, read)
	}
}

func addPrompts(server *mcp.Server, s Script) {
	for _, p := range s.Prompts {
		server.AddPrompt(p.listed(), func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text, missing := p.fill(r.Params.Arguments)
			if missing != "" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "prompt " + p.Name + " needs the argument " + missing}
			}
			return &mcp.GetPromptResult{Description: p.Description, Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: text}},
			}}, nil
		})
	}
}

// injectFaults is middleware that injects the faults that are due before a request is
// handled.
func (l *httpIncarnation) injectFaults(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		for _, f := range l.plan.due(stageOf(method), method, targetOf(r)) {
			if err := l.injectFault(ctx, f); err != nil {
				return nil, err
			}
		}
		// The go-sdk's Close waits for requests. They may wait for the client, or be
		// subscriptions that never end, so they end with the incarnation.
		ctx, cancel := l.contextWithin(ctx)
		defer cancel()
		return next(ctx, method, r)
	}
}

func targetOf(r mcp.Request) string {
	switch p := r.GetParams().(type) {
	case *mcp.CallToolParamsRaw:
		return p.Name
	case *mcp.GetPromptParams:
		return p.Name
	case *mcp.ReadResourceParams:
		return p.URI
	}
	return ""
}

func (l *httpIncarnation) injectFault(ctx context.Context, f *Fault) error {
	ctx, cancel := l.contextWithin(ctx)
	defer cancel()
	switch f.Do {
	case ActionError:
		return f.failure()
	case ActionDelay:
		if backoff.Sleep(ctx, f.Delay) != nil {
			return ctx.Err()
		}
		return nil
	case ActionExit, ActionDie:
		l.crash()
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

// httpTools implements tools.Server over HTTP.
type httpTools struct {
	current *httpIncarnation
	session *mcp.ServerSession
}

func (h httpTools) Identity() (instance string, start int) {
	return h.current.instance, h.current.start
}

func (h httpTools) CountExecution(key string) (int, error) {
	return h.current.owner.counter.CountExecution(key)
}

func (h httpTools) Progress(c *tools.Call, done, total int) {
	var meta struct {
		Token any `json:"progressToken"`
	}
	if json.Unmarshal(c.Meta, &meta) != nil || meta.Token == nil {
		return
	}
	_ = h.session.NotifyProgress(c.Context, &mcp.ProgressNotificationParams{
		ProgressToken: meta.Token, Progress: float64(done), Total: float64(total),
	})
}

func (h httpTools) AddTool(name, description string) {
	t := ToolDef{Name: name, Description: description}
	h.current.catalog.add(t)
	h.current.addTool(h.current.sdkServer, t)
}

func (h httpTools) RemoveTool(name string) bool {
	h.current.sdkServer.RemoveTools(name)
	return h.current.catalog.remove(name)
}

func (h httpTools) Exit(int) { h.current.crash() }

// For Log and NotifyUpdated the go-sdk decides which clients get the notification.
func (h httpTools) Log(c *tools.Call, level, text string) {
	_ = h.session.Log(c.Context, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(level), Logger: h.current.owner.script.Name, Data: text})
}

func (h httpTools) NotifyUpdated(c *tools.Call, uri string) {
	_ = h.current.sdkServer.ResourceUpdated(c.Context, &mcp.ResourceUpdatedNotificationParams{URI: uri})
}
