package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/records"
)

const recordsSection = "records"

// compareRecords compares what records of calls on disk cost a call of 64 callers, and says how many were dropped.
func compareRecords(ctx context.Context) error {
	t := stdioTarget("fast")
	w := newTable("Small echo over stdio, fast server, 64 callers, by what is recorded of calls", append([]string{"call"}, callColumns...)...)
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
	got, err := compare(ctx, drivers, t, 64, max(9, *rounds), *duration, echoLoad)
	if err != nil {
		return err
	}
	rows(w, clientRaw, drivers, got)
	return w.end()
}
