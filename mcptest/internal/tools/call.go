package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Call is one call of a tool, over any transport.
type Call struct {
	// Context ends when the client cancels the call, or the server ends.
	Context context.Context
	// Tool is the name of the tool that is called.
	Tool string
	// Arguments and Meta are those of the request; nil if it has none.
	Arguments, Meta json.RawMessage
	// InputResponses and RequestState are set when the client repeats a call that
	// required input (since 2026-07-28).
	InputResponses json.RawMessage
	RequestState   string
	// Server is the server that the tool runs in.
	Server Actions
	// Streams is nil over HTTP, where tools with NeedsStreams are not offered.
	Streams Streams
	// Modern is whether the request is one of 2026-07-28. It is set only with Streams;
	// over HTTP the go-sdk translates between the versions.
	Modern bool
}

// Actions is what a tool can do in its server, over either transport.
type Actions interface {
	// Identity returns a random id of the incarnation and the number of its start.
	Identity() (instance string, start int)
	// CountExecution records one execution under the key and returns their number.
	CountExecution(key string) (int, error)
	// Progress sends notifications/progress if the call has a progress token.
	Progress(c *Call, done, total int)
	// Log sends notifications/message if the client's level admits it.
	Log(c *Call, level, text string)
	// NotifyUpdated sends notifications/resources/updated if the client subscribed.
	NotifyUpdated(c *Call, uri string)
	// AddTool and RemoveTool change the list of tools and send list_changed.
	AddTool(name, description string)
	RemoveTool(name string) bool
	// Exit ends the incarnation with a status. In a process it does not return.
	Exit(code int)
}

// Streams is what a tool can do in a server on a pair of streams.
type Streams interface {
	// Die ends the incarnation by a signal. In a process it does not return.
	Die(signal string)
	// WriteStderr writes a line to stderr, WriteJunk lines to stdout that are not
	// JSON-RPC.
	WriteStderr(text string)
	WriteJunk(count int)
	// Fork starts a grandchild and returns its pid.
	Fork(detached bool) (int, error)
	// SendRequest sends a request to the client. The channel receives the result, or
	// the error object.
	SendRequest(method string, params json.RawMessage) <-chan json.RawMessage
}

// Result is how a call ends. The zero value is an answer with an empty text.
type Result struct {
	// Text is the text of the one content block.
	Text string
	// Structured is the structuredContent; nil means none.
	Structured json.RawMessage
	IsError    bool
	// Err, if set, answers with a JSON-RPC error instead.
	Err *jsonrpc.Error
	// NoAnswer leaves the call unanswered.
	NoAnswer bool
	// InputRequests and RequestState, if set, require input of the client before the
	// call can continue.
	InputRequests json.RawMessage
	RequestState  string
}

func textResult(text string) Result { return Result{Text: text} }

// JSON encodes v, and escapes nothing for HTML. It panics only for invalid raw JSON inside v.
func JSON(v any) json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("mcptest: " + err.Error() + "; check the raw JSON in the script")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// jsonResult returns v as structured content and as text.
func jsonResult(v any) Result {
	data := JSON(v)
	return Result{Text: string(data), Structured: data}
}

func errorResult(text string) Result { return Result{Text: text, IsError: true} }

// Members returns the members of a CallToolResult, or of an InputRequiredResult if
// input is required, without the braces around them.
func (r Result) Members() []byte {
	if len(r.InputRequests) > 0 {
		return fmt.Appendf(nil, `"inputRequests":%s,"requestState":%s`, r.InputRequests, JSON(r.RequestState))
	}
	b := fmt.Appendf(nil, `"content":[{"type":"text","text":%s}]`, JSON(r.Text))
	if len(r.Structured) > 0 {
		b = fmt.Appendf(b, `,"structuredContent":%s`, r.Structured)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	return b
}

// SDK returns the result as one of the go-sdk. It waits until the context ends if the
// call is not to be answered.
func (r Result) SDK(ctx context.Context) (*mcp.CallToolResult, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case len(r.InputRequests) > 0:
		result := &mcp.CallToolResult{RequestState: r.RequestState}
		if err := json.Unmarshal(r.InputRequests, &result.InputRequests); err != nil {
			return nil, fmt.Errorf("reading the input requests of a tool: %w", err)
		}
		return result, nil
	case r.NoAnswer:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Text}}, IsError: r.IsError}
	if len(r.Structured) > 0 {
		result.StructuredContent = r.Structured
	}
	return result, nil
}
