package packaging

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

const (
	scrape  = 15   // seconds between two samples
	outage  = 600  // the second at which the outage of a shape begins
	watched = 6600 // seconds that are looked at
)

// A shape is what a server does, as Prometheus sees it.
type shape struct {
	name string
	// state is the state at a second of the outage; empty: the server is not registered.
	state func(second int) supervisor.State
	// ends is how often the server ended until a second of the outage.
	ends func(second int) int
	// cause of the ends; empty: "exit".
	cause supervisor.CauseKind
	// fires is the alert that must fire within 15 minutes of the beginning (30 if the server flaps), and
	// last to the end of the test; empty: none fires.
	fires string
	flaps bool // the server is ready in between
	rests bool // the server sleeps in between: nothing wants it
	// unseen: the server does not exist before the outage.
	unseen bool
}

// cycle returns a function for states that follow each other again and again.
func cycle(steps ...any) func(int) supervisor.State {
	total := 0
	for i := 1; i < len(steps); i += 2 {
		total += steps[i].(int)
	}
	return func(second int) supervisor.State {
		second %= total
		for i := 0; ; i += 2 {
			if second -= steps[i+1].(int); second < 0 {
				return steps[i].(supervisor.State)
			}
		}
	}
}

// once returns a function for states that follow each other; the last one stays.
func once(steps ...any) func(int) supervisor.State {
	all := cycle(steps...)
	end := 0
	for i := 1; i < len(steps); i += 2 {
		end += steps[i].(int)
	}
	return func(second int) supervisor.State { return all(min(second, end-1)) }
}

// every counts an end for each period.
func every(period int) func(int) int { return func(second int) int { return second / period } }

// first counts an end for each period, at most n.
func first(n, period int) func(int) int {
	return func(second int) int { return min(n, second/period) }
}

const absent = supervisor.State("")

