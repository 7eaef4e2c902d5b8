package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// protocolDriver calls one server by one version of the protocol.
type protocolDriver struct {
	*facadeDriver
	version string
	pid     int
}

func (a *protocolDriver) name() string { return a.version }

// compareProtocols compares what a call costs a server that speaks both generations of the
// protocol: what its author gains by the choice.
func compareProtocols(ctx context.Context) error {
	t := stdioTarget("sdk")
	var drivers []*protocolDriver
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		a, err := newFacadeOf(ctx, t, era)
		if err != nil {
			return err
		}
		defer a.close()
		drivers = append(drivers, a)
	}
	w := newTable("A go-sdk server by the version of the protocol, stdio", "callers", "version", "calls/s", "× 2025-11-25", "server CPU µs/call", "client CPU µs/call", "client allocs/call")
	for _, n := range []int{1, 64} {
		got, server := make([][]sample, len(drivers)), make([][]float64, len(drivers))
		for r := range max(5, *rounds) {
			for i := range drivers {
				i := (i + r) % len(drivers)
				before, err := cpuOf(drivers[i].pid)
				if err != nil {
					return err
				}
				s, err := measure(ctx, drivers[i], t, n, 2*time.Second, echoLoad)
				if err != nil {
					return err
				}
				after, err := cpuOf(drivers[i].pid)
				if err != nil {
					return err
				}
				got[i], server[i] = append(got[i], s), append(server[i], float64((after-before).Microseconds())/s.calls)
			}
		}
		label := fmt.Sprint(n)
		recordRatios(label, figureRate, []string{drivers[0].version, drivers[1].version}, len(got[0]), func(client, round int) float64 { return got[client][round].perSecond })
		for i, a := range drivers {
			middle := func(f func(sample) float64) float64 { return median(field(got[i], f)) }
			w.row(label, a.version, fmt.Sprintf("%.0f", middle(func(s sample) float64 { return s.perSecond })), ratioTo(label, a.version, drivers[0].version, figureRate),
				fmt.Sprintf("%.1f", median(server[i])), fmt.Sprintf("%.1f", middle(func(s sample) float64 { return s.cpuMicros })),
				fmt.Sprintf("%.1f", middle(func(s sample) float64 { return s.allocs })))
		}
	}
	return w.end()
}

// newFacadeOf makes a client of a server by one generation of the protocol.
func newFacadeOf(ctx context.Context, t target, era mcpvisor.Era) (*protocolDriver, error) {
	a, err := newFacadeWith(ctx, t, false, era)
	if err != nil {
		return nil, err
	}
	st, _ := a.c.ServerStatus("s")
	return &protocolDriver{a, st.Session.ProtocolVersion, st.Session.PID}, nil
}

// cpuOf is the CPU time of a process, in steps of 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name may hold spaces
	var ticks int
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(string(f))
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
