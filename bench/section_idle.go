package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/facade"
)

// idleServers is how many servers are connected to and then left alone.
const idleServers = 500

// idleReport is what a process with idle servers costs, less what it cost before.
type idleReport struct {
	Heap, Stacks, RSS float64 // bytes
	Goroutines        int
}

// compareIdle compares what idle stdio servers cost the process of the client. Each
// client runs in a process of its own, because a process does not give memory back.
func compareIdle(ctx context.Context) error {
	t := newTable(fmt.Sprintf("%d idle stdio servers, for each of them", idleServers), "client", "heap KB", "stack KB", "goroutines", "RSS KB", "RSS × go-sdk")
	clients := []string{clientSDK, clientMCPGo, clientOurs, clientBare}
	got := map[string][]idleReport{}
	for range max(3, *rounds/2) {
		for _, name := range clients {
			r, err := runIdle(ctx, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			got[name] = append(got[name], r)
		}
	}
	middle := func(name string, f func(idleReport) float64) float64 {
		var values []float64
		for _, r := range got[name] {
			values = append(values, f(r)/idleServers)
		}
		return median(values)
	}
	rss := func(r idleReport) float64 { return r.RSS }
	recordRatios("500", figureRSS, clients, len(got[clientSDK]), func(client, round int) float64 { return rss(got[clients[client]][round]) })
	for _, name := range clients {
		heap := middle(name, func(r idleReport) float64 { return r.Heap }) / 1e3
		goroutines := middle(name, func(r idleReport) float64 { return float64(r.Goroutines) })
		stacks := middle(name, func(r idleReport) float64 { return r.Stacks }) / 1e3
		record("500", name, figureHeap, heap+stacks)
		record("500", name, figureGoroutines, max(goroutines, 0.001)) // zero would mean that it was not measured
		record("500", name, figureRSS, middle(name, rss)/1e3)
		t.row(name, fmt.Sprintf("%.1f", heap), fmt.Sprintf("%.1f", stacks), fmt.Sprintf("%.1f", goroutines),
			fmt.Sprintf("%.1f", middle(name, rss)/1e3), ratioTo("500", name, clientSDK, figureRSS))
	}
	return t.end()
}

// runIdle runs this program as one of the clients, and returns its report.
func runIdle(ctx context.Context, client string) (idleReport, error) {
	var r idleReport
	err := runSelf(ctx, &r, "BENCH_SERVER=idle", "BENCH_CLIENT="+client)
	return r, err
}

// reportIdle is that process: it connects, waits until it is quiet, and prints its report.
// The first server is not counted: with it come the parts of the program and what all
// servers share.
func reportIdle(ctx context.Context) bool {
	connect, closeAll, err := newIdleClient(ctx, os.Getenv("BENCH_CLIENT"))
	if err == nil {
		err = connect(1)
	}
	before := settledCost()
	if err == nil {
		err = connect(idleServers)
	}
	after := settledCost()
	closeAll()
	return report(idleReport{after.Heap - before.Heap, after.Stacks - before.Stacks, after.RSS - before.RSS, after.Goroutines - before.Goroutines}, err)
}

// newIdleClient makes one of the clients. connect connects it to n servers more.
func newIdleClient(ctx context.Context, client string) (connect func(n int) error, closeAll func(), err error) {
	t := stdioTarget("fast")
	if client == clientOurs {
		c, err := facade.New()
		if err != nil {
			return nil, func() {}, err
		}
		return func(n int) error {
			return inParallel(n, func(i int) error {
				s := spec(fmt.Sprintf("s%d-%03d", n, i), t)
				s.Timeouts = longTimeouts
				return c.Register(ctx, s)
			})
		}, func() { _ = c.Close(ctx) }, nil
	}
	open := map[string]openFunc{clientSDK: newSDKDriver, clientMCPGo: newMCPGoDriver, clientBare: newIdlePipe}[client]
	if open == nil {
		return nil, func() {}, errors.New("unknown client " + client)
	}
	var mu sync.Mutex
	var drivers []driver
	return func(n int) error {
			return inParallel(n, func(int) error {
				d, err := open(ctx, t)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					drivers = append(drivers, d)
				}
				return err
			})
		}, func() {
			_ = inParallel(len(drivers), func(i int) error { drivers[i].close(); return nil })
		}, nil
}

// settledCost is what this process holds when it has been quiet for a while. The runtime
// gives memory back in the background, for some seconds after a collection: what is resident
// before that depends on when the collection was.
func settledCost() idleReport {
	time.Sleep(time.Second) // what follows a handshake has ended by then
	cost := costOfProcess()
	for quiet := 0; quiet < 4; quiet++ {
		time.Sleep(500 * time.Millisecond)
		if rss := residentBytes(); rss < cost.RSS {
			cost.RSS, quiet = rss, 0
		}
	}
	return cost
}

// costOfProcess is what this process holds, after a garbage collection.
func costOfProcess() idleReport {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return idleReport{Heap: float64(m.HeapAlloc), Stacks: float64(m.StackInuse), RSS: residentBytes(), Goroutines: runtime.NumGoroutine()}
}

// residentBytes reads the resident set of this process; 0 where there is no /proc.
func residentBytes() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			return kb * 1024
		}
	}
	return 0
}
