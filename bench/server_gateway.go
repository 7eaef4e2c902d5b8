package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// gatewayClient is a client of mcpvisor with the fast server over stdio.
func gatewayClient(ctx context.Context) (*facade.Client, error) {
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	t := stdioTarget("fast")
	t.env = append(t.env, "BENCH_TOOLS="+os.Getenv("BENCH_TOOLS")) // a server does not inherit what it is not given
	return c, c.Register(ctx, spec("s", t))
}

// serveGateway is the gateway of mcpvisor in front of the fast server. GET /memory reports
// what the process holds.
func serveGateway(ctx context.Context) error {
	c, err := gatewayClient(ctx)
	if err != nil {
		return err
	}
	return serveHTTP(withMemory(gateway.Handler(c, gateway.WithNames(gateway.Names{Prefix: gateway.PrefixNever}))))
}

// pipeGateway is the same gateway over stdio.
func pipeGateway(ctx context.Context) error {
	c, err := gatewayClient(ctx)
	if err != nil {
		return err
	}
	return gateway.Serve(ctx, gateway.Transport(c, gateway.WithNames(gateway.Names{Prefix: gateway.PrefixNever})), &mcp.StdioTransport{})
}

// relayPipe copies bytes between its own stdin and stdout and those of the fast server, and looks at
// none of them. What it adds is what one more process costs, whatever the process does.
func relayPipe(ctx context.Context) error {
	server := exec.CommandContext(ctx, fastServer)
	server.Env = os.Environ()
	stdin, err := server.StdinPipe()
	if err != nil {
		return err
	}
	server.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	server.Stdout = w
	if err := server.Start(); err != nil {
		return err
	}
	_ = w.Close()
	go func() { _, _ = io.Copy(os.Stdout, r) }()
	_, err = io.Copy(stdin, os.Stdin)
	_ = stdin.Close()
	return errors.Join(err, server.Wait())
}

// serveSDKGateway is what the go-sdk makes easy: a client of the fast server, and a server with
// a tool for each of its tools, which passes arguments and results on as they are.
func serveSDKGateway(ctx context.Context) error {
	upstream, err := mcp.NewClient(&mcp.Implementation{Name: "gateway", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: exec.Command(fastServer)}, nil)
	if err != nil {
		return err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "gateway", Version: "1"}, nil)
	for tool, err := range upstream.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		s.AddTool(tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return upstream.CallTool(ctx, &mcp.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
		})
	}
	return serveHTTP(withMemory(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})))
}

// memoryReport is what a process holds, in bytes.
type memoryReport struct{ Heap, Stacks uint64 }

// withMemory adds GET /memory to the handler of MCP.
func withMemory(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.HandleFunc("/memory", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		runtime.GC() // what finalizers and pools of the first one released
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(memoryReport{Heap: m.HeapAlloc, Stacks: m.StackInuse})
	})
	return mux
}
