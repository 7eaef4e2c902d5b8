package providers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicmcp "github.com/anthropics/anthropic-sdk-go/mcp"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	// A package that genai imports starts this one when the program starts.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// toolResult is what the model gets of a call.
type toolResult struct {
	Type    string `json:"type"`
	IsError bool   `json:"is_error"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
}

func (r toolResult) text() (text string) {
	for _, c := range r.Content {
		text += c.Text
	}
	return text
}

// scriptedModel answers each request with the next call of a tool, and after the last with a
// text. It records the result of each call.
func scriptedModel(t *testing.T, calls []map[string]any) (model anthropic.Client, results *[]toolResult) {
	results = new([]toolResult)
	turn := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []struct {
				Content []toolResult `json:"content"`
			} `json:"messages"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Tools) == 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if last := request.Messages[len(request.Messages)-1]; turn > 0 {
			*results = append(*results, last.Content...)
		}
		content, stop := map[string]any{"type": "text", "text": "Finished."}, "end_turn"
		if turn < len(calls) {
			content, stop = calls[turn], "tool_use"
			content["type"], content["id"] = "tool_use", fmt.Sprint("call", turn)
		}
		turn++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "m", "type": "message", "role": "assistant", "model": "scripted",
			"content": []any{content}, "stop_reason": stop, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1}})
	}))
	t.Cleanup(server.Close)
	return anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("none"), option.WithHTTPClient(server.Client()), option.WithMaxRetries(0)), results
}

// An agent of Anthropic's SDK finishes although the server of its tools crashes in the middle:
// the model learns of it, and the same tools work again.
func TestToolRunner_survives_a_crash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	client, err := facade.New(facade.WithDefaultWaitReady())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(context.Background())) }()
	require.NoError(t, client.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}),
		Policy: supervisor.Retry(5, time.Millisecond)}))

	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, gateway.Transport(client), nil)
	require.NoError(t, err)
	defer func() { _ = session.Close() }()
	listed, err := session.ListTools(ctx, nil)
	require.NoError(t, err)
	tools, err := anthropicmcp.NewBetaTools(listed.Tools, session)
	require.NoError(t, err)

	model, results := scriptedModel(t, []map[string]any{
		{"name": "mcp__s__count", "input": map[string]any{"key": "before"}},
		{"name": "mcp__s__signal", "input": map[string]any{"name": "KILL"}},
		{"name": "mcp__s__count", "input": map[string]any{"key": "after"}},
		{"name": "mcp__s__fail", "input": map[string]any{"text": "no paper"}},
	})
	answer, err := model.Beta.Messages.NewToolRunner(tools, anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{
		Model: "scripted", MaxTokens: 100, Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Count twice."))},
	}}).RunToCompletion(ctx)
	require.NoError(t, err)
	require.Equal(t, "Finished.", answer.Content[0].Text)

	got := *results
	require.Len(t, got, 4)
	require.False(t, got[0].IsError)
	require.True(t, got[1].IsError)
	require.Contains(t, got[1].text(), "crashed during the call. Whether it had an effect is not known; check before you repeat it.")
	require.False(t, got[2].IsError, "the same tool works again: %s", got[2].text())
	require.True(t, got[3].IsError)
	require.Contains(t, got[3].text(), "no paper")
	require.Equal(t, map[string]int{"before": 1, "after": 1}, mcptest.Executions(dir))
	require.Equal(t, 2, mcptest.Starts(dir))
}