var shapes = []shape{
	{name: "the default policy, a server that hangs in its start", state: cycle(supervisor.StateConnecting, 60, supervisor.StateParked, 300), ends: every(360), fires: "McpvisorServerDown"},
	{name: "parked for a minute, hangs in its start", state: cycle(supervisor.StateConnecting, 60, supervisor.StateParked, 60), ends: every(120), fires: "McpvisorServerDown"},
	{name: "parked for a minute, starts of 15 s", state: cycle(supervisor.StateConnecting, 15, supervisor.StateParked, 60), ends: every(75), fires: "McpvisorServerDown"},
	{name: "ready for a moment at each attempt", state: cycle(supervisor.StateConnecting, 15, supervisor.StateReady, 15, supervisor.StateParked, 300), ends: every(330), fires: "McpvisorServerDown"},
	{name: "crashes six times within a minute, then parked", state: once(supervisor.StateConnecting, 60, supervisor.StateParked, 15), ends: first(6, 10), fires: "McpvisorServerDown"},
	{name: "tried without end", state: cycle(supervisor.StateConnecting, 15, supervisor.StateDiscovering, 30, supervisor.StateClosing, 15, supervisor.StateBackoff, 30), ends: every(90), fires: "McpvisorServerDown"},
	{name: "ready for a third of the time", state: cycle(supervisor.StateConnecting, 15, supervisor.StateReady, 15, supervisor.StateBackoff, 15), ends: every(45), fires: "McpvisorServerDown"},
	{name: "never ready", state: cycle(supervisor.StateConnecting, 60, supervisor.StateBackoff, 15), ends: every(75), fires: "McpvisorServerDown", unseen: true},
	{name: "waits for a group that is parked", state: cycle(supervisor.StateWaiting, 300, supervisor.StateConnecting, 15), ends: every(315), cause: supervisor.CauseRestart, fires: "McpvisorServerDown"},
	{name: "given up at once", state: once(supervisor.StateClosing, 15, supervisor.StateEvicted, 15), ends: first(1, 1), fires: "McpvisorServerEvicted"},
	{name: "given up after six minutes", state: once(supervisor.StateConnecting, 360, supervisor.StateEvicted, 15), ends: first(6, 60), fires: "McpvisorServerEvicted"},
	{name: "waits for its user", state: once(supervisor.StateUnauthorized, 15), ends: first(1, 1), fires: "McpvisorServerUnauthorized"},
	{name: "asks for credentials again and again", state: cycle(supervisor.StateConnecting, 15, supervisor.StateUnauthorized, 60), ends: every(75), fires: "McpvisorServerUnauthorized"},
	{name: "down for 4 minutes, ready for 3", state: cycle(supervisor.StateBackoff, 240, supervisor.StateReady, 180), ends: every(420), fires: "McpvisorServerDown", flaps: true},
	{name: "down for 5 minutes, ready for 4", state: cycle(supervisor.StateParked, 300, supervisor.StateReady, 240), ends: every(540), fires: "McpvisorServerDown", flaps: true},
	{name: "down for 7 minutes, ready for 6", state: cycle(supervisor.StateParked, 420, supervisor.StateReady, 360), ends: every(780), fires: "McpvisorServerDown", flaps: true},
	{name: "down for 3 minutes, ready for 3", state: cycle(supervisor.StateBackoff, 180, supervisor.StateReady, 180), ends: every(360), fires: "McpvisorServerDown", flaps: true},
	{name: "down for 3 minutes, ready for 9", state: cycle(supervisor.StateBackoff, 180, supervisor.StateReady, 540), ends: every(720), fires: "McpvisorServerDown", flaps: true},
	{name: "ready for some seconds in every 10 minutes", state: cycle(supervisor.StateParked, 594, supervisor.StateReady, 6), ends: every(600), fires: "McpvisorServerDown"},
	{name: "ready for 50 s, down for 50 s", state: cycle(supervisor.StateBackoff, 50, supervisor.StateReady, 50), ends: every(100), fires: "McpvisorServerDown", flaps: true},
	{name: "ends each minute, and comes back after 15 s", state: cycle(supervisor.StateConnecting, 15, supervisor.StateReady, 45), ends: every(60), fires: "McpvisorServerDown", flaps: true},
	{name: "ends each minute, and comes back at once", state: once(supervisor.StateReady, 15), ends: every(60), fires: "McpvisorServerCrashLoop", flaps: true},
	{name: "ends every 90 s, and comes back after 15 s", state: cycle(supervisor.StateConnecting, 15, supervisor.StateReady, 75), ends: every(90), fires: "McpvisorServerCrashLoop", flaps: true},

	{name: "ready", state: once(supervisor.StateReady, 15), ends: first(0, 1)},
	{name: "one crash", state: once(supervisor.StateBackoff, 30, supervisor.StateReady, 15), ends: first(1, 1)},
	{name: "removed while it is ready", state: once(absent, 15), ends: first(0, 1)},
	{name: "removed while it is down", state: once(supervisor.StateConnecting, 240, absent, 15), ends: first(2, 60)},
	{name: "replaced by a reload", state: once(supervisor.StateConnecting, 90, supervisor.StateReady, 15), ends: first(0, 1)},
	{name: "a slow first start", state: once(supervisor.StateConnecting, 240, supervisor.StateReady, 15), ends: first(0, 1), unseen: true},
	{name: "moved to this host", state: once(supervisor.StateConnecting, 15, supervisor.StateReady, 15), ends: first(0, 1), unseen: true},
	{name: "moves to another node of its fleet again and again", state: cycle(supervisor.StateConnecting, 15, supervisor.StateReady, 105), ends: every(120), cause: supervisor.CauseMoved},
	{name: "sleeps, and wakes now and then", state: cycle(supervisor.StateAsleep, 60, supervisor.StateConnecting, 30, supervisor.StateReady, 30), ends: every(120), cause: supervisor.CauseRequested, rests: true},
	{name: "has done its work", state: cycle(supervisor.StateReady, 15, supervisor.StateResting, 45), ends: every(60), cause: supervisor.CauseRequested, rests: true},
	{name: "stopped by an operator", state: once(supervisor.StateClosing, 15, supervisor.StateStopped, 15), ends: first(1, 1), cause: supervisor.CauseRequested},
	{name: "stopped by an operator after a crash", state: once(supervisor.StateBackoff, 180, supervisor.StateStopped, 15), ends: first(1, 1)},
	{name: "is restarted again and again", state: cycle(supervisor.StateConnecting, 15, supervisor.StateReady, 105), ends: every(120), cause: supervisor.CauseRestart},
}

