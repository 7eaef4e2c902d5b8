//go:build linux

package integration

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// lively is probed often, and patiently.
func lively(s *mcpvisor.ServerSpec) {
	s.Probe = mcpvisor.Probe{Interval: 20 * time.Millisecond, Timeout: slack, Failures: 1}
}

// brisk is for starts that must not wait for anything.
func brisk(s *mcpvisor.ServerSpec) { s.Timeouts.Start = 5 * time.Second }

// awaited does nothing until the end of the session is noticed.
func awaited(*stdioRun) (*mcp.CallToolResult, error) { return nil, nil }

// unanswered is how long a server is left alone that must be taken for alive:
// several probes fail meanwhile, if any does.
const unanswered = 500 * time.Millisecond

func leftAlone(v *stdioRun) (*mcp.CallToolResult, error) {
	pause(context.Background(), unanswered)
	return nil, nil
}

// silentTwice calls for longer than a server that answers no ping would live.
func silentTwice(v *stdioRun) (*mcp.CallToolResult, error) {
	_, err := v.bad(nil)
	require.ErrorIs(v.t, err, mcpvisor.ErrTimeout)
	return v.bad(nil)
}

// doomed is a server that does not answer probes, and is replaced; so is the
// next one.
var doomed = stdioRow{spec: probed, act: awaited, any: true, fate: replaced}

// toleratedOrSilent: the call is answered, or fails for itself only.
var toleratedOrSilent = stdioRow{limit: soon, end: ending{is: []error{mcpvisor.ErrTimeout, mcpvisor.ErrProtocol}, orNone: true}}

var stdioTrafficRows = map[string]stdioRow{
	"notification/flood":            tolerated,
	"notification/progress":         harmless,
	"notification/progress-of-ours": tolerated,
	"notification/list-changed":     harmless,
	"notification/updated":          harmless,
	"notification/cancelled":        tolerated,
	"notification/cancelled-all":    harmless,
	"notification/large":            harmless,
	"notification/broad":            checked(harmless, requireJunk),
	"notification/unknown":          harmless,
	"notification/no-params":        tolerated,
	"notification/null-params":      tolerated,
	"notification/array-params":     tolerated,
	"notification/wrong-params":     tolerated,
	"notification/method-odd":       harmless,
	"notification/of-clients":       harmless,
	"notification/deep":             checked(harmless, requireJunk),

	"request/ping":              tolerated,
	"request/roots":             tolerated,
	"request/sampling":          tolerated,
	"request/sampling-null":     harmless,
	"request/elicitation":       harmless,
	"request/elicitation-wrong": harmless,
	"request/form-of-itself":    harmless,
	"request/form-of-forms":     harmless,
	"request/sampling-broad":    harmless,
	"request/elicitation-broad": harmless,
	"request/unknown":           tolerated,
	"request/of-servers":        harmless,
	"request/completion":        harmless,
	"request/initialize":        harmless,
	"request/our-id":            tolerated,
	"request/same-id":           harmless,
	"request/odd-ids":           harmless,
	"request/flood":             harmless,
	"request/flood-unknown":     harmless,
	"request/flood-unread":      harmless,
	"request/large":             harmless,

	"stream/crlf":          tolerated,
	"stream/spaces":        harmless,
	"stream/bom":           {eras: bothEras, spec: brisk},
	"stream/bom-in-answer": harmless,
	"stream/pretty":        everywhere(checked(unread, requireJunk)),
	"stream/two-on-a-line": checked(silent, requireJunk),
	"stream/trailing":      checked(silent, requireJunk),
	"stream/leading":       checked(silent, requireJunk),
	"stream/batch":         tolerated,
	"stream/batch-mixed":   tolerated,
	"stream/batch-large":   harmless,
	"stream/batch-nested":  toleratedOrSilent,
	"stream/utf-16-le":     {limit: soon, end: timesOut, act: twice, check: requireJunk},
	"stream/utf-16-be":     checked(silent, requireJunk),
	"stream/junk":          checked(tolerated, requireJunk),
	"stream/junk-flood":    checked(harmless, requireJunk),
	"stream/blank-flood":   harmless,
	"stream/junk-long":     checked(harmless, requireJunk),
	"stream/junk-deep":     checked(harmless, requireJunk),
	"stream/junk-quotes":   checked(harmless, requireJunk),
	"stream/binary":        checked(harmless, requireJunk),
	"stream/progress-bar":  checked(silent, requireJunk),

	"liveness/no-ping":      everywhere(doomed),
	"liveness/ping-refused": {eras: bothEras, spec: lively, act: leftAlone, any: true},
	"liveness/ping-text":    {spec: lively, act: leftAlone, any: true},
	"liveness/ping-exit":    doomed,
	"liveness/chatty":       {spec: probed, act: leftAlone, any: true, fate: kept},
	"liveness/only-ping":    {spec: lively, limit: soon, end: timesOut, act: silentTwice},
}
