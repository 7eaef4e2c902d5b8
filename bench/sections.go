package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type openFunc func(context.Context, target) (driver, error)

func sections() []section {
	stdio := []openFunc{newSDKDriver, newMCPGoDriver, newTSDriver, newFacadeDriver, newRawDriver}
	return []section{
		{"echo", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, fast server", stdioTarget("fast"), append(stdio, newPipeDriver))
		}},
		{"modern", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, fast server, 2026-07-28", stdioTarget("modern"), stdio)
		}},
		{"sdkserver", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, go-sdk server", stdioTarget("sdk"), append(stdio, newPipeDriver))
		}},
		{"http", func(ctx context.Context) error { return overHTTP(ctx, "fast server", "http") }},
		{"stream", func(ctx context.Context) error {
			return overHTTP(ctx, "fast server that answers by event streams", "stream")
		}},
		{"sdkhttp", func(ctx context.Context) error { return overHTTP(ctx, "go-sdk server", "sdkhttp") }},
		{"everything", func(ctx context.Context) error {
			t := everythingTarget()
			if t.command == "" {
				fmt.Println("\nserver-everything is not installed (test/real/run) or there is no node: left out")
				return nil
			}
			return calls(ctx, "Small echo over stdio, server-everything", t, stdio)
		}},
		{"mixed", mixed},
		{"discovery", compareDiscovery},
		{"scale", scale},
		{"client", compareClients},
		{"idle", compareIdle},
		{"connect", compareConnecting},
		{"recover", compareRecovery},
		{"size", func(ctx context.Context) error { return sizes(ctx, stdioTarget("fast"), append(stdio, newPipeDriver)) }},
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
	w := newTable(title, "callers", "client", "calls/s", "× go-sdk", "CPU µs/call", "allocs/call", "B/call")
	for _, n := range ns {
		run := drivers
		if _, limit := drivers[len(drivers)-1].(*pipeDriver); limit && n > 1 {
			run = drivers[:len(drivers)-1]
		}
		got, err := compare(ctx, run, t, n, *rounds, *duration, echoLoad)
		if err != nil {
			return err
		}
		for i, a := range run {
			row(w, fmt.Sprint(n), a, got[i], got[0])
			if _, limit := a.(*pipeDriver); !limit && (n == 1 || n == 64) {
				bars = append(bars, bar{fmt.Sprintf("%s, %d callers", title, n), a.name(), median(ratios(got[i], got[0]))})
			}
		}
	}
	return w.end()
}

func row(w *table, label string, a driver, s, base []sample) {
	show := func(format string, f func(sample) float64) string {
		v := median(field(s, f))
		if v == 0 {
			return "–" // not measured: another process, another runtime
		}
		return fmt.Sprintf(format, v)
	}
	record(label, a.name(), "× go-sdk", median(ratios(s, base)))
	record(label, a.name(), figureAllocs, median(field(s, func(s sample) float64 { return s.allocs })))
	record(label, a.name(), figureBytes, median(field(s, func(s sample) float64 { return s.bytes })))
	w.row(label, a.name(), show("%.0f", func(s sample) float64 { return s.perSecond }),
		fmt.Sprintf("%.2f", median(ratios(s, base))),
		show("%.1f", func(s sample) float64 { return s.cpuMicros }),
		show("%.1f", func(s sample) float64 { return s.allocs }),
		show("%.0f", func(s sample) float64 { return s.bytes }))
}

// sizes compares megabytes per second for one caller.
func sizes(ctx context.Context, t target, opens []openFunc) error {
	drivers, closeAll, err := open(ctx, t, opens)
	if err != nil {
		return err
	}
	defer closeAll()
	w := newTable("Result size over stdio, one caller", "size", "client", "MB/s", "× go-sdk", "CPU µs/call", "allocs/call", "B/call")
	for _, size := range []struct {
		label string
		bytes int
	}{{"10 KB", 10_000}, {"1 MB", 1_000_000}, {"10 MB", 10_000_000}} {
		got, err := compare(ctx, drivers, t, 1, *rounds, *duration, blobLoad(size.bytes))
		if err != nil {
			return err
		}
		for i, a := range drivers {
			row(w, size.label, a, got[i], got[0])
		}
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
	for i, a := range ours {
		w.row("60 MB", a.name(), fmt.Sprintf("%.0f", median(field(got[i], func(s sample) float64 { return s.perSecond }))), "–", "–", "–", "–")
	}
	return w.end()
}

func overHTTP(ctx context.Context, title, kind string) error {
	t, stop, err := httpTarget(kind)
	if err != nil {
		return err
	}
	defer stop()
	return calls(ctx, "Small echo over Streamable HTTP, "+title, t, []openFunc{newSDKDriver, newMCPGoDriver, newTSDriver, newFacadeDriver, newRawDriver})
}

// mixed compares small calls beside a caller of large ones.
func mixed(ctx context.Context) error {
	t := stdioTarget("fast")
	drivers, closeAll, err := open(ctx, t, []openFunc{newSDKDriver, newMCPGoDriver, newFacadeDriver})
	if err != nil {
		return err
	}
	defer closeAll()
	w := newTable("Small calls of 8 callers while a ninth asks for 10 MB again and again", "callers", "client", "small calls/s", "× go-sdk", "CPU µs/call", "allocs/call", "B/call")
	got, err := compare(ctx, drivers, t, 9, *rounds, 2*(*duration), mixedLoad)
	if err != nil {
		return err
	}
	for i, a := range drivers {
		row(w, "8 + 1", a, got[i], got[0])
	}
	return w.end()
}
