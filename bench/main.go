// Command bench compares mcpvisor with its peers, side by side on the same
// machine in the same minutes. Ratios are medians of paired rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	rounds   = flag.Int("rounds", 7, "rounds per comparison")
	duration = flag.Duration("d", 400*time.Millisecond, "length of one measurement")
	drawing  = flag.String("plot", "", "write a drawing of the calls per second to this SVG file")
	only     = flag.String("only", "", "sections to run, comma-separated (empty: all)")
	servers  = flag.String("servers", "1,100,500", "numbers of servers to connect")
	save     = flag.String("save", "", "write the figures to this file, as a baseline for -check")
	check    = flag.String("check", "", "compare the figures with this baseline, and fail if one is worse by more than -tolerance")
	worseBy  = flag.Float64("tolerance", 0.15, "how much worse than the baseline a figure may be, as a fraction")
	callers  = flag.String("callers", "1,8,64,512", "numbers of callers")
)

func main() {
	if serve(context.Background()) {
		return
	}
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// serve runs the server that BENCH_SERVER names. It returns false if that is not set.
func serve(ctx context.Context) bool {
	switch os.Getenv("BENCH_SERVER") {
	case "fast":
		_ = serveFast(os.Stdin, os.Stdout, false)
	case "modern":
		_ = serveFast(os.Stdin, os.Stdout, true)
	case "sdk":
		_ = sdkServer().Run(ctx, &mcp.StdioTransport{})
	case "http":
		_ = serveHTTP(http.HandlerFunc(fastHTTP))
	case "stream":
		_ = serveHTTP(http.HandlerFunc(streamHTTP))
	case "idle":
		return reportIdle(ctx)
	case "sdkhttp":
		_ = serveHTTP(sdkHTTP())
	default:
		return false
	}
	return true
}

// section is one table of the report.
type section struct {
	name string
	run  func(ctx context.Context) error
}

func run(ctx context.Context) error {
	for _, s := range sections() {
		if !wanted(s.name) {
			continue
		}
		currentSection = s.name
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if *drawing != "" {
		if err := plot(*drawing); err != nil {
			return err
		}
	}
	if *save != "" {
		if err := saveResults(*save); err != nil {
			return err
		}
	}
	if *check != "" {
		return checkResults(*check, *worseBy)
	}
	return nil
}

func wanted(name string) bool {
	if *only == "" {
		return true
	}
	for _, o := range strings.Split(*only, ",") {
		if strings.HasPrefix(name, o) {
			return true
		}
	}
	return false
}

func numbers(list string) ([]int, error) {
	var out []int
	for _, f := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of positive numbers", list)
		}
		out = append(out, n)
	}
	return out, nil
}

func stdioTarget(kind string) target {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return target{kind: kind, command: self, env: []string{"BENCH_SERVER=" + kind}, echoTool: "echo", echoArg: "text",
		slowTool: "sleep", slowArgs: map[string]any{}}
}
