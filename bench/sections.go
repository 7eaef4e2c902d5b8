package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

type makeArm func(context.Context, target) (arm, error)

func sections() []section {
	stdio := []makeArm{newSDKArm, newMCPGoArm, newFacadeArm, newRawArm}
	return []section{
		{"echo", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, fast server", stdioTarget("fast"), append(stdio, newPipeArm))
		}},
		{"modern", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, fast server, 2026-07-28", stdioTarget("modern"), stdio)
		}},
		{"sdkserver", func(ctx context.Context) error {
			return calls(ctx, "Small echo over stdio, go-sdk server", stdioTarget("sdk"), append(stdio, newPipeArm))
		}},
		{"http", func(ctx context.Context) error { return overHTTP(ctx, "fast server", "http") }},
		{"sdkhttp", func(ctx context.Context) error { return overHTTP(ctx, "go-sdk server", "sdkhttp") }},
		{"discovery", discovery},
		{"size", func(ctx context.Context) error { return sizes(ctx, stdioTarget("fast"), append(stdio, newPipeArm)) }},
	}
}

func open(ctx context.Context, t target, makers []makeArm) ([]arm, func(), error) {
	var arms []arm
	closeAll := func() {
		for _, a := range arms {
			a.close()
		}
	}
	for _, m := range makers {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		a, err := m(ctx, t)
		cancel()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		arms = append(arms, a)
	}
	return arms, closeAll, nil
}

// calls compares calls per second for several numbers of callers.
func calls(ctx context.Context, title string, t target, makers []makeArm) error {
	ns, err := numbers(*callers)
	if err != nil {
		return err
	}
	arms, closeAll, err := open(ctx, t, makers)
	if err != nil {
		return err
	}
	defer closeAll()
	fmt.Printf("\n## %s\n\n", title)
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "callers\tclient\tcalls/s\t× go-sdk\tCPU µs/call\tallocs/call\tB/call")
	for _, n := range ns {
		run := arms
		if _, limit := arms[len(arms)-1].(*pipeArm); limit && n > 1 {
			run = arms[:len(arms)-1]
		}
		got, err := compare(ctx, run, t, n, *rounds, *duration, echoWork)
		if err != nil {
			return err
		}
		for i, a := range run {
			row(w, fmt.Sprint(n), a, got[i], got[0])
		}
	}
	return w.Flush()
}

func row(w *tabwriter.Writer, label string, a arm, s, base []sample) {
	fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.1f\t%.1f\t%.0f\n", label, a.name(),
		median(field(s, func(s sample) float64 { return s.perSecond })),
		median(ratios(s, base)),
		median(field(s, func(s sample) float64 { return s.cpuMicros })),
		median(field(s, func(s sample) float64 { return s.allocs })),
		median(field(s, func(s sample) float64 { return s.bytes })))
}

// sizes compares megabytes per second for one caller.
func sizes(ctx context.Context, t target, makers []makeArm) error {
	arms, closeAll, err := open(ctx, t, makers)
	if err != nil {
		return err
	}
	defer closeAll()
	fmt.Printf("\n## Result size over stdio, one caller (MB/s)\n\n")
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "size\tclient\tMB/s\t× go-sdk\tCPU µs/call\tallocs/call\tB/call")
	for _, size := range []struct {
		label string
		bytes int
	}{{"10 KB", 10_000}, {"1 MB", 1_000_000}, {"10 MB", 10_000_000}} {
		got, err := compare(ctx, arms, t, 1, *rounds, *duration, blobWork(size.bytes))
		if err != nil {
			return err
		}
		for i, a := range arms {
			row(w, size.label, a, got[i], got[0])
		}
	}
	return w.Flush()
}

func overHTTP(ctx context.Context, title, kind string) error {
	t, stop, err := httpTarget(kind)
	if err != nil {
		return err
	}
	defer stop()
	return calls(ctx, "Small echo over Streamable HTTP, "+title, t, []makeArm{newSDKArm, newMCPGoArm, newFacadeArm, newRawArm})
}
