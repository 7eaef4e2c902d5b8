package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// summaryLine is one line of the table at the end: what one section measured of all
// clients, and the bars that mcpvisor must reach.
type summaryLine struct {
	what, unit           string
	section, row, figure string
	ours                 string // the client in our column; empty means mcpvisor
	format               string // of the values
	bars                 []bar
}

// floor is the client in the column of the floor.
func (l summaryLine) floor() string {
	if l.ours == clientStandby {
		return clientBareStandby
	}
	return clientBare
}

// client is the client in our column.
func (l summaryLine) client() string {
	if l.ours == "" {
		return clientOurs
	}
	return l.ours
}

// bar is what a figure of ours must reach.
type bar struct {
	figure string
	atMost bool
	value  float64
}

func atMost(figure string, value float64) bar  { return bar{figure, true, value} }
func atLeast(figure string, value float64) bar { return bar{figure, false, value} }

// met counts allocations in steps of 0.05: a pool that a collection has emptied is no allocation more.
func (b bar) met(got float64) bool {
	if strings.Contains(b.figure, figureOwnAllocs) {
		got = math.Round(got*20) / 20
	}
	if b.atMost {
		return got <= b.value
	}
	return got >= b.value
}

// String names the bar, and the client if the bar is a ratio to one.
func (b bar) String() string {
	sign := "≥"
	if b.atMost {
		sign = "≤"
	}
	if _, client, isRatio := strings.Cut(b.figure, " × "); isRatio {
		return fmt.Sprintf("%s %v × %s", sign, b.value, client)
	}
	return fmt.Sprintf("%s %v", sign, b.value)
}

func summaryLines() []summaryLine {
	const ms, rate, connect, recover = figureTime, figureRate, "connect", "recover"
	calls := func(row string, bars ...bar) summaryLine {
		return summaryLine{"`CallTool` over stdio, callers: " + row, "calls/s", "echo", row, rate, "", "%.0f", bars}
	}
	return []summaryLine{
		{"a further client without servers: make and close it", "ms", "client", "1, make and close", ms, "", "%.3f", []bar{atMost(ms, 0.3)}},
		{"the first client of a process", "ms", "client", "first, make and close", ms, "", "%.3f", []bar{atMost(ms, 4)}},
		{"a further client, allocated", "KB", "client", "1, make and close", figureKB, "", "%.0f", []bar{atMost(figureKB, 200)}},
		{"an idle stdio server: heap and stacks", "KB", "idle", "500", figureHeap, "", "%.1f", []bar{atMost(figureHeap, 30)}},
		{"the same, goroutines", "count", "idle", "500", figureGoroutines, "", "%.1f", []bar{atMost(figureGoroutines, 3)}},
		{"the same, resident memory (of 500, each)", "KB", "idle", "500", figureRSS, "", "%.1f", []bar{atMost(over(figureRSS, clientSDK), 1)}},
		{"500 servers connect in parallel", "ms", connect, "500, connect", ms, "", "%.0f", []bar{atMost(over(ms, clientSDK), 1), atMost(over(ms, clientBare), 1.15)}},
		{"500 servers close", "ms", connect, "500, close", ms, "", "%.0f", []bar{atMost(over(ms, clientSDK), 1.2)}},
		{"`kill -9` until the call in flight fails", "ms", recover, "fast, the call failed", ms, "", "%.2f", []bar{atMost(ms, 0.5), atMost(over(ms, clientSDK), 1)}},
		{"`kill -9` until ready again, cold", "ms", recover, "fast, ready again", ms, "", "%.2f", []bar{atMost(ms, 3), atMost(over(ms, clientSDK), 0.9)}},
		{"the same, server-everything", "ms", recover, "server-everything, ready again", ms, "", "%.0f", []bar{atMost(over(ms, clientSDK), 1)}},
		{"`kill -9` until ready again, with a standby", "ms", recover, "fast, ready again", ms, clientStandby, "%.2f", []bar{atMost(ms, 0.6)}},
		{"the same, server-everything", "ms", recover, "server-everything, ready again", ms, clientStandby, "%.1f", []bar{atMost(ms, 6)}},
		{"64 callers with metrics, beside a client without", "calls/s", observeSection, clientOurs, rate, observedByMetrics, "%.0f", []bar{atLeast(over(rate, observedByNone), 0.92)}},
		calls("1", atLeast(over(rate, clientSDK), 7)),
		calls("8"),
		calls("64", atLeast(over(rate, clientSDK), 22), atLeast(over(rate, bestPeer), 5.5)),
		calls("512", atLeast(over(rate, clientSDK), 16)),
		{"`CallTool`, 64 callers: client CPU", "µs/call", "echo", "64", figureCPU, "", "%.1f", nil},
		{"`CallTool`, 64 callers, without the caller's own", "allocs/call", "echo", "64", figureOwnAllocs, "", "%.1f", []bar{atMost(figureOwnAllocs, 5)}},
		{"the same", "B/call", "echo", "64", figureOwnBytes, "", "%.0f", []bar{atMost(figureOwnBytes, 300)}},
		{"`CallToolRaw`, 64 callers", "calls/s", "echo", "64", rate, clientRaw, "%.0f", nil},
		{"the same, without the caller's own", "allocs/call", "echo", "64", figureOwnAllocs, clientRaw, "%.1f", []bar{atMost(figureOwnAllocs, 2)}},
		{"the same", "B/call", "echo", "64", figureOwnBytes, clientRaw, "%.0f", []bar{atMost(figureOwnBytes, 140)}},
		{"1 MB result, decoded", "MB/s", "size", "1 MB", rate, "", "%.0f", []bar{atLeast(over(rate, clientRaw), 0.75)}},
		{"1 MB result, raw", "MB/s", "size", "1 MB", rate, clientRaw, "%.0f", nil},
		{"`CallTool` over Streamable HTTP, 64 callers", "calls/s", "http", "64", rate, "", "%.0f", []bar{atLeast(over(rate, clientSDK), 4.8)}},
		{"the same, without the caller's own", "allocs/call", "http", "64", figureOwnAllocs, "", "%.1f", []bar{atMost(figureOwnAllocs, 62)}},
		{"a call through the gateway, 64 callers over HTTP", "calls/s", gatewaySection, "64", rate, "", "%.0f", []bar{atLeast(over(rate, gatewayNPM), 3), atLeast(over(rate, gatewaySDK), 2)}},
		{"the same over stdio, one caller: what the gateway adds, p50", "µs", gatewaySection, "stdio, p50", figureAdded, "", "%.1f", []bar{atMost(figureAdded, 50)}},
		{"`tools/list` of 1,000 tools through the gateway", "ms", gatewaySection, "list", ms, "", "%.3f", []bar{atMost(ms, 0.5)}},
		{"an idle session of the gateway", "KB", gatewaySection, "session", figureHeap, "", "%.2f", []bar{atMost(figureHeap, 8)}},
		{"the same with an open event stream", "KB", gatewaySection, "session, stream", figureHeap, "", "%.1f", []bar{atMost(figureHeap, 28)}},
		{"the same, answers as event streams", "B/call", "stream", "64", figureOwnBytes, "", "%.0f", []bar{atMost(figureOwnBytes, 6000)}},
	}
}

