package mcptest

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// ToolDef is one tool of a [Script].
type ToolDef struct {
	// Name is the tool's name. Required. A tool with a name of [DefaultTools] behaves
	// like that tool.
	Name string `json:"name"`
	// Description is listed with the tool. Default: none.
	Description string `json:"description,omitempty"`
	// InputSchema is a JSON schema. Default: {"type":"object"}. Arguments are not checked
	// against it.
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	// OutputSchema is a JSON schema. Default: none.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	// Annotations is an object such as {"readOnlyHint":true}. Default: none.
	Annotations json.RawMessage `json:"annotations,omitempty"`
	// As names the default tool that this one behaves like. Default: the one of Name.
	As string `json:"as,omitempty"`
	// Text is a fixed answer, given unless As is set. A tool with neither, and
	// whose name is not a default tool's, answers with its arguments.
	Text string `json:"text,omitempty"`
	// Structured is the structuredContent that goes with Text.
	Structured json.RawMessage `json:"structured,omitempty"`
	// IsError marks the fixed answer as a failure of the tool.
	IsError bool `json:"isError,omitempty"`
	// Task, if set, makes the tool answer with a task. Default: it answers with its result.
	Task *TaskDef `json:"task,omitempty"`
}

// definition returns the tool as tools/list lists it.
func (t ToolDef) definition() json.RawMessage {
	execution := t.execution()
	if len(t.InputSchema) == 0 {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	t.As, t.Text, t.Structured, t.IsError, t.Task = "", "", nil, false, nil // what it does is not listed
	return tools.JSON(struct {
		ToolDef
		Execution json.RawMessage `json:"execution,omitempty"`
	}{t, execution})
}

// execution says whether the tool wants to be called as a task (2025-11-25).
func (t ToolDef) execution() json.RawMessage {
	switch {
	case t.Task == nil:
		return nil
	case t.Task.Optional:
		return json.RawMessage(`{"taskSupport":"optional"}`)
	}
	return json.RawMessage(`{"taskSupport":"required"}`)
}

// ResourceDef is one resource of a [Script].
type ResourceDef struct {
	// URI identifies the resource. Required.
	URI string `json:"uri"`
	// Name is listed with the resource. Required.
	Name string `json:"name"`
	// MIMEType is that of the content. Default: none.
	MIMEType string `json:"mimeType,omitempty"`
	// Text is the content, unless Blob is set.
	Text string `json:"text,omitempty"`
	// Blob is binary content. Default: none; then the content is Text.
	Blob []byte `json:"blob,omitempty"`
}

// definition returns the resource as resources/list lists it.
func (r ResourceDef) definition() json.RawMessage {
	r.Text, r.Blob = "", nil
	return tools.JSON(r)
}

// contents returns the resource as resources/read returns it.
func (r ResourceDef) contents() json.RawMessage {
	c := struct {
		mcp.ResourceContents
		Text *string `json:"text,omitempty"` // even an empty one is there
	}{ResourceContents: mcp.ResourceContents{URI: r.URI, MIMEType: r.MIMEType, Blob: r.Blob}}
	if len(r.Blob) == 0 {
		c.Text = &r.Text
	}
	return tools.JSON(c)
}

// TemplateDef is one resource template of a [Script], with one variable at its
// end: reading "mcptest://echo/abc" by "mcptest://echo/{text}" gives "abc".
type TemplateDef struct {
	// URITemplate has one variable, at its end. Required.
	URITemplate string `json:"uriTemplate"`
	// Name is listed with the template. Required.
	Name string `json:"name"`
	// MIMEType is that of the content. Default: none.
	MIMEType string `json:"mimeType,omitempty"`
}

func (t TemplateDef) definition() json.RawMessage { return tools.JSON(t) }

// PromptDef is one prompt of a [Script].
type PromptDef struct {
	// Name is the prompt's name. Required.
	Name string `json:"name"`
	// Description is listed with the prompt. Default: none.
	Description string `json:"description,omitempty"`
	// Arguments are the names of the arguments, all required. Default: none.
	Arguments []string `json:"arguments,omitempty"`
	// Text is the text of the one message; "{name}" stands for the argument name.
	Text string `json:"text"`
}

// listed returns the prompt as prompts/list lists it.
func (p PromptDef) listed() *mcp.Prompt {
	listed := &mcp.Prompt{Name: p.Name, Description: p.Description}
	for _, name := range p.Arguments {
		listed.Arguments = append(listed.Arguments, &mcp.PromptArgument{Name: name, Required: true})
	}
	return listed
}

func (p PromptDef) definition() json.RawMessage { return tools.JSON(p.listed()) }

// DefaultResources returns what a script without Resources offers: a text and a blob.
func DefaultResources() []ResourceDef {
	return []ResourceDef{
		{URI: "mcptest://text", Name: "text", MIMEType: "text/plain", Text: "Hello from mcptest."},
		{URI: "mcptest://blob", Name: "blob", MIMEType: "application/octet-stream", Blob: []byte{0, 1, 2, 254, 255}},
	}
}

// DefaultTemplates returns what a script without Templates offers: one that echoes.
func DefaultTemplates() []TemplateDef {
	return []TemplateDef{{URITemplate: "mcptest://echo/{text}", Name: "echo", MIMEType: "text/plain"}}
}

// DefaultPrompts returns what a script without Prompts offers: one without and one with
// an argument.
func DefaultPrompts() []PromptDef {
	return []PromptDef{
		{Name: "hello", Description: "A fixed greeting.", Text: "Say hello."},
		{Name: "greet", Description: "Greets a name.", Arguments: []string{"name"}, Text: "Greet {name}."},
	}
}
