package facade_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Each call is reported once, when it has ended, with its arguments if they are wanted.
func TestWithEndedCalls(t *testing.T) {
	ctx := context.Background()
	for _, arguments := range []bool{true, false} {
		var ended []monitor.EndedCall // the caller's goroutine alone adds to it
		c, err := facade.New(facade.WithEndedCalls(func(e monitor.EndedCall) { ended = append(ended, e) }, arguments))
		require.NoError(t, err)
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
		_, err = c.CallTool(ctx, "s/echo", map[string]any{"text": "a"}, relay.WithClientName("host 1"), relay.WithPrincipal("bob"))
		require.NoError(t, err)
		_, err = c.CallToolRaw(ctx, "s/echo", json.RawMessage(`{"text":"b"}`))
		require.NoError(t, err)
		_, err = c.CallTool(ctx, "s/none", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
		_, err = c.CallTool(ctx, "none/none", nil)
		require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
		_, err = c.ReadResource(ctx, "s", "mcptest://text")
		require.NoError(t, err)
		require.NoError(t, c.Close(ctx))

		require.Len(t, ended, 4)
		require.Equal(t, "host 1", ended[0].Client)
		require.Equal(t, "bob", ended[0].Principal)
		require.Equal(t, "s", ended[0].Server)
		require.Equal(t, mcpvisor.ErrUnknownTool, ended[2].Kind)
		for _, e := range ended { // one that was refused, too
			require.False(t, e.Began.IsZero(), e.Target)
		}
		require.Equal(t, "resources/read", ended[3].Method)
		if !arguments {
			require.Nil(t, ended[0].Arguments)
			continue
		}
		require.JSONEq(t, `{"text":"a"}`, string(ended[0].Arguments), "they are not those of the next call")
		require.JSONEq(t, `{"text":"b"}`, string(ended[1].Arguments))
	}
}

// The function of WithEndedCalls may use the key of the call: it is free then, and the call is answered by the journal.
func TestWithEndedCalls_key_is_free(t *testing.T) {
	var c *facade.Client
	dir, call, got := t.TempDir(), func() (json.RawMessage, error) { return nil, nil }, []string(nil)
	c = newClient(t, facade.WithJournal(new(memoryJournal), ""), facade.WithEndedCalls(func(monitor.EndedCall) {
		raw, err := call()
		got = append(got, string(raw))
		require.NoError(t, err)
	}, false))
	call = func() (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return c.CallToolRaw(ctx, "s/job", []byte(`{"key":"a"}`), facade.WithKey("order-1"))
	}
	require.NoError(t, c.Register(t.Context(), countServer(dir)))
	raw, err := call()
	require.NoError(t, err)
	require.Equal(t, []string{string(raw)}, got)
	require.Equal(t, map[string]int{"a": 1}, mcptest.Executions(dir))
}
