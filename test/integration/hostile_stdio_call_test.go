//go:build linux

package integration

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// Rows that several misbehaviours share. The call of unansweredCall ends by its
// timeout.
var (
	tolerated      = stdioRow{eras: bothEras}
	unansweredCall = stdioRow{limit: shortTimeout, end: timesOut}
	crashed        = stdioRow{end: crashes, fate: replaced}
	undecodable    = stdioRow{end: protocolError}
)

// inBothEras runs a row in both eras.
func inBothEras(r stdioRow) stdioRow {
	r.eras = bothEras
	return r
}

// checked adds a check to a row.
func checked(r stdioRow, check func(*stdioRun)) stdioRow {
	r.check = check
	return r
}

func requireJunk(v *stdioRun)      { require.Positive(v.t, v.discarded().Malformed) }
func requireOversize(v *stdioRun)  { require.Positive(v.t, v.discarded().Oversize) }
func requireUnmatched(v *stdioRun) { require.Positive(v.t, v.discarded().Unmatched) }

// largeArgs are arguments that are larger than the buffer of a pipe.
var largeArgs = map[string]any{"text": strings.Repeat("x", 1<<20)}

func eventuallyUnmatched(v *stdioRun) {
	waitUntil(v.within(), v.t, "the late answer is counted", func() bool { return v.discarded().Unmatched > 0 })
}

var stdioCallRows = map[string]stdioRow{
	"call/hang": inBothEras(unansweredCall),
	"call/exit": inBothEras(checked(crashed, func(v *stdioRun) {
		require.Contains(v.t, v.failure.Stderr, "fatal: out of paper")
	})),
	"call/exit-0":            crashed,
	"call/kill":              inBothEras(crashed),
	"call/abort":             crashed,
	"call/exit-in-answer":    inBothEras(crashed),
	"call/kill-in-answer":    crashed,
	"call/exit-after-answer": {fate: replaced},
	"call/half-line":         inBothEras(checked(unansweredCall, requireJunk)),
	"call/deaf": {limit: shortTimeout, end: timesOut, fate: replaced, spec: probed, act: func(v *stdioRun) (*mcp.CallToolResult, error) {
		return v.callBadTool(largeArgs)
	}},
	"call/never-reads":        {spec: shortCallTimeout, limit: shortTimeout, end: ending{oneOf: []error{mcpvisor.ErrCanceled}}, fate: unusable, act: canceledCall(largeArgs)},
	"call/late":               {end: failsWith(mcpvisor.ErrCanceled, mcpvisor.OutcomeUnknown), act: canceledCall(nil), check: eventuallyUnmatched},
	"call/one-byte":           crashed,
	"call/byte-by-byte":       tolerated,
	"call/reverse":            {eras: bothEras, act: concurrentCalls(5), anyResult: true},
	"call/twice":              inBothEras(checked(tolerated, eventuallyUnmatched)),
	"call/answer-then-error":  checked(tolerated, eventuallyUnmatched),
	"call/in-advance":         checked(tolerated, requireUnmatched),
	"call/in-advance-errors":  checked(tolerated, requireUnmatched),
	"call/small-ids":          tolerated,
	"call/half-line-unended":  {limit: shortTimeout, end: timesOut, act: callTwice},
	"call/endless-line":       {spec: probedWithSmallMessages, limit: shortTimeout, end: timesOut, fate: replaced},
	"call/endless-answer":     {spec: probedWithSmallMessages, limit: shortTimeout, end: ending{oneOf: append(timesOut.oneOf, protocolError.oneOf...)}, fate: replaced},
	"call/only-notifies":      inBothEras(unansweredCall),
	"call/echoes-the-request": inBothEras(unansweredCall),
	"call/other-answer":       {anyResult: true, end: ending{oneOf: protocolError.oneOf, orSuccess: true}},
}

// probed sets probes that soon find a server that does not answer.
func probed(s *mcpvisor.ServerSpec) {
	s.Probe = mcpvisor.Probe{Interval: 50 * time.Millisecond, Timeout: 250 * time.Millisecond, Failures: 2}
}

// shortCallTimeout makes the client give a silent server up soon.
func shortCallTimeout(s *mcpvisor.ServerSpec) { s.Timeouts.Call = 2 * time.Second }

// probedWithSmallMessages is probed with a small message limit.
func probedWithSmallMessages(s *mcpvisor.ServerSpec) {
	probed(s)
	s.Limits.MaxMessageBytes = 1 << 20
}

// callTwice calls the bad tool and then the echo tool, whose answer is lost as well.
func callTwice(v *stdioRun) (*mcp.CallToolResult, error) {
	res, err := v.callBadTool(nil)
	_, lost := v.c.CallTool(context.Background(), hostileServer+"/"+hostile.EchoTool, nil, facade.WithTimeout(shortTimeout))
	require.ErrorIs(v.t, lost, mcpvisor.ErrTimeout)
	return res, err
}
