package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	os.Exit(m.Run())
}

func entry(faults ...mcptest.Fault) map[string]any {
	p := mcptest.Stdio(mcptest.Script{Faults: faults})
	return map[string]any{"command": p.Command, "args": p.Args, "env": p.Env}
}

// What is known of servers is printed although another one is still starting.
func TestCommand_interrupted_with_servers_that_are_known(t *testing.T) {
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"good": entry(), "broken": entry(mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7}),
		"slow": entry(mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionHang}, mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionHang})}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out strings.Builder
	inv := &servers.Opener{Invocation: cli.Invocation{Context: ctx, In: strings.NewReader(""), Out: &out, Err: &out, Sources: cli.NewSources([]string{path})}}
	file, err := inv.LoadConfig()
	require.NoError(t, err)
	c, stop, err := inv.StartServers(file, file.Specs())
	require.NoError(t, err)
	defer stop()
	require.NoError(t, c.WaitReady(ctx, "good"))
	require.Error(t, c.WaitReady(ctx, "broken"))
	interrupt()

	findings, err := findingsOf(inv, file, c)
	require.ErrorIs(t, err, cli.ErrInterrupted)
	require.NoError(t, printFindings(inv, findings))
	for _, want := range []string{
		`(?m)^ok    good: `, `(?m)^FAIL  broken: server process ended with exit status 7`, `(?m)^\?\?\?\?  slow: interrupted before it was ready`,
	} {
		require.Regexp(t, want, out.String())
	}
}

// What the tools cost a model is said, and that it is much.
func TestDiagnose_tokens(t *testing.T) {
	s := mcpvisor.ServerStatus{Name: "s", State: supervisor.StateReady, Session: &mcpvisor.SessionInfo{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}}}
	for tokens, warnings := range map[int]int{300: 0, 70_000: 1} {
		s.Catalog = mcpvisor.CatalogInfo{Tools: 2, Tokens: tokens}
		d := diagnose(&servers.Opener{Invocation: cli.Invocation{Context: t.Context()}}, s, mcpvisor.ServerSpec{}, 0)
		require.Contains(t, d.Summary, fmt.Sprintf("2 tools (about %d tokens)", tokens))
		require.Len(t, d.Warnings, warnings)
	}
}

func TestDiagnose_stray_output(t *testing.T) {
	d := diagnose(&servers.Opener{Invocation: cli.Invocation{Context: t.Context()}}, mcpvisor.ServerStatus{Name: "s", Transport: "stdio", Session: &mcpvisor.SessionInfo{
		StrayOutput: mcpvisor.StrayOutput{Text: "Ok to proceed? (y)", Reason: "it asks a question"}}}, mcpvisor.ServerSpec{}, 0)
	require.Contains(t, d.Warnings, `its stdout says "Ok to proceed? (y)": it asks a question`)
}
