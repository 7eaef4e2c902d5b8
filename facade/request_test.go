package facade

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestIsToolError(t *testing.T) {
	for text, want := range map[string]bool{
		`{"content":[]}`:                                         false,
		`{"content":[],"isError":false}`:                         false,
		`{"content":[],"isError":true}`:                          true,
		"{\"isError\" :\n true}":                                 true,
		`{"isError": null}`:                                      false,
		`{"content":[{"text":"\"isError\":true"}]}`:              false,
		`{"structuredContent":{"isError":true}}`:                 false,
		`{"structuredContent":{"isError":false},"isError":true}`: true,
		`{"isError":true,"structuredContent":{"isError":false}}`: true,
		`{"isError":false,"structuredContent":{"isError":true}}`: false,
		`not JSON "isError"`:                                     false,
		``:                                                       false,
	} {
		require.Equal(t, want, isToolError([]byte(text)), text)
	}
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}],"isError":false}`)
	require.Zero(t, testing.AllocsPerRun(100, func() { isToolError(result) }))
}

// Several callers may get the same error, and each adds its own Op to a copy.
func TestWithOp_copies_a_shared_error(t *testing.T) {
	shared := &mcpvisor.Error{Server: "fs", Kind: mcpvisor.ErrClosed}
	var wg sync.WaitGroup
	for _, op := range []string{"register fs", "restart fs"} {
		wg.Go(func() {
			own, ok := withOp(shared, op).(*mcpvisor.Error)
			require.True(t, ok)
			require.Equal(t, op, own.Op)
			require.ErrorIs(t, own, mcpvisor.ErrClosed)
		})
	}
	wg.Wait()
	require.Equal(t, &mcpvisor.Error{Server: "fs", Kind: mcpvisor.ErrClosed}, shared)
	require.NoError(t, withOp(nil, "register fs"))
}
