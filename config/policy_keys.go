package config

import (
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// DefaultRetry is the policy of an entry without "retry": five attempts, 500 ms
// apart at first and at most 30 s, then one every five minutes. A server in a
// configuration file is meant to be there, so it is evicted only for a mistake that another
// attempt cannot correct, such as a command that is not installed.
var DefaultRetry = supervisor.Retry(5, 500*time.Millisecond, supervisor.WithMaxDelay(30*time.Second), supervisor.WithParking(5*time.Minute))

// retryRows are the keys of "retry".
var retryRows = []row{
	keyRow((*entry).readMaxAttempts, configkeys.Key{
		Name: "max_attempts", Type: `number, or "unlimited"`, Default: thousands(DefaultRetry.MaxAttempts), Field: "Policy.MaxAttempts", Example: `3`,
		Meaning: "The retry budget: how many attempts in a row are made before the server is evicted or parked. 0 means none: the server is evicted or parked at once."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Policy.Base }, configkeys.Key{
		Name: "base", Default: shortDuration(DefaultRetry.Base), Field: "Policy.Base", Example: `"1s"`,
		Meaning: "The delay before the first attempt. Each further attempt doubles it."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Policy.Max }, configkeys.Key{
		Name: "max", Default: shortDuration(DefaultRetry.Max), Field: "Policy.Max", Example: `"1m"`,
		Meaning: "The longest delay. It must be at least base."}),
	keyRow((*entry).readJitter, configkeys.Key{
		Name: "jitter", Type: "number from 0 to 1", Default: "0", Field: "Policy.Jitter", Example: `0.2`,
		Meaning: "Spreads each delay at random, by this fraction of it."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Policy.StableAfter }, configkeys.Key{
		Name: "stable_after", Default: shortDuration(defaults.StableAfter), Field: "Policy.StableAfter", Example: `"1m"`,
		Meaning: "How long a server must stay ready until its retry budget is reset."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Policy.ParkEvery }, configkeys.Key{
		Name: "park", Default: "the server is evicted", Field: "Policy.ParkEvery", Example: `"10m"`,
		Meaning: "Parks the server when its retry budget is spent: it is tried again this often."}),
	objectRow(intensityRows, configkeys.Key{
		Name: "intensity", Field: "Policy.Intensity", Example: `{"restarts": 5, "window": "30s"}`,
		Meaning: "Bounds restarts over a window of time: one more spends the whole retry budget at once. Set both of its keys."}),
}

// intensityRows are the keys of "intensity" in "retry".
var intensityRows = []row{
	countRow(func(e *entry) *int { return &e.spec.Policy.Intensity.Restarts }, configkeys.Key{
		Name: "restarts", Default: "no bound", Field: "Policy.Intensity.Restarts", Example: `5`,
		Meaning: "The most restarts in the window."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Policy.Intensity.Window }, configkeys.Key{
		Name: "window", Field: "Policy.Intensity.Window", Example: `"30s"`,
		Meaning: "The length of the window."}),
}

// timeoutRows are the keys of "timeouts".
var timeoutRows = []row{
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.Start }, configkeys.Key{
		Name: "start", Default: shortDuration(defaults.StartTimeout), Field: "Timeouts.Start", Example: `"2m"`,
		Meaning: "Bounds the start of the process, or the connect, and the negotiation together. npx and the like may have to download first."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.Negotiate }, configkeys.Key{
		Name: "negotiate", Default: shortDuration(defaults.NegotiateTimeout), Field: "Timeouts.Negotiate", Example: `"10s"`,
		Meaning: "Bounds the wait for an answer to server/discover, before initialize is tried."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.List }, configkeys.Key{
		Name: "list", Default: shortDuration(defaults.ListTimeout), Field: "Timeouts.List", Example: `"2m"`,
		Meaning: "Bounds the listing of tools, resources, templates and prompts together."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.MaxListAge }, configkeys.Key{
		Name: "max_list_age", Default: "off", Field: "Timeouts.MaxListAge", Example: `"1h"`,
		Meaning: "The age at which a list is read again if its server announces no changes. At least 10s."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readDuration(v, &e.spec.Timeouts.Call); e.callValue = v }, configkeys.Key{
		Name: "call", Type: "duration", Default: shortDuration(defaults.CallTimeout), Field: "Timeouts.Call", Example: `"2m"`,
		Meaning: "Bounds how long a call may take without a progress report. Each report starts it again."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.CallTotal }, configkeys.Key{
		Name: "call_total", Default: shortDuration(defaults.CallTotalTimeout), Field: "Timeouts.CallTotal", Example: `"1h"`,
		Meaning: "Bounds a call as a whole, but not the wait for a server that is not ready."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.Shutdown }, configkeys.Key{
		Name: "shutdown", Default: shortDuration(defaults.ShutdownTimeout), Field: "Timeouts.Shutdown", Example: `"5s"`,
		Meaning: "Bounds the end of a process: after half of it the process group gets SIGTERM, after all of it SIGKILL. It cannot be negative."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.Drain }, configkeys.Key{
		Name: "drain", Default: shortDuration(defaults.DrainTimeout), Field: "Timeouts.Drain", Example: `"2m"`,
		Meaning: "How long the calls in flight may take when a reload replaces or removes the server, before it is ended. It cannot be negative."}),
}