// summarize prints the lines whose figures were measured.
func summarize() error {
	lines := slices.DeleteFunc(summaryLines(), func(l summaryLine) bool {
		_, measured := figures[key(l.section, l.row, l.client(), l.figure)]
		return !measured
	})
	if len(lines) == 0 {
		return nil
	}
	const none = "–"
	t := newTable("Summary", "what", "unit", clientOurs, clientSDK, clientMCPGo, clientTS, "bare floor", "ratio to go-sdk", "bar")
	for _, l := range lines {
		find := func(client, figure string) (float64, bool) {
			v, ok := figures[key(l.section, l.row, client, figure)]
			return v, ok
		}
		show := func(client, figure, format string) string {
			if v, ok := find(client, figure); ok {
				return fmt.Sprintf(format, v)
			}
			return none
		}
		ratio := show(l.client(), over(l.figure, clientSDK), "%.2f")
		var bars []string
		for _, b := range l.bars {
			verdict := none
			if got, ok := find(l.client(), b.figure); ok {
				verdict = "missed"
				if b.met(got) {
					verdict = "met"
				}
				if b.figure != l.figure && b.figure != over(l.figure, clientSDK) {
					verdict = fmt.Sprintf("%.2f, %s", got, verdict)
				}
			}
			bars = append(bars, b.String()+": "+verdict)
		}
		if len(bars) == 0 {
			bars = []string{none}
		}
		cells := []string{l.what, l.unit}
		for _, client := range []string{l.client(), clientSDK, clientMCPGo, clientTS, l.floor()} {
			cells = append(cells, show(client, l.figure, l.format))
		}
		t.row(append(cells, ratio, strings.Join(bars, "; "))...)
	}
	return t.end()
}
