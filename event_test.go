package mcpvisor

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestEvent_String(t *testing.T) {
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Stderr: []string{"boom", "bye"}}
	for want, e := range map[string]Event{
		"fs registered":   {Kind: EventRegistered, Server: "fs"},
		"fs connecting":   {Kind: EventConnecting, Server: "fs", Epoch: 2},
		"fs stable":       {Kind: EventStable, Server: "fs"},
		"fs unregistered": {Kind: EventUnregistered, Server: "fs"},
		"fs ready: 4 tools, 0 resources, 0 prompts, protocol 2026-07-28, epoch 3, pid 77, changed meanwhile: tools +1 −0 ~0": {
			Kind: EventReady, Server: "fs", Tools: 4, Protocol: "2026-07-28", Epoch: 3, PID: 77, StartTook: 1234 * time.Millisecond,
			Change: &Change{Tools: Delta{Added: []string{"fs/new"}}}},
		"fs ready: 4 tools, 5 resources, 1 prompt, protocol 2025-11-25, epoch 2": {
			Kind: EventReady, Server: "fs", Tools: 4, Resources: 2, Templates: 3, Prompts: 1, Protocol: "2025-11-25", Epoch: 2},
		"fs ready: 4 tools, 0 resources, 0 prompts, protocol 2026-07-28, epoch 3, pid 77, down for 1.235s": {
			Kind: EventReady, Server: "fs", Tools: 4, Protocol: "2026-07-28", Epoch: 3, PID: 77, Downtime: 1234567 * time.Microsecond},
		"fs down: exit status 3; stderr: boom | bye; 2 calls in flight failed": {
			Kind: EventDown, Server: "fs", Cause: cause, FailedCalls: 2},
		"fs down: unknown cause": {Kind: EventDown, Server: "fs"},
		"fs did not start: exit status 3; stderr: boom | bye": {
			Kind: EventStartFailed, Server: "fs", Cause: cause},
		"fs retry 2/3 in 500ms": {Kind: EventRetry, Server: "fs", Attempt: 2, MaxAttempts: 3, Delay: 500 * time.Millisecond},
		"fs retry 9 in 1m0s": {
			Kind: EventRetry, Server: "fs", Attempt: 9, MaxAttempts: supervisor.Unlimited, Delay: time.Minute},
		"fs parked, next try in 5m0s: exit status 3; stderr: boom | bye": {
			Kind: EventParked, Server: "fs", Delay: 5 * time.Minute, Cause: cause},
		"fs has a standby: epoch 2, pid 77": {Kind: EventStandby, Server: "fs", Epoch: 2, PID: 77},
		"fs lost its standby: exit status 3; stderr: boom | bye": {
			Kind: EventStandbyLost, Server: "fs", Epoch: 2, Cause: cause},
		"fs waits to be authorized: exit status 3; stderr: boom | bye": {Kind: EventAuthRequired, Server: "fs", Cause: cause},
		"fs evicted: exit status 3; stderr: boom | bye":                {Kind: EventEvicted, Server: "fs", Cause: cause},
		"fs evicted after 3 of 3 restarts: exit status 3; stderr: boom | bye": {
			Kind: EventEvicted, Server: "fs", Cause: cause, Attempt: 3, MaxAttempts: 3},
		"api waits for cache, db": {Kind: EventWaiting, Server: "api", WaitsFor: []string{"cache", "db"}},
		"fs is at rest: nothing has used the server for 10m0s; it starts when it is wanted": {Kind: EventAsleep, Server: "fs",
			Cause: &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "nothing has used the server for 10m0s; it starts when it is wanted"}},
		"fs is stopped: stopped by the operator; start it again": {Kind: EventStopped, Server: "fs",
			Cause: &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "stopped by the operator; start it again"}},
		`web has failed: group "web" is parked: "browser" failed too often`: {Kind: EventGroupFailed, Server: "web",
			Cause: &supervisor.Cause{Kind: supervisor.CauseRequested, Message: `group "web" is parked: "browser" failed too often`}},
		"fs evicted after 1 restart: unknown cause":       {Kind: EventEvicted, Server: "fs", Attempt: 1, MaxAttempts: supervisor.Unlimited},
		"dropped because this watcher is slow: 17 events": {Kind: EventMissed, Missed: 17},
		"fs of_another_release":                           {Kind: "of_another_release", Server: "fs"},
	} {
		require.Equal(t, want, e.String())
	}
}

