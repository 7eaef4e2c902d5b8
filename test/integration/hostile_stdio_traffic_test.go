//go:build linux

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// probedOften sets frequent probes with a long timeout.
func probedOften(s *mcpvisor.ServerSpec) {
	s.Probe = mcpvisor.Probe{Interval: 20 * time.Millisecond, Timeout: maxDelay, Failures: 1}
}

// shortStartTimeout is for starts that must succeed without waiting for a timeout.
func shortStartTimeout(s *mcpvisor.ServerSpec) { s.Timeouts.Start = 5 * time.Second }

// waitForEnd is an act for rows in which the session ends without a call.
func waitForEnd(*stdioRun) (*mcp.CallToolResult, error) { return nil, nil }

// quietPeriod is how long waitQuietPeriod waits. Several probes run meanwhile; if the
// server did not pass them, it would be replaced.
const quietPeriod = 500 * time.Millisecond

func waitQuietPeriod(v *stdioRun) (*mcp.CallToolResult, error) {
	pause(context.Background(), quietPeriod)
	return nil, nil
}

// timeOutTwice makes two calls that time out. Together they last longer than a server
// lives that fails its probes.
func timeOutTwice(v *stdioRun) (*mcp.CallToolResult, error) {
	_, err := v.callBadTool(nil)
	require.ErrorIs(v.t, err, mcpvisor.ErrTimeout)
	return v.callBadTool(nil)
}

// replacedByProbes is a row in which the server fails its probes and is replaced.
var replacedByProbes = stdioRow{spec: probed, act: waitForEnd, anyResult: true, fate: replaced}

// littleTimeToList leaves little time for the lists. Streams take nothing of it.
func littleTimeToList(s *mcpvisor.ServerSpec) { s.Timeouts.List = 2 * time.Second }

// callForASecond calls the tool now and again: the streams are opened several times meanwhile.
func callForASecond(v *stdioRun) (res *mcp.CallToolResult, err error) {
	for range 10 {
		pause(context.Background(), 100*time.Millisecond)
		if res, err = v.callBadTool(nil); err != nil {
			break
		}
	}
	return res, err
}

// requireNoForeignUpdates requires that no event names a resource of the server to which the
// host did not subscribe.
func requireNoForeignUpdates(v *stdioRun) { requireUpdatesOf(v.t, v.c, resourceURI) }

func requireUpdatesOf(t *testing.T, c *facade.Client, uri string) {
	t.Helper()
	events, _ := c.History().Events(0)
	for _, e := range events {
		if e.Kind == mcpvisor.EventResourceUpdated {
			require.Equal(t, uri, e.URI)
		}
	}
}

// updates counts the events about resources that were updated.
func updates(c *facade.Client) (n int) {
	events, _ := c.History().Events(0)
	for _, e := range events {
		if e.Kind == mcpvisor.EventResourceUpdated {
			n++
		}
	}
	return n
}

// toleratedOrSilent is a row whose call succeeds or fails, while the session is kept.
var toleratedOrSilent = stdioRow{limit: shortTimeout, end: ending{oneOf: []error{mcpvisor.ErrTimeout, mcpvisor.ErrProtocol}, orSuccess: true}}

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
	"notification/ack-of-more":      {eras: []mcpvisor.Era{mcpvisor.EraModern}, act: callForASecond, check: requireNoForeignUpdates},
	"notification/no-ack":           {eras: []mcpvisor.Era{mcpvisor.EraModern}, spec: littleTimeToList},
	"notification/late-ack": {eras: []mcpvisor.Era{mcpvisor.EraModern}, check: func(v *stdioRun) {
		waitUntil(v.within(), v.t, "the late subscription counts", func() bool { return updates(v.c) > 0 })
		requireNoForeignUpdates(v)
		require.NoError(v.t, v.c.Subscribe(v.within(), hostileServer, hostile.ResourceURI), "the next one is acknowledged in time")
	}},
	"notification/deep": checked(harmless, requireJunk),

	"request/ping":              tolerated,
	"request/roots":             tolerated,
	"request/sampling":          tolerated,
	"request/sampling-null":     harmless,
	"request/elicitation":       harmless,
	"request/elicitation-wrong": harmless,
	"request/form-of-itself":    harmless,
	"request/form-of-forms":     harmless,
	"request/form-patterns":     harmless.allocating(256 << 20),
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
	"stream/bom":           {eras: bothEras, spec: shortStartTimeout},
	"stream/bom-in-answer": harmless,
	"stream/pretty":        inBothEras(checked(undecodable, requireJunk)),
	"stream/two-on-a-line": checked(tolerated, requireJunk),
	"stream/trailing":      checked(tolerated, requireJunk),
	"stream/leading":       checked(unansweredCall, requireJunk),
	"stream/batch":         tolerated,
	"stream/batch-mixed":   tolerated,
	"stream/batch-large":   harmless,
	"stream/batch-nested":  toleratedOrSilent,
	"stream/utf-16-le":     checked(unansweredCall, requireJunk), // the next answer has a NUL in front
	"stream/utf-16-be":     checked(unansweredCall, requireJunk),
	"stream/junk":          checked(tolerated, requireJunk),
	"stream/junk-flood":    checked(harmless, requireJunk),
	"stream/blank-flood":   harmless,
	"stream/junk-long":     checked(harmless, requireJunk),
	"stream/junk-deep":     checked(harmless, requireJunk),
	"stream/junk-quotes":   checked(harmless, requireJunk),
	"stream/binary":        checked(harmless, requireJunk),
	"stream/progress-bar":  checked(unansweredCall, requireJunk),

	"liveness/no-ping":      inBothEras(replacedByProbes),
	"liveness/ping-refused": {eras: bothEras, spec: probedOften, act: waitQuietPeriod, anyResult: true},
	"liveness/ping-text":    {spec: probedOften, act: waitQuietPeriod, anyResult: true},
	"liveness/ping-exit":    replacedByProbes,
	"liveness/chatty":       {spec: probed, act: waitQuietPeriod, anyResult: true, fate: kept},
	"liveness/only-ping":    {spec: probedOften, limit: shortTimeout, end: timesOut, act: timeOutTwice},
}
