// Command fastserver is the fast server of the benchmarks as a small program of its own.
// It starts in about two milliseconds; the benchmarks' own binary takes ten, which hides
// what a restart costs the client. BENCH_SERVER=modern makes it speak 2026-07-28.
package main

import (
	"os"

	"github.com/mcpvisor/mcpvisor/bench/internal/fast"
)

func main() {
	_ = fast.Serve(os.Stdin, os.Stdout, os.Getenv("BENCH_SERVER") == "modern")
}