// An event that has nothing but its kind can be printed.
func TestEvent_String_without_details(t *testing.T) {
	for _, kind := range EventKinds() {
		text := Event{Kind: kind, Server: "fs"}.String()
		require.NotContains(t, text, "\n")
		require.NotContains(t, text, "%!")
		if kind != EventMissed { // it is about the watcher, not about a server
			require.True(t, strings.HasPrefix(text, "fs "), text)
		}
	}
}

// Fields that a kind does not set are left out.
func TestEvent_JSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	text, err := json.Marshal(Event{Seq: 4, Time: at, Kind: EventStable, Server: "fs", Gen: 1, Epoch: 2})
	require.NoError(t, err)
	require.JSONEq(t, `{"seq":4,"time":"2026-01-02T03:04:05Z","kind":"stable","server":"fs","gen":1,"epoch":2}`, string(text))

	text, err = json.Marshal(Event{Seq: 5, Time: at, Kind: EventRetry, Server: "fs", Attempt: 1, MaxAttempts: 3,
		Delay: time.Second, RetryAt: &at})
	require.NoError(t, err)
	require.JSONEq(t, `{"seq":5,"time":"2026-01-02T03:04:05Z","kind":"retry","server":"fs","attempt":1,"maxAttempts":3,
		"delayNs":1000000000,"retryAt":"2026-01-02T03:04:05Z"}`, string(text))
}

// A kind without a row would be logged and shown without its text.
func TestEventKinds_lists_every_constant(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	require.NoError(t, err)
	var want []EventKind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "EventKind" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			want = append(want, EventKind(value))
		}
		return true
	})
	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, EventKinds())
	for _, kind := range EventKinds() {
		require.Equal(t, kind == EventLog || kind == EventResourceUpdated, kind.FromServer(), kind)
	}
}

func TestEvent_Severity(t *testing.T) {
	crash := &supervisor.Cause{Kind: supervisor.CauseExit}
	for _, row := range []struct {
		event Event
		want  Severity
	}{
		{Event{Kind: EventConnecting}, SeverityDebug},
		{Event{Kind: EventReady}, SeverityInfo},
		{Event{Kind: EventReady, Change: &Change{Tools: Delta{Added: []string{"fs/new"}}}}, SeverityWarning},
		{Event{Kind: EventDown, Cause: crash}, SeverityWarning},
		{Event{Kind: EventDown}, SeverityWarning},
		{Event{Kind: EventDown, Cause: &supervisor.Cause{Kind: supervisor.CauseRequested}}, SeverityInfo},
		{Event{Kind: EventDown, Cause: &supervisor.Cause{Kind: supervisor.CauseRestart}}, SeverityInfo},
		{Event{Kind: EventParked, Cause: crash}, SeverityError},
		{Event{Kind: EventAuthRequired}, SeverityError},
		{Event{Kind: EventEvicted, Cause: crash}, SeverityError},
		{Event{Kind: EventWaiting}, SeverityInfo},
		{Event{Kind: EventAsleep}, SeverityInfo},
		{Event{Kind: EventStopped}, SeverityInfo},
		{Event{Kind: EventGroupFailed}, SeverityError},
		{Event{Kind: EventLog}, SeverityInfo},
		{Event{Kind: EventLog, Log: &LogMessage{Level: "debug"}}, SeverityDebug},
		{Event{Kind: EventLog, Log: &LogMessage{Level: "notice"}}, SeverityInfo},
		{Event{Kind: EventLog, Log: &LogMessage{Level: "warning"}}, SeverityWarning},
		{Event{Kind: EventLog, Log: &LogMessage{Level: "emergency"}}, SeverityError},
		{Event{Kind: "of_another_release"}, SeverityInfo},
	} {
		require.Equal(t, row.want, row.event.Severity(), "%v", row.event)
	}
}
