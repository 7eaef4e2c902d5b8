package facade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// ServeInMemory returns the transport of a go-sdk server that runs inside this process,
// for [mcpvisor.ServerSpec].InMemory. Each incarnation is a new session of the same
// server. A nil server fails at its start.
//
// A panic in a handler of the server, such as a tool, is the error of that request, and goes
// to the server's stderr with the functions that were running ([Client.Stderr]). For that
// ServeInMemory adds a receiving middleware to the server: the go-sdk alone would let the
// panic end the process.
func ServeInMemory(server *mcp.Server) *mcpvisor.InMemory {
	if server != nil {
		server.AddReceivingMiddleware(recoverPanics)
	}
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		if server == nil {
			return errors.New("the in-memory server is nil")
		}
		return server.Run(context.WithValue(ctx, stderrKey{}, stderr), &mcp.IOTransport{Reader: stdin, Writer: stdout})
	}}
}

// stderrKey is the key of the stderr of an incarnation, in the contexts of its handlers: a
// server may have several sessions at once.
type stderrKey struct{}

// recoverPanics makes a panic of a handler the error of its request.
func recoverPanics(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				if stderr, ok := ctx.Value(stderrKey{}).(io.Writer); ok {
					_, _ = fmt.Fprintf(stderr, "panic in %s: %v\n%s", method, p, panicking())
				}
				result, err = nil, fmt.Errorf("panic in the server: %v", p)
			}
		}()
		return next(ctx, method, req)
	}
}

// maxFrames is how many functions of a panic are written: fewer than the lines of stderr
// that are kept by default.
const maxFrames = 10

// panicking lists the functions that were running at the panic, one for each line. A deferred
// function calls it.
func panicking() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	var lines []string
	panicked := false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		ofRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !ofRuntime && len(lines) < maxFrames {
			lines = append(lines, fmt.Sprintf("  %s (%s:%d)\n", f.Function, f.File, f.Line))
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
	return strings.Join(lines, "")
}