// limitRows are the keys of "limits".
var limitRows = []row{
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxMessageBytes }, configkeys.Key{
		Name: "max_message_bytes", Default: mebibytes(defaults.MaxMessageBytes), Field: "Limits.MaxMessageBytes", Example: `1048576`,
		Meaning: "The longest message that is accepted. At most 1073741824 (1 GiB). A longer answer fails its call, if the id is near one of its ends."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxBufferBytes }, configkeys.Key{
		Name: "max_buffer_bytes", Default: mebibytes(defaults.MaxBufferBytes), Field: "Limits.MaxBufferBytes", Example: `16777216`,
		Meaning: "The most bytes that large messages of the server hold at one time. Further ones wait, and the timeouts of their calls keep running."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxElements }, configkeys.Key{
		Name: "max_elements", Default: thousands(defaults.MaxElements), Field: "Limits.MaxElements", Example: `100000`,
		Meaning: "The most JSON values in one result. A result with more fails its call."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxDecodedBytes }, configkeys.Key{
		Name: "max_decoded_bytes", Default: mebibytes(defaults.MaxDecodedBytes), Field: "Limits.MaxDecodedBytes", Example: `67108864`,
		Meaning: "The most memory that one result takes once it is decoded, as estimated from its text. A larger one fails its call."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxItems }, configkeys.Key{
		Name: "max_items", Default: thousands(defaults.MaxItems), Field: "Limits.MaxItems", Example: `1000`,
		Meaning: "The most entries of each of the four lists. The rest is left out, with a warning."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxPages }, configkeys.Key{
		Name: "max_pages", Default: thousands(defaults.MaxPages), Field: "Limits.MaxPages", Example: `100`,
		Meaning: "The most pages of each list. The rest is left out, with a warning."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxCatalogBytes }, configkeys.Key{
		Name: "max_catalog_bytes", Default: mebibytes(defaults.MaxCatalogBytes), Field: "Limits.MaxCatalogBytes", Example: `16777216`,
		Meaning: "The most bytes of all four lists together. The rest is left out, with a warning."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxInFlight }, configkeys.Key{
		Name: "max_in_flight", Default: thousands(defaults.MaxInFlight), Field: "Limits.MaxInFlight", Example: `64`,
		Meaning: "The most calls in flight. Further ones wait in a queue."}),
	keyRow((*entry).readMaxQueued, configkeys.Key{
		Name: "max_queued", Type: "number", Default: thousands(defaults.MaxQueued), Field: "Limits.MaxQueued", Example: `16`,
		Meaning: "The most calls in that queue. Further ones fail at once. 0 means no queue. In a Go program, 0 in Limits.MaxQueued means the default."}),
	countRow(func(e *entry) *int { return &e.spec.Limits.MaxStderrLines }, configkeys.Key{
		Name: "max_stderr_lines", Default: thousands(defaults.MaxStderrLines), Field: "Limits.MaxStderrLines", Example: `100`,
		Meaning: "How many lines of the server's stderr are kept for errors and reports. 0 means the default."}),
}

// probeRows are the keys of "probe".
var probeRows = []row{
	durationRow(func(e *entry) *time.Duration { return &e.spec.Probe.Interval }, configkeys.Key{
		Name: "interval", Default: shortDuration(defaults.ProbeInterval), Field: "Probe.Interval", Example: `"10s"`,
		Meaning: "The longest silence of the server before it is asked. A negative duration switches probes off."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Probe.Timeout }, configkeys.Key{
		Name: "timeout", Default: shortDuration(defaults.ProbeTimeout), Field: "Probe.Timeout", Example: `"3s"`,
		Meaning: "Bounds the wait for the answer."}),
	countRow(func(e *entry) *int { return &e.spec.Probe.Failures }, configkeys.Key{
		Name: "failures", Default: thousands(defaults.ProbeFailures), Field: "Probe.Failures", Example: `2`,
		Meaning: "How many probes in a row must fail before the session is ended."}),
}