// Of a server that is down for good, in whichever states, exactly one alert fires within 15
// minutes and stays. None fires for what was planned, or is over soon.
func TestAlerts(t *testing.T) {
	promtool := findPromtool(t)
	dir := t.TempDir()
	type sample struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	type expected struct {
		Labels      map[string]string `json:"exp_labels"`
		Annotations map[string]string `json:"exp_annotations"`
	}
	type check struct {
		At     string     `json:"eval_time"`
		Alert  string     `json:"alertname"`
		Alerts []expected `json:"exp_alerts"`
	}
	type group struct {
		Name     string   `json:"name"`
		Interval string   `json:"interval"`
		Input    []sample `json:"input_series"`
		Checks   []check  `json:"alert_rule_test"`
	}
	rules := filepath.Join(root, "deploy", "prometheus", "alerts.yml")
	file := map[string]any{"rule_files": []string{"alerts.yml"}, "evaluation_interval": "15s"}
	severities := map[string]string{"McpvisorServerDown": "critical", "McpvisorServerEvicted": "critical", "McpvisorServerUnauthorized": "warning", "McpvisorServerCrashLoop": "warning"}
	var groups []group
	for _, s := range shapes {
		g := group{Name: s.name, Interval: "15s"}
		all := `job="mcp",instance="a:1",mcpvisor_server_name="x"`
		at := func(second int, value func(second int) string) string {
			switch {
			case second >= outage && s.state(second-outage) == absent:
				return "stale"
			case second < outage && s.unseen:
				return "_"
			default:
				return value(second - outage)
			}
		}
		series := func(name string, value func(second int) string) {
			var values []string
			for second := 0; second <= watched; second += scrape {
				values = append(values, at(second, value))
			}
			g.Input = append(g.Input, sample{name, strings.Join(values, " ")})
		}
		for _, state := range supervisor.States() {
			series(fmt.Sprintf(`mcpvisor_server_state{%s,mcpvisor_server_state=%q}`, all, state), func(second int) string {
				now := supervisor.StateReady
				if second >= 0 {
					now = s.state(second)
				}
				if now == state {
					return "1"
				}
				return "0"
			})
		}
		series(fmt.Sprintf(`mcpvisor_server_down_duration_seconds{%s}`, all), func(second int) string {
			if second < 0 || s.rests || slices.Contains([]supervisor.State{supervisor.StateReady, supervisor.StateStopped}, s.state(second)) {
				return "0"
			}
			return "1" // how long does not matter
		})
		series(fmt.Sprintf(`mcpvisor_server_ends_total{%s,mcpvisor_cause_kind=%q}`, all, cmp.Or(s.cause, supervisor.CauseExit)), func(second int) string { return fmt.Sprint(s.ends(max(second, 0))) })
		within := outage + 900
		if s.flaps {
			within += 900
		}
		for alert, severity := range severities {
			for second := scrape; second <= watched; second += 8 * scrape {
				c := check{At: fmt.Sprintf("%ds", second), Alert: alert, Alerts: []expected{}}
				if alert == s.fires {
					if second < within && second > outage {
						continue // it may fire already
					}
					if second >= within {
						c.Alerts = append(c.Alerts, expected{map[string]string{"job": "mcp", "instance": "a:1", "mcpvisor_server_name": "x", "severity": severity}, nil})
					}
				}
				g.Checks = append(g.Checks, c)
			}
		}
		groups = append(groups, g)
	}
	groups = append(groups, group{Name: "the process has gone", Interval: "15s", Input: []sample{
		{`up{job="mcp",instance="a:1"}`, "1x40 0x400"},
		{`mcpvisor_manager_restarts_total{job="mcp",instance="a:1"}`, "0x40 stale"},
		{`mcpvisor_config_usable{job="mcp",instance="a:1"}`, "1x40 stale"},
		{`up{job="other",instance="b:1"}`, "0x440"},
	}, Checks: []check{
		{At: "9m", Alert: "McpvisorGone", Alerts: []expected{}},
		{At: "20m", Alert: "McpvisorGone", Alerts: []expected{{map[string]string{"job": "mcp", "instance": "a:1", "severity": "critical"}, nil}}},
		{At: "100m", Alert: "McpvisorGone", Alerts: []expected{{map[string]string{"job": "mcp", "instance": "a:1", "severity": "critical"}, nil}}},
		{At: "20m", Alert: "McpvisorConfigUnusable", Alerts: []expected{}},
	}}, group{Name: "an unusable configuration", Interval: "15s", Input: []sample{{`mcpvisor_config_usable{job="mcp",instance="a:1",otel_scope_name="x"}`, "1x40 0x40"}}, Checks: []check{
		{At: "9m", Alert: "McpvisorConfigUnusable", Alerts: []expected{}},
		{At: "19m", Alert: "McpvisorConfigUnusable", Alerts: []expected{{map[string]string{"job": "mcp", "instance": "a:1", "severity": "warning"}, nil}}},
	}}, group{Name: "few file descriptors are left", Interval: "15s", Input: []sample{
		{`process_open_fds{job="mcp",instance="a:1"}`, "700x40 900x40"},
		{`process_max_fds{job="mcp",instance="a:1"}`, "1024x80"},
		{`mcpvisor_manager_restarts_total{job="mcp",instance="a:1"}`, "0x80"},
		{`process_open_fds{job="other",instance="b:1"}`, "900x80"},
		{`process_max_fds{job="other",instance="b:1"}`, "1024x80"},
	}, Checks: []check{
		{At: "9m", Alert: "McpvisorDescriptorsShort", Alerts: []expected{}},
		{At: "19m", Alert: "McpvisorDescriptorsShort", Alerts: []expected{{map[string]string{"job": "mcp", "instance": "a:1", "severity": "warning"}, nil}}},
	}})
	file["tests"] = groups
	// promtool compares annotations, which hold values that change: the rules are tested without.
	text := withoutAnnotations(read(t, "deploy", "prometheus", "alerts.yml"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(text), 0o600))
	tests, err := json.Marshal(file) // which is YAML, too
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tests.yml"), tests, 0o600))
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", filepath.Join(dir, "tests.yml")}} {
		out, err := exec.Command(promtool, args...).CombinedOutput()
		require.NoError(t, err, "%.6000s", out)
	}
}

// withoutAnnotations removes the annotations of rules.
func withoutAnnotations(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "annotations:" && !strings.HasPrefix(trimmed, "summary:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// findPromtool returns the path of promtool.
func findPromtool(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin", "promtool", "usr", "bin", "promtool"))
	require.NoError(t, err)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if path, err = exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed; .ci/debian promtool prometheus fetches it")
	}
	return path
}
