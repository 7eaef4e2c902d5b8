package facade_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestApplyStartsTheGoodOnesAndNamesTheOthers(t *testing.T) {
	c := newClient(t)
	var specs []facade.ServerSpec
	for i := range 20 {
		specs = append(specs, facade.ServerSpec{Name: fmt.Sprintf("s%02d", i), InMemory: mcptest.InMemory(mcptest.Script{}), StartSupervised: i%2 == 0})
	}
	specs = append(specs, facade.ServerSpec{Name: "bad"}, facade.ServerSpec{Name: "gone", Stdio: &facade.Stdio{Command: "no-such-command-here"}})
	err := c.Apply(t.Context(), specs)
	require.ErrorIs(t, err, facade.ErrInvalid)
	require.ErrorIs(t, err, facade.ErrStart)
	var failed []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var one *facade.Error
		require.True(t, errors.As(e, &one))
		failed = append(failed, one.Server)
	}
	require.Equal(t, []string{"bad", "gone"}, failed)
	require.Len(t, c.Servers(), 20)
	for _, name := range c.Servers() {
		require.NoError(t, c.WaitReady(t.Context(), name))
	}
	require.NoError(t, c.Apply(t.Context(), nil))
}

func TestCallForModelNeverFails(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), facade.ServerSpec{Name: "m", InMemory: mcptest.InMemory(mcptest.Script{})}))
	res := c.CallForModel(t.Context(), "m/echo", map[string]any{"text": "hi"})
	require.False(t, res.IsError)
	res = c.CallForModel(t.Context(), "m/ecoh", nil)
	require.True(t, res.IsError)
	require.Contains(t, res.Content[0].(*mcp.TextContent).Text, "Did you mean m/echo?")
}
