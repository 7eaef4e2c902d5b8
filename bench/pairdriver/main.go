// Command pairdriver calls a fast server through mcpvisor, and reports what that costs: for each line "N" or
// "N raw" of its input it makes N calls of 64 callers, with CallTool or CallToolRaw, and prints the CPU time of a
// call of this process in microseconds. bench -against builds it in two trees, so it may use only what both have.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

const callers = 64

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pairdriver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string) error {
	c, err := facade.New()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	if err := c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: &mcpvisor.Stdio{Command: server}}); err != nil {
		return err
	}
	raw, decoded := json.RawMessage(`{"text":"hello world, this is a text"}`), map[string]any{"text": "hello world, this is a text"}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		number, kind, _ := strings.Cut(in.Text(), " ")
		calls, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		call := func() error { _, err := c.CallTool(ctx, "s/echo", decoded); return err }
		if kind == "raw" {
			call = func() error { _, err := c.CallToolRaw(ctx, "s/echo", raw); return err }
		}
		began := cpuTime()
		if err := load(calls, call); err != nil {
			return err
		}
		fmt.Println(float64(cpuTime()-began) / 1000 / float64(calls))
	}
	return nil
}

// load makes calls until all are made or one fails.
func load(calls int, call func() error) error {
	var left atomic.Int64
	left.Store(int64(calls))
	errs := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// cpuTime is the CPU time of this process in nanoseconds.
func cpuTime() int64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano()
}
