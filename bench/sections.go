package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

type openFunc func(context.Context, target) (driver, error)

func sections() []section {
	stdio := []openFunc{newSDKDriver, newMCPGoDriver, newTSDriver, newFacadeDriver, newRawDriver}
	return []section{
		{"echo", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, fast server", stdioTarget("fast"), append(stdio, newPipeDriver, newSharedPipeDriver))
		}},
		{"modern", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, fast server, 2026-07-28", stdioTarget("modern"), append(stdio, newPipeDriver, newSharedPipeDriver))
		}},
		{"sdkserver", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, go-sdk server", stdioTarget("sdk"), append(stdio, newPipeDriver))
		}},
		{"protocol", compareProtocols},
		{observeSection, compareObservers},
		{recordsSection, compareRecords},
		{"journal", compareJournal},
		{"http", func(ctx context.Context) error { return overHTTP(ctx, "fast server", "http") }},
		{"stream", func(ctx context.Context) error {
			return overHTTP(ctx, "fast server that answers by event streams", "stream")
		}},
		{"everything", func(ctx context.Context) error {
			t := everythingTarget()
			if t.command == "" {
				fmt.Println("\nserver-everything is not installed (test/real/run) or there is no node: left out")
				return nil
			}
			return calls(ctx, "Small echo over stdio, server-everything", t, stdio)
		}},
		{gatewaySection, compareGateways},
		{"client", compareClients},
		{"idle", compareIdle},
		{"connect", compareConnecting},
		{"recover", compareRecovery},
		{"size", func(ctx context.Context) error {
			return sizes(ctx, stdioTarget("fast"), append(stdio, newFreshPipeDriver))
		}},
		{guardSection, func(ctx context.Context) error { return guard(ctx) }},
	}
}

func open(ctx context.Context, t target, opens []openFunc) ([]driver, func(), error) {
	var drivers []driver
	closeAll := func() {
		for _, a := range drivers {
			a.close()
		}
	}
	for _, m := range opens {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		a, err := m(ctx, t)
		cancel()
		if errors.Is(err, errNoTS) {
			continue
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		drivers = append(drivers, a)
	}
	return drivers, closeAll, nil
}

// calls compares calls per second for several numbers of callers.
func calls(ctx context.Context, title string, t target, opens []openFunc) error {
	ns, err := numbers(*callers)
	if err != nil {
		return err
	}
	drivers, closeAll, err := open(ctx, t, opens)
	if err != nil {
		return err
	}
	defer closeAll()
	w := newTable(title, append([]string{"callers"}, callColumns...)...)
	for _, n := range ns {
		run := slices.DeleteFunc(slices.Clone(drivers), func(a driver) bool {
			limited, ok := a.(interface{ fits(callers int) bool })
			return ok && !limited.fits(n)
		})
		got, err := compare(ctx, run, t, n, *rounds, *duration, echoLoad)
		if err != nil {
			return err
		}
		rows(w, fmt.Sprint(n), run, got)
		if err := recordOwn(ctx, fmt.Sprint(n), t); err != nil {
			return err
		}
	}
	return w.end()
}

// callColumns are the columns of a table of calls, after that of the label.
var callColumns = []string{"client", "per second", "× go-sdk", "× bare", "CPU µs/call", "allocs/call", "B/call"}

// rows prints and records what the drivers did.
func rows(w *table, label string, drivers []driver, got [][]sample) {
	var names []string
	for _, a := range drivers {
		names = append(names, a.name())
	}
	recordRatios(label, figureRate, names, len(got[0]), func(client, round int) float64 { return got[client][round].perSecond })
	recordRatios(label, figureCPU, names, len(got[0]), func(client, round int) float64 { return got[client][round].cpuMicros })
	for i, name := range names {
		figure := func(figure, format string, f func(sample) float64) string {
			v := median(field(got[i], f))
			if v == 0 {
				return "–" // not measured: another process, another runtime
			}
			record(label, name, figure, v)
			return fmt.Sprintf(format, v)
		}
		best := math.Inf(1)
		for _, peer := range []string{clientMCPGo, clientTS} {
			if v, ok := figures[key(currentSection, label, name, over(figureRate, peer))]; ok {
				best = min(best, v)
			}
		}
		if !math.IsInf(best, 1) {
			record(label, name, over(figureRate, bestPeer), best)
		}
		w.row(label, name, figure(figureRate, "%.0f", func(s sample) float64 { return s.perSecond }),
			ratioTo(label, name, clientSDK, figureRate), ratioTo(label, name, clientBare, figureRate),
			figure(figureCPU, "%.1f", func(s sample) float64 { return s.cpuMicros }),
			figure(figureAllocs, "%.1f", func(s sample) float64 { return s.allocs }),
			figure(figureBytes, "%.0f", func(s sample) float64 { return s.bytes }))
	}
}

// recordOwn notes what a call allocates without what its caller allocates.
func recordOwn(ctx context.Context, label string, t target) error {
	for _, name := range []string{clientSDK, clientMCPGo, clientOurs, clientRaw, clientBare} {
		allocs, bytes, err := callerCost(ctx, t, name == clientRaw || name == clientBare)
		if err != nil {
			return err
		}
		own := func(own, all string, callers float64) {
			if v, ok := figures[key(currentSection, label, name, all)]; ok {
				record(label, name, own, max(v-callers, 0.01)) // zero would mean that it was not measured
			}
		}
		own(figureOwnAllocs, figureAllocs, allocs)
		own(figureOwnBytes, figureBytes, bytes)
	}
	return nil
}

// sizes compares megabytes per second for one caller.
func sizes(ctx context.Context, t target, opens []openFunc) error {
	drivers, closeAll, err := open(ctx, t, opens)
	if err != nil {
		return err
	}
	defer closeAll()
	w := newTable("Result size over stdio, one caller, MB", append([]string{"size"}, callColumns...)...)
	for _, size := range []struct {
		label string
		bytes int
	}{{"10 KB", 10_000}, {"1 MB", 1_000_000}, {"10 MB", 10_000_000}} {
		got, err := compare(ctx, drivers, t, 1, *rounds, *duration, blobLoad(size.bytes))
		if err != nil {
			return err
		}
		rows(w, size.label, drivers, got)
	}
	// The go-sdk refuses lines of 60 MB.
	var ours []driver
	for _, a := range drivers {
		switch a.(type) {
		case *facadeDriver, *pipeDriver:
			ours = append(ours, a)
		}
	}
	got, err := compare(ctx, ours, t, 1, 2, *duration, blobLoad(60_000_000))
	if err != nil {
		return err
	}
	rows(w, "60 MB", ours, got)
	return w.end()
}

func overHTTP(ctx context.Context, title, kind string) error {
	t, stop, err := httpTarget(kind)
	if err != nil {
		return err
	}
	defer stop()
	return calls(ctx, "Small echo over Streamable HTTP, "+title, t, []openFunc{newSDKDriver, newMCPGoDriver, newTSDriver, newFacadeDriver, newRawDriver, newHTTPDriver})
}
