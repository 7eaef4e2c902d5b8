//go:build linux

package integration

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// lively is probed often, and patiently.
func lively(s *facade.ServerSpec) {
	s.Probe = facade.Probe{Every: 20 * time.Millisecond, Timeout: slack, Failures: 1}
}

// brisk is for starts that must not wait for anything.
func brisk(s *facade.ServerSpec) { s.Timeouts.Start = 5 * time.Second }

// awaited does nothing until the end of the session is noticed.
func awaited(*stdioVisit) (*mcp.CallToolResult, error) { return nil, nil }

// unanswered is how long a server is left alone that must be taken for alive:
// several probes fail meanwhile, if any does.
const unanswered = 500 * time.Millisecond

func leftAlone(v *stdioVisit) (*mcp.CallToolResult, error) {
	pause(context.Background(), unanswered)
	return nil, nil
}

// silentTwice calls for longer than a server that answers no ping would live.
func silentTwice(v *stdioVisit) (*mcp.CallToolResult, error) {
	_, err := v.bad(nil)
	require.ErrorIs(v.t, err, facade.ErrTimeout)
	return v.bad(nil)
}

// doomed is a server that does not answer probes, and is replaced; so is the
// next one.
var doomed = stdioRow{spec: probed, act: awaited, any: true, fate: replaced}

// toleratedOrSilent: the call is answered, or fails for itself only.
var toleratedOrSilent = stdioRow{limit: soon, end: ending{is: []error{facade.ErrTimeout, facade.ErrProtocol}, orNone: true}}

var stdioTrafficRows = map[string]stdioRow{
	"notification/flood":            tolerated,
	"notification/progress":         tolerated0,
	"notification/progress-of-ours": tolerated,
	"notification/list-changed":     tolerated,
	"notification/updated":          tolerated0,
	"notification/cancelled":        tolerated,
	"notification/cancelled-all":    tolerated0,
	"notification/large":            tolerated0,
	"notification/unknown":          tolerated0,
	"notification/no-params":        tolerated,
	"notification/null-params":      tolerated,
	"notification/array-params":     tolerated,
	"notification/wrong-params":     tolerated,
	"notification/method-odd":       tolerated0,
	"notification/of-clients":       tolerated0,
	"notification/deep":             checked(tolerated0, requireJunk),

	"request/ping":              tolerated,
	"request/roots":             tolerated,
	"request/sampling":          tolerated,
	"request/sampling-null":     tolerated0,
	"request/elicitation":       tolerated0,
	"request/elicitation-wrong": tolerated0,
	"request/unknown":           tolerated,
	"request/of-servers":        tolerated0,
	"request/completion":        tolerated0,
	"request/initialize":        tolerated0,
	"request/our-id":            tolerated,
	"request/same-id":           tolerated0,
	"request/odd-ids":           tolerated0,
	"request/flood":             tolerated,
	"request/flood-unknown":     tolerated0,
	"request/flood-unread":      tolerated,
	"request/large":             tolerated0,

	"stream/crlf":          tolerated,
	"stream/spaces":        tolerated0,
	"stream/bom":           {eras: bothEras, spec: brisk},
	"stream/bom-in-answer": tolerated0,
	"stream/pretty":        everywhere(checked(silent, requireJunk)),
	"stream/two-on-a-line": checked(silent, requireJunk),
	"stream/trailing":      checked(silent, requireJunk),
	"stream/leading":       checked(silent, requireJunk),
	"stream/batch":         tolerated,
	"stream/batch-mixed":   tolerated,
	"stream/batch-large":   tolerated0,
	"stream/batch-nested":  toleratedOrSilent,
	"stream/utf-16-le":     {limit: soon, end: timesOut, act: twice, check: requireJunk},
	"stream/utf-16-be":     checked(silent, requireJunk),
	"stream/junk":          checked(tolerated, requireJunk),
	"stream/junk-flood":    checked(tolerated0, requireJunk),
	"stream/blank-flood":   tolerated0,
	"stream/junk-long":     checked(tolerated0, requireJunk),
	"stream/junk-deep":     checked(tolerated0, requireJunk),
	"stream/junk-quotes":   checked(tolerated0, requireJunk),
	"stream/binary":        checked(tolerated0, requireJunk),
	"stream/progress-bar":  checked(silent, requireJunk),

	"liveness/no-ping":      everywhere(doomed),
	"liveness/ping-refused": {eras: bothEras, spec: lively, act: leftAlone, any: true},
	"liveness/ping-text":    {spec: lively, act: leftAlone, any: true},
	"liveness/ping-exit":    doomed,
	"liveness/chatty":       {spec: probed, act: leftAlone, any: true, fate: kept},
	"liveness/only-ping":    {spec: lively, limit: soon, end: timesOut, act: silentTwice},
}
