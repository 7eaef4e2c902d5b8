package facade

import (
	"context"
	"encoding/json"
	"io"
	"runtime/debug"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestVersionIn(t *testing.T) {
	const module = "example.org/m"
	program := debug.Module{Path: "example.org/program", Version: "v9.9.9"}
	other := &debug.Module{Path: "example.org/m/other", Version: "v8.8.8"}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"no information":         {nil, "devel"},
		"not in the program":     {&debug.BuildInfo{Main: program, Deps: []*debug.Module{other}}, "devel"},
		"dependency":             {&debug.BuildInfo{Main: program, Deps: []*debug.Module{other, {Path: module, Version: "v1.2.3"}}}, "v1.2.3"},
		"replaced by a folder":   {&debug.BuildInfo{Main: program, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../m"}}}}, "devel"},
		"replaced by a fork":     {&debug.BuildInfo{Main: program, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.2.4"}}}}, "v1.2.4"},
		"in a workspace":         {&debug.BuildInfo{Main: program, Deps: []*debug.Module{{Path: module, Version: "(devel)"}}}, "devel"},
		"main, installed":        {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}, "v1.2.3"},
		"main, of a checkout":    {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.0.0-20261122163505-1243030aaaaa+dirty"}}, "v0.0.0-20261122163505-1243030aaaaa+dirty"},
		"main, without versions": {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "devel"},
	} {
		require.Equal(t, c.want, versionIn(c.info, module), name)
	}
}

// The version is that of the module of this package, and what a server gets.
func TestVersion_is_sent_to_servers(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	require.Equal(t, versionIn(info, "github.com/mcpvisor/mcpvisor"), Version())

	got := make(chan string, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if p, ok := r.GetParams().(*mcp.InitializeParams); ok {
				text, _ := json.Marshal(p.ClientInfo)
				got <- string(text)
			}
			return next(ctx, method, r)
		}
	})
	c, err := New()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.Background())) }()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
			return server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
		}}}))
	require.JSONEq(t, `{"name":"mcpvisor","version":"`+Version()+`"}`, <-got)
}
