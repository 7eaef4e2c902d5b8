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
	"github.com/mcpvisor/mcpvisor/mcptest/hostile"
)

// The rows that recur. A silent one runs into the limit of its call.
var (
	tolerated = stdioRow{eras: bothEras}
	silent    = stdioRow{limit: soon, end: timesOut}
	crashed   = stdioRow{end: crashes, fate: replaced}
	unread    = stdioRow{end: broken}
)

// everywhere is a row in both eras.
func everywhere(r stdioRow) stdioRow {
	r.eras = bothEras
	return r
}

// checked is a row that looks at more.
func checked(r stdioRow, check func(*stdioRun)) stdioRow {
	r.check = check
	return r
}

func requireJunk(v *stdioRun)      { require.Positive(v.t, v.noise().Malformed) }
func requireOversize(v *stdioRun)  { require.Positive(v.t, v.noise().Oversize) }
func requireUnmatched(v *stdioRun) { require.Positive(v.t, v.noise().Unmatched) }

// large is an argument that no pipe holds.
var large = map[string]any{"text": strings.Repeat("x", 1<<20)}

func eventuallyUnmatched(v *stdioRun) {
	until(v.within(), v.t, "the late answer is counted", func() bool { return v.noise().Unmatched > 0 })
}

var stdioCallRows = map[string]stdioRow{
	"call/hang": everywhere(silent),
	"call/exit": everywhere(checked(crashed, func(v *stdioRun) {
		require.Contains(v.t, v.failure.Stderr, "fatal: out of paper")
	})),
	"call/exit-0":            crashed,
	"call/kill":              everywhere(crashed),
	"call/abort":             crashed,
	"call/exit-in-answer":    everywhere(crashed),
	"call/kill-in-answer":    crashed,
	"call/exit-after-answer": {fate: replaced},
	"call/half-line":         everywhere(checked(silent, requireJunk)),
	"call/deaf": {limit: soon, end: timesOut, fate: replaced, spec: probed, act: func(v *stdioRun) (*mcp.CallToolResult, error) {
		return v.bad(large)
	}},
	"call/never-reads":        {spec: terse, limit: soon, end: ending{is: []error{mcpvisor.ErrCanceled}}, fate: useless, act: canceled(large)},
	"call/late":               {end: fails(mcpvisor.ErrCanceled, mcpvisor.OutcomeUnknown), act: canceled(nil), check: eventuallyUnmatched},
	"call/one-byte":           crashed,
	"call/byte-by-byte":       tolerated,
	"call/reverse":            {eras: bothEras, act: several(5), any: true},
	"call/twice":              everywhere(checked(tolerated, eventuallyUnmatched)),
	"call/answer-then-error":  checked(tolerated, eventuallyUnmatched),
	"call/in-advance":         checked(tolerated, requireUnmatched),
	"call/in-advance-errors":  checked(tolerated, requireUnmatched),
	"call/small-ids":          tolerated,
	"call/half-line-unended":  {limit: soon, end: timesOut, act: twice},
	"call/endless-line":       {spec: confined, limit: soon, end: timesOut, fate: replaced},
	"call/endless-answer":     {spec: confined, limit: soon, end: ending{is: append(timesOut.is, broken.is...)}, fate: replaced},
	"call/only-notifies":      everywhere(silent),
	"call/echoes-the-request": everywhere(silent),
	"call/other-answer":       {any: true, end: ending{is: broken.is, orNone: true}},
}

// probed makes a server show soon that it does not answer.
func probed(s *mcpvisor.ServerSpec) {
	s.Probe = mcpvisor.Probe{Interval: 50 * time.Millisecond, Timeout: 250 * time.Millisecond, Failures: 2}
}

// terse lets a server that says nothing be given up soon.
func terse(s *mcpvisor.ServerSpec) { s.Timeouts.Call = 2 * time.Second }

// confined is probed, and lines have a limit that is soon reached.
func confined(s *mcpvisor.ServerSpec) {
	probed(s)
	s.Limits.MaxMessageBytes = 1 << 20
}

// twice calls, and then calls the good tool, whose answer may be lost as well.
func twice(v *stdioRun) (*mcp.CallToolResult, error) {
	res, err := v.bad(nil)
	_, lost := v.c.CallTool(context.Background(), hostileServer+"/"+hostile.EchoTool, nil, facade.WithTimeout(soon))
	require.ErrorIs(v.t, lost, mcpvisor.ErrTimeout)
	return res, err
}
