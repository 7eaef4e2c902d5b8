//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// pidOf asks the tool "pid" of a server for its process.
func pidOf(t *testing.T, session *mcp.ClientSession, server string) int {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: server + "__pid"})
	require.NoError(t, err)
	require.False(t, result.IsError, "%v", result.Content)
	var who struct{ PID int }
	require.NoError(t, json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &who))
	return who.PID
}

// requireDead waits until all processes that were started have ended, but for some.
func requireDead(t *testing.T, dir string, but ...int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(mcptest.PIDs(dir), func(pid int) bool { return !slices.Contains(but, pid) && mcptest.Alive(pid) })
	}, 30*time.Second, 5*time.Millisecond)
}

// With "share": "client" each client of a run has a process of its own. Two clients never meet in one process because
// something else in the configuration is broken. With the run all processes end.
func TestRun_share(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	dir := t.TempDir()
	entryOf := func(share any) map[string]any {
		e := entry(mcptest.Script{StateDir: dir})
		if share != nil {
			e["share"] = share
		}
		return e
	}
	tokens, file := makeTokens(t, []string{"ann"}, []string{"bob"})
	b := startRun(t, map[string]any{"a": entryOf("client"), "b": entry(mcptest.Script{})}, "run", "--mcp", "127.0.0.1:0", "--mcp-tokens", file)
	url := mcpURL(b)
	b.await(" ready  ")
	b.await(" ready  ")
	b.drain()
	sessions := map[string]*mcp.ClientSession{}
	for name, token := range tokens {
		session, err := connect(t, url, token)
		require.NoError(t, err)
		sessions[name] = session
	}
	requireApart := func(why string) {
		t.Helper()
		require.NotEqual(t, pidOf(t, sessions["ann"], "a"), pidOf(t, sessions["bob"], "a"), why)
	}
	requireApart("at the start")
	require.Equal(t, pidOf(t, sessions["ann"], "b"), pidOf(t, sessions["bob"], "b"))

	reload := func(want int, a map[string]any, gateway string) {
		t.Helper()
		b.writeText(configOf(t, map[string]any{"a": a, "b": entry(mcptest.Script{})}, gateway))
		code, out, errs := b.command("reload")
		require.Equal(t, want, code, out+errs)
	}
	reload(3, entryOf("cleint"), `{}`)
	requireApart("its entry is broken")
	reload(0, entryOf(nil), `{}`)
	require.Equal(t, pidOf(t, sessions["ann"], "a"), pidOf(t, sessions["bob"], "a"), "it is shared now")
	reload(3, entryOf("client"), `{"nonsense": 1}`)
	requireApart(`"gateway" is broken`)
	reload(0, entryOf("client"), `{"max_copies": 1}`)
	first := pidOf(t, sessions["ann"], "a")
	require.Contains(t, mcptest.PIDs(dir), first)
	b.stop()
	for _, pid := range mcptest.PIDs(dir) {
		require.False(t, mcptest.Alive(pid))
	}
	http.DefaultClient.CloseIdleConnections()
}

// Two hosts on mcpvisor stdio have two processes. That of a host ends with the host, and a run that is killed does not
// end the session: the next call has a new process.
func TestStdio_share(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := entry(mcptest.Script{StateDir: dir})
	e["share"] = "client"
	h := newHousehold(t, map[string]any{"a": e})
	ann, _, _ := h.host()
	bob, _, _ := h.host()
	first, second := pidOf(t, ann, "a"), pidOf(t, bob, "a")
	require.NotEqual(t, first, second)
	require.Equal(t, first, pidOf(t, ann, "a"))
	require.Equal(t, 3, mcptest.Starts(dir), "one has the lists")
	require.NoError(t, bob.Close())
	require.Eventually(t, func() bool { return !mcptest.Alive(second) }, 30*time.Second, 5*time.Millisecond)
	require.True(t, mcptest.Alive(first))

	kill(t, h.run())
	again := pidOf(t, ann, "a")
	require.NotEqual(t, first, again)
	require.Equal(t, again, pidOf(t, ann, "a"))
	require.NoError(t, ann.Close())
	requireDead(t, dir) // the run ends a little later than its last host
}
