package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type makeArm func(context.Context, target) (arm, error)

func sections() []section {
	stdio := []makeArm{newSDKArm, newMCPGoArm, newTSArm, newFacadeArm, newRawArm}
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
		{"everything", func(ctx context.Context) error {
			t := everythingTarget()
			if t.command == "" {
				fmt.Println("\nserver-everything is not installed (test/real/run) or there is no node: left out")
				return nil
			}
			return calls(ctx, "Small echo over stdio, server-everything", t, stdio)
		}},
		{"mixed", mixed},
		{"discovery", discoverySection},
		{"scale", scale},
		{"connect", connecting},
		{"recover", recovering},
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
		if errors.Is(err, errNoTS) {
			continue
		}
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
	w := newTable(title, "callers", "client", "calls/s", "× go-sdk", "CPU µs/call", "allocs/call", "B/call")
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
			if _, limit := a.(*pipeArm); !limit && (n == 1 || n == 64) {
				bars = append(bars, bar{fmt.Sprintf("%s, %d callers", title, n), a.name(), median(ratios(got[i], got[0]))})
			}
		}
	}
	return w.end()
}

func row(w *table, label string, a arm, s, base []sample) {
	show := func(format string, f func(sample) float64) string {
		v := median(field(s, f))
		if v == 0 {
			return "–" // not measured: another process, another runtime
		}
		return fmt.Sprintf(format, v)
	}
	w.row(label, a.name(), show("%.0f", func(s sample) float64 { return s.perSecond }),
		fmt.Sprintf("%.2f", median(ratios(s, base))),
		show("%.1f", func(s sample) float64 { return s.cpuMicros }),
		show("%.1f", func(s sample) float64 { return s.allocs }),
		show("%.0f", func(s sample) float64 { return s.bytes }))
}

// sizes compares megabytes per second for one caller.
func sizes(ctx context.Context, t target, makers []makeArm) error {
	arms, closeAll, err := open(ctx, t, makers)
	if err != nil {
		return err
	}
	defer closeAll()
	w := newTable("Result size over stdio, one caller", "size", "client", "MB/s", "× go-sdk", "CPU µs/call", "allocs/call", "B/call")
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
	// The go-sdk refuses a line of that length.
	var ours []arm
	for _, a := range arms {
		switch a.(type) {
		case *facadeArm, *pipeArm:
			ours = append(ours, a)
		}
	}
	got, err := compare(ctx, ours, t, 1, 2, *duration, blobWork(60_000_000))
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
	return calls(ctx, "Small echo over Streamable HTTP, "+title, t, []makeArm{newSDKArm, newMCPGoArm, newTSArm, newFacadeArm, newRawArm})
}

// mixed compares small calls beside a caller of large ones.
func mixed(ctx context.Context) error {
	t := stdioTarget("fast")
	arms, closeAll, err := open(ctx, t, []makeArm{newSDKArm, newMCPGoArm, newFacadeArm})
	if err != nil {
		return err
	}
	defer closeAll()
	w := newTable("Small calls of 8 callers while a ninth asks for 10 MB again and again", "callers", "client", "small calls/s", "× go-sdk", "CPU µs/call", "allocs/call", "B/call")
	got, err := compare(ctx, arms, t, 9, *rounds, 2*(*duration), mixedWork)
	if err != nil {
		return err
	}
	for i, a := range arms {
		row(w, "8 + 1", a, got[i], got[0])
	}
	return w.end()
}
