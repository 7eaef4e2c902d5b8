package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/records"
)

const recordsSection = "records"

// compareRecords compares what records of calls on disk cost 64 callers: of their own calls, and of 10,000 others a second. It says
// how many were dropped.
func compareRecords(ctx context.Context) error {
	t := stdioTarget("fast")
	w := newTable("Small echo over stdio, fast server, 64 callers, by what is recorded, and of which calls", append([]string{"recorded"}, callColumns...)...)
	parent, err := os.MkdirTemp("", "records")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(parent) }()
	var drivers []driver
	for _, arguments := range []records.Arguments{"", records.ArgumentsNone, records.ArgumentsWhole} {
		name, opts := "no records", []facade.Option(nil)
		if arguments != "" {
			writer, err := records.Open(filepath.Join(parent, string(arguments)), records.Options{Arguments: arguments})
			if err != nil {
				return err
			}
			name, opts = "arguments: "+string(arguments), []facade.Option{facade.WithEndedCalls(writer.Call, arguments != records.ArgumentsNone)}
			defer func() {
				_ = writer.Close()
				s := writer.Stats()
				fmt.Printf("%s: %d written, %d dropped\n", name, s.Written, s.Dropped)
			}()
		}
		a, err := newFacadeWith(ctx, t, true, mcpvisor.EraAuto, opts...)
		if err != nil {
			return err
		}
		defer a.close()
		drivers = append(drivers, &observedDriver{a, name})
	}
	plain, err := newRawDriver(ctx, t)
	if err != nil {
		return err
	}
	defer plain.close()
	var beside atomic.Pointer[driver] // makes 10,000 calls a second
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range 64 {
		go func() {
			for next := time.Now(); ctx.Err() == nil; next = next.Add(6400 * time.Microsecond) {
				time.Sleep(time.Until(next))
				if d := beside.Load(); d != nil {
					_, _ = (*d).echo(ctx, "c0-1000")
				}
			}
		}()
	}
	own, others := make([][]sample, len(drivers)), make([][]sample, len(drivers))
	for range max(9, *rounds) {
		for i := range drivers {
			beside.Store(nil)
			a, err := measure(ctx, drivers[i], t, 64, *duration, echoLoad)
			beside.Store(&drivers[i])
			b, failed := measure(ctx, plain, t, 64, *duration, echoLoad)
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			own[i], others[i] = append(own[i], a), append(others[i], b)
		}
	}
	rows(w, "all", drivers, own)
	rows(w, "10,000 others a second", drivers, others)
	err = w.end()
	for _, d := range drivers[1:] {
		fmt.Printf("10,000 others a second, %s: %s × the calls without records\n", d.name(), ratioTo("10,000 others a second", d.name(), drivers[0].name(), figureRate))
	}
	return err
}
