package form_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/form"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a strings.Builder for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const deploySchema = `{"type":"object","properties":{
	"name":{"type":"string","description":"Who you are.\u001b[2J","minLength":2},
	"count":{"type":"integer","minimum":1,"default":3},
	"sure":{"type":"boolean"},
	"mail":{"type":"string","format":"email"},
	"mode":{"type":"string","enum":["f","s"],"enumNames":["fast","slow"]},
	"color":{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green"}]},
	"note":{"type":"string"}},
	"required":["name","count","sure","mail"]}`

// request is what a server asks.
func request(t *testing.T, schema string) facade.ElicitationRequest {
	t.Helper()
	p := &mcp.ElicitParams{Message: "Deploy?\x1b[31m"}
	require.NoError(t, json.Unmarshal([]byte(schema), &p.RequestedSchema))
	return facade.ElicitationRequest{Server: "one", ElicitParams: p}
}

func TestFill(t *testing.T) {
	for name, c := range map[string]struct {
		typed, action string
		content       map[string]any
		shown         []string
	}{
		"all": {"y\nfour\n0\n\nada\nada@example.org\nA\nAda\nyes\nGreen\n2\nhello\n", "accept",
			map[string]any{"name": "Ada", "count": 3.0, "sure": true, "mail": "ada@example.org", "mode": "s", "color": "#0f0", "note": "hello"},
			[]string{"server one asks: Deploy?[31m\n", "Who you are.[2J\n", "name (string): ", "it must have at least 2 characters", "count (integer) [3]: ", "it must be an integer",
				"it must be at least 1", "sure (y or n): ", "it must be an e-mail address", "  1  fast\n  2  slow\nmode (number or text, optional): ", "note (string, optional): "}},
		"defaults and required": {"y\n\n\na@b\nAda\nn\n\n\n\n", "accept",
			map[string]any{"name": "Ada", "count": 3.0, "sure": false, "mail": "a@b"}, []string{"it is required"}},
		"decline":                {"n\n", "decline", nil, []string{"Answer 7 questions for it? y: yes, n: decline, c: cancel: "}},
		"cancel":                 {"what\nc\n", "cancel", nil, []string{"  answer y, n or c\n"}},
		"end of the input":       {"", "cancel", nil, nil},
		"end within the form":    {"y\nAda\n", "cancel", nil, nil},
		"too many wrong answers": {"y\n" + strings.Repeat("A\n", 9), "cancel", nil, []string{"too many answers were not valid; the form is canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out buffer
			var around []bool
			terminal := form.New(strings.NewReader(c.typed), &out, func(shown bool) { around = append(around, shown) })
			result, err := terminal.Fill(t.Context(), request(t, deploySchema))
			require.NoError(t, err)
			require.Equal(t, c.action, result.Action, out.String())
			require.Equal(t, c.content, result.Content)
			for _, text := range c.shown {
				require.Contains(t, out.String(), text)
			}
			require.NotContains(t, out.String(), "\x1b")
			require.Equal(t, []bool{true, false}, around)
		})
	}
}

func TestFill_no_fields(t *testing.T) {
	result, err := form.New(strings.NewReader("y\n"), io.Discard, nil).Fill(t.Context(), request(t, `{"type":"object","properties":{}}`))
	require.NoError(t, err)
	require.Equal(t, "accept", result.Action)
}

// A form that the server withdraws ends, and the next one is asked.
func TestFill_withdrawn(t *testing.T) {
	in, feed := io.Pipe()
	var out buffer
	terminal := form.New(in, &out, nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	first := request(t, deploySchema)
	go func() {
		_, err := terminal.Fill(ctx, first)
		failed <- err
	}()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "Answer 7") }, time.Minute, time.Millisecond)
	waiting, stop := context.WithCancel(t.Context())
	stop()
	_, err := terminal.Fill(waiting, request(t, deploySchema))
	require.ErrorIs(t, err, context.Canceled, "one form at a time")
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	done := make(chan string, 1)
	go func() {
		result, err := terminal.Visit(t.Context(), facade.ElicitationRequest{Server: "one", ElicitParams: &mcp.ElicitParams{URL: "https://example.org/x"}})
		if err == nil {
			done <- result.Action
		}
		close(done)
	}()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "open it yourself") }, time.Minute, time.Millisecond)
	_, err = io.WriteString(feed, "n\n")
	require.NoError(t, err)
	require.Equal(t, "decline", <-done)
	require.NoError(t, feed.Close())
}

func TestVisit(t *testing.T) {
	var out buffer
	visit := func(typed, url string) string {
		r := facade.ElicitationRequest{Server: "one", ElicitParams: &mcp.ElicitParams{Message: "Log in.", URL: url}}
		result, err := form.New(strings.NewReader(typed), &out, nil).Visit(t.Context(), r)
		require.NoError(t, err)
		return result.Action
	}
	require.Equal(t, "accept", visit("y\n", "https://bank.example@evil.example/login?x=1"))
	require.Contains(t, out.String(), "server one asks you to visit a page: Log in.\n  host  evil.example\n  URL   https://bank.example@evil.example/login?x=1\n")
	require.Equal(t, "decline", visit("n\n", "https://example.org/"))
	require.Equal(t, "decline", visit("y\n", "https:opaque"), "it has no host that could be shown")
}

// A server asks during a call, and gets the answers.
func TestFill_during_a_call(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			var out buffer
			terminal := form.New(strings.NewReader("y\n\na@b\nAda\ny\n1\n1\n\n"), &out, nil)
			c, err := facade.New(facade.WithElicitationHandler(terminal.Fill))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
			script := mcptest.Script{Versions: []string{version}}
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "one", InMemory: mcptest.InMemory(script)}))
			result, err := c.CallToolRaw(t.Context(), "one/consult",
				[]byte(`{"method":"elicitation/create","params":{"mode":"form","message":"Deploy?","requestedSchema":`+deploySchema+`}}`))
			require.NoError(t, err)
			require.Contains(t, string(result), "accept", string(result)+out.String())
			require.Contains(t, string(result), "Ada")
		})
	}
}
