// Command bench compares mcpvisor with its peers, side by side on the same
// machine in the same minutes. Ratios are medians of paired rounds.
//
// This package is large because each section compares all clients: the sections share the
// drivers, and the table at the end shares the figures of all sections. Files are named
// after what they hold: driver_ is a client, section_ a table, server_ a server.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/bench/internal/fast"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	rounds   = flag.Int("rounds", 7, "rounds per comparison")
	duration = flag.Duration("d", 400*time.Millisecond, "length of one measurement")
	plots    = flag.String("plot", "", "write a drawing for each question to SVG files in this folder")
	only     = flag.String("only", "", "sections to run, comma-separated (empty: all)")
	servers  = flag.String("servers", "1,100,500", "numbers of servers to connect")
	save     = flag.String("save", "", "write the figures to this file")
	load     = flag.String("load", "", "begin with the figures of this file, which -save has written")
	baseline = flag.String("baseline", "", "measure the section guard several times, and write the medians to this file for -check")
	check    = flag.String("check", "", "compare the figures of the section guard with this baseline, and fail if one is worse")
	worseBy  = flag.Float64("tolerance", 0.15, "how much worse than the baseline a figure may be, as a fraction; allocations are counted exactly")
	before   = flag.String("against", "", "compare the CPU time of a call with a build of this commit in the same minutes, and fail if it is a tenth more")
	procs    = flag.Int("procs", 0, "processors that this process uses, as GOMAXPROCS (0: all); servers use all")
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
		_ = fast.Serve(os.Stdin, os.Stdout, false)
	case "modern":
		_ = fast.Serve(os.Stdin, os.Stdout, true)
	case "sdk":
		_ = sdkServer().Run(ctx, &mcp.StdioTransport{})
	case "http":
		_ = serveHTTP(http.HandlerFunc(fastHTTP))
	case "stream":
		_ = serveHTTP(http.HandlerFunc(streamHTTP))
	case "idle":
		return reportIdle(ctx)
	case "client":
		return reportFirstClient(ctx)
	case "gateway":
		_ = serveGateway(ctx)
	case "relaypipe":
		_ = relayPipe(ctx)
	case "gatewaypipe":
		_ = pipeGateway(ctx)
	case "sdkgateway":
		_ = serveSDKGateway(ctx)
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

func (s section) measure(ctx context.Context) error {
	currentSection = s.name
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

func run(ctx context.Context) error {
	if _, err := os.Stat(fastServer); err != nil {
		return fmt.Errorf("the fast server is missing; build it with: go build -o %s ./fastserver (in the folder bench)", fastServer)
	}
	if *procs > 0 {
		runtime.GOMAXPROCS(*procs)
	}
	if *load != "" {
		if err := loadFigures(*load); err != nil {
			return err
		}
	}
	if *before != "" {
		return against(ctx, *before)
	}
	for _, s := range sections() {
		if !wanted(s.name) {
			continue
		}
		if err := s.measure(ctx); err != nil {
			return err
		}
	}
	if err := summarize(); err != nil {
		return err
	}
	if *plots != "" {
		if err := plot(*plots); err != nil {
			return err
		}
	}
	if *save != "" {
		if err := saveFigures(*save, figures); err != nil {
			return err
		}
	}
	measureGuard := func(labels ...string) error {
		currentSection = guardSection
		return guard(ctx, labels...)
	}
	if *baseline != "" {
		return writeBaseline(*baseline, measureGuard)
	}
	if *check != "" {
		return checkFigures(*check, *worseBy, measureGuard)
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

// stdioTarget is a server that is run for each client. The fast ones are a program of their
// own.
func stdioTarget(kind string) target {
	command := fastServer
	if kind == "sdk" || kind == "gatewaypipe" || kind == "relaypipe" {
		command = self()
	}
	return target{kind: kind, command: command, env: []string{"BENCH_SERVER=" + kind}, echoTool: "echo", echoArg: "text",
		slowTool: "sleep", slowArgs: map[string]any{}}
}

// fastServer is the program of the fast server.
var fastServer = filepath.Join(filepath.Dir(self()), "fastserver")

func self() string {
	file, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return file
}
