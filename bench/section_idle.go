package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
func reportIdle(ctx context.Context) bool {
	before := costOfProcess()
	closeAll, err := connectIdle(ctx, os.Getenv("BENCH_CLIENT"))
	if err == nil {
		time.Sleep(time.Second) // what follows a handshake has ended by then
		after := costOfProcess()
		err = json.NewEncoder(os.Stdout).Encode(idleReport{after.Heap - before.Heap, after.Stacks - before.Stacks, after.RSS - before.RSS, after.Goroutines - before.Goroutines})
	}
	closeAll()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

// connectIdle connects one of the clients to its servers.
func connectIdle(ctx context.Context, client string) (closeAll func(), err error) {
	t := stdioTarget("fast")
	if client == clientOurs {
		c, err := facade.New()
		if err != nil {
			return func() {}, err
		}
		return func() { _ = c.Close(ctx) }, inParallel(idleServers, func(i int) error {
			s := spec(fmt.Sprintf("s%03d", i), t)
			s.Timeouts = longTimeouts
			return c.Register(ctx, s)
		})
	}
	open := map[string]openFunc{clientSDK: newSDKDriver, clientMCPGo: newMCPGoDriver, clientBare: newIdlePipe}[client]
	if open == nil {
		return func() {}, errors.New("unknown client " + client)
	}
	drivers := make([]driver, idleServers)
	return func() {
			_ = inParallel(idleServers, func(i int) error {
				if drivers[i] != nil {
					drivers[i].close()
				}
				return nil
			})
		}, inParallel(idleServers, func(i int) error {
			var err error
			drivers[i], err = open(ctx, t)
			return err
		})
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
