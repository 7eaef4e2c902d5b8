// Package adaptertest holds what the tests of the adapters below adapters have in common.
// They are in modules of their own.
package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// newClient returns a client of one server. It is closed with the test.
func newClient(t *testing.T, s mcpvisor.ServerSpec, opts ...facade.Option) *facade.Client {
	t.Helper()
	c, err := facade.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Register(t.Context(), s))
	return c
}

// Fixture returns a client of the fixture server, which runs in memory.
func Fixture(t *testing.T) *facade.Client {
	t.Helper()
	return newClient(t, mcpvisor.ServerSpec{Name: "fixture", InMemory: mcptest.InMemory(mcptest.Script{})})
}

// OddServer returns a client of a server with one tool, which has this input schema and
// answers "ran".
func OddServer(t *testing.T, input string) *facade.Client {
	t.Helper()
	return toolServer(t, &mcp.Tool{Name: "tool", InputSchema: json.RawMessage(input)})
}

// toolServer returns a client of a server with one tool, which answers "ran".
func toolServer(t *testing.T, tool *mcp.Tool) *facade.Client {
	t.Helper()
	serve := func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		s := mcp.NewServer(&mcp.Implementation{Name: "odd", Version: "1"}, nil)
		s.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ran"}}}, nil
		})
		return s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	}
	return newClient(t, mcpvisor.ServerSpec{Name: "odd", InMemory: &mcpvisor.InMemory{Serve: serve}})
}

// visibleText is what people see of hiddenText, which has a mark of direction, a zero-width
// space, an escape character, and "obey" in tag characters.
const (
	visibleText = "Reads a file."
	hiddenText  = "Reads\u202e a\u200b file\x1b.\U000E006F\U000E0062\U000E0065\U000E0079"
)

// HiddenText returns a client of a server with one tool, whose descriptions have characters that
// a model reads and people do not see. See [RequireVisible].
func HiddenText(t *testing.T) *facade.Client {
	t.Helper()
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string", "description": hiddenText}}})
	require.NoError(t, err)
	return toolServer(t, &mcp.Tool{Name: "tool", Title: hiddenText, Description: hiddenText, InputSchema: json.RawMessage(schema)})
}

// RequireVisible requires that what a model gets of the tool of [HiddenText] is its description
// and its schema, and that people see all of it.
func RequireVisible(t *testing.T, description string, schema any) {
	t.Helper()
	require.True(t, strings.HasPrefix(description, visibleText), "%q", description)
	text, err := json.Marshal([]any{description, schema})
	require.NoError(t, err)
	require.Contains(t, strings.TrimPrefix(string(text), `["`+visibleText), visibleText, "the description of the property")
	require.False(t, strings.ContainsFunc(string(text), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
	require.NotContains(t, string(text), `\u`)
}

// The calls that the scripted model of an adapter makes, one after the other. Then it answers
// [Finished] and what the second call returned.
const (
	FirstTool  = "mcp__fixture__count"
	FirstArgs  = `{"key":"k"}`
	SecondTool = "mcp__fixture__echo"
	SecondArgs = `{"text":"still here"}`
	Finished   = "finished: "
)

// Crash is a server that is killed once, while it works on the first call.
type Crash struct {
	Client *facade.Client
	state  string
	killed chan error
}

// NewCrash starts the server. The test's TestMain calls mcptest.Main.
func NewCrash(ctx context.Context, t *testing.T) *Crash {
	t.Helper()
	script := mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAnswer, Tool: "count", Starts: []int{1}, Do: mcptest.ActionDelay, Delay: time.Hour}}}
	c := &Crash{state: script.StateDir, killed: make(chan error, 1),
		Client: newClient(t, mcpvisor.ServerSpec{Name: "fixture", Stdio: mcptest.Stdio(script),
			Policy: supervisor.Retry(3, 10*time.Millisecond)}, facade.WithDefaultWaitReady())}
	go func() { c.killed <- c.killDuringFirstCall(ctx) }()
	return c
}

func (c *Crash) killDuringFirstCall(ctx context.Context) error {
	for mcptest.Executions(c.state)["k"] == 0 {
		select {
		case <-ctx.Done():
			return errors.New("the tool was not called")
		case <-time.After(time.Millisecond):
		}
	}
	status, _ := c.Client.ServerStatus("fixture")
	p, err := os.FindProcess(status.Session.PID)
	if err != nil {
		return err
	}
	return p.Kill()
}

// Check checks the agent's answer, the names of the tools that the model was given, and what
// the model observed of its two calls: after the crash it knows that the outcome of the first
// is not known, the second succeeds, and nothing ran twice.
func (c *Crash) Check(t *testing.T, answer string, tools, observed []string) {
	t.Helper()
	require.NoError(t, <-c.killed)
	require.Equal(t, Finished+"still here", answer)
	require.Len(t, observed, 2)
	require.Contains(t, observed[0], "crashed")
	require.Contains(t, observed[0], "Whether it had an effect is not known")
	require.Equal(t, 1, mcptest.Executions(c.state)["k"], "the call ran once")
	require.Contains(t, tools, FirstTool)
}

// RequireOnPage requires that a file of the test has the lines that docs/frameworks.md shows
// as code of that language.
func RequireOnPage(t *testing.T, language, file string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/frameworks.md")
	require.NoError(t, err)
	code, err := os.ReadFile(file)
	require.NoError(t, err)
	pieces := regexp.MustCompile("(?ms)^```go "+language+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, pieces, 1)
	require.Contains(t, strings.ReplaceAll(string(code), "\n\t", "\n"), "\n"+pieces[0][1])
}
