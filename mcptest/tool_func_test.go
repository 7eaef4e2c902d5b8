package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// forecast is the tool that TestMain registers.
func forecast(ctx context.Context, arguments json.RawMessage) (any, error) {
	var args struct{ City string }
	if err := json.Unmarshal(arguments, &args); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: " + err.Error()}
	}
	switch args.City {
	case "":
		return nil, errors.New("no city")
	case "nowhere":
		return nil, nil
	case "list":
		return []int{1}, nil
	case "channel":
		return make(chan int), nil
	case "wait":
		<-ctx.Done()
		return "canceled", nil
	}
	return map[string]any{"city": args.City, "degrees": 21}, nil
}

func TestRegisterTool(t *testing.T) {
	script := Script{
		Tools:  []ToolDef{{Name: "forecast"}, {Name: "weather", As: "forecast"}, {Name: "echo"}},
		Faults: []Fault{{At: StageCall, Tool: "weather", Nth: 2, Do: ActionError, Text: "out of order"}},
	}
	for name, dial := range map[string]func(t *testing.T) *mcp.ClientSession{
		"memory":  func(t *testing.T) *mcp.ClientSession { return connect(t, client(nil), memoryTransport(t, script)) },
		"process": func(t *testing.T) *mcp.ClientSession { return connect(t, client(nil), processTransport(t, script)) },
		"HTTP":    func(t *testing.T) *mcp.ClientSession { return connectHTTP(t, serve(t, script)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := dial(t)
			r, err := call(t, s, "forecast", map[string]any{"city": "Turin"})
			require.NoError(t, err)
			require.Equal(t, map[string]any{"city": "Turin", "degrees": 21.0}, r.StructuredContent)
			require.JSONEq(t, `{"city":"Turin","degrees":21}`, textOf(t, r))
			r, err = call(t, s, "weather", map[string]any{"city": "nowhere"})
			require.NoError(t, err)
			require.Empty(t, textOf(t, r))
			_, err = call(t, s, "weather", map[string]any{"city": "Turin"})
			require.ErrorContains(t, err, "out of order", "the scripted fault")
			r, err = call(t, s, "weather", map[string]any{"city": "list"})
			require.NoError(t, err)
			require.Equal(t, "[1]", textOf(t, r))
			require.Nil(t, r.StructuredContent)
			for city, text := range map[string]string{"": "no city", "channel": "the result of the tool cannot be encoded: json: unsupported type: chan int"} {
				r, err = call(t, s, "forecast", map[string]any{"city": city})
				require.NoError(t, err)
				require.True(t, r.IsError)
				require.Equal(t, text, textOf(t, r))
			}
			_, err = call(t, s, "forecast", map[string]any{"city": 7})
			require.ErrorContains(t, err, "arguments: ")
			if name == "HTTP" {
				return // the client of the go-sdk does not close the request of a call that is canceled
			}
			ctx, cancel := context.WithCancel(t.Context())
			waits := make(chan error, 1)
			go func() {
				_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "forecast", Arguments: map[string]any{"city": "wait"}})
				waits <- err
			}()
			r, err = call(t, s, "echo", map[string]any{"text": "meanwhile"})
			require.NoError(t, err)
			require.Equal(t, "meanwhile", textOf(t, r))
			cancel()
			require.ErrorIs(t, <-waits, context.Canceled)
		})
	}
}

func TestRegisterTool_panics(t *testing.T) {
	f := func(context.Context, json.RawMessage) (any, error) { return nil, nil }
	require.PanicsWithValue(t, `mcptest: the tool "forecast" is registered twice`, func() { RegisterTool("forecast", f) })
	require.PanicsWithValue(t, `mcptest: "echo" is the name of a default tool; register another name`, func() { RegisterTool("echo", f) })
	require.Panics(t, func() { RegisterTool("", f) })
	require.Panics(t, func() { RegisterTool("other", nil) })
	require.ErrorContains(t, Script{Tools: []ToolDef{{Name: "x", As: "other"}}}.Validate(), "RegisterTool")
}
