package browser

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// A call that has ended can be opened: it says why it failed, and which client it was made for. The filter
// finds it by what it says, and both counts of what went wrong have their names.
func TestCalls_open_and_filter(t *testing.T) {
	c := newClient(t)
	register(t, c, process("files", mcptest.Script{}))
	register(t, c, process("other", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "files/fail", map[string]any{"text": "no such row"}, relay.WithClientName("claude-code 2.1.4"))
	require.NoError(t, err)
	_, err = c.CallTool(t.Context(), "other/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#server-rows", "1 tool error")
	p.has("#calls", "files/fail")
	p.wait(`document.querySelectorAll("#calls tbody tr").length === 2`)
	eval[bool](p, `(document.querySelectorAll("#calls tbody summary")[1].click(), true)`)
	p.has("#calls", "no such row")
	p.has("#calls", "failed by itself")
	p.has("#calls", "claude-code 2.1.4")
	p.has("#calls", "Arguments")
	checkAccess(p, "an opened call")

	filter := func(text string) {
		eval[bool](p, `(() => { const f = document.getElementById("filter"); f.value = "`+text+`"; f.dispatchEvent(new Event("input")); return true })()`)
	}
	for _, text := range []string{"fail", "claude-code", "such row", "files/fail"} {
		filter(text)
		p.wait(`document.querySelectorAll("#calls tbody tr").length === 1`)
		p.has("#calls", "files/fail")
	}
	filter("")
	p.wait(`document.querySelectorAll("#calls tbody tr").length === 2`)
}

// A range of time leaves out what ended before it.
func TestCalls_of_a_range_of_time(t *testing.T) {
	c := newClient(t)
	register(t, c, process("files", mcptest.Script{}))
	for _, tool := range []string{"echo", "add"} {
		_, err := c.CallTool(t.Context(), "files/"+tool, map[string]any{"text": "x", "a": 1, "b": 2})
		require.NoError(t, err)
	}
	p := newPage(t, serve(t, c, func(next http.Handler) http.Handler {
		return altered(next, "/api/calls", func(answer map[string]any) {
			for _, call := range answer["recent"].([]any) {
				if call := call.(map[string]any); call["target"] == "echo" {
					call["began"] = time.Now().Add(-2 * time.Hour)
				}
			}
		})
	}).URL, prefix+"/#/calls?range=3600")
	p.has("#calls", "files/add")
	require.NotContains(t, eval[string](p, `document.querySelector("#calls").innerText`), "echo")
	p.place("calls?range=21600")
	p.has("#calls", "files/echo")
}

// An operator cancels the calls of other clients, one of which waits in the queue.
func TestCalls_are_canceled(t *testing.T) {
	c := newClient(t)
	spec := process("files", mcptest.Script{})
	spec.Limits.MaxInFlight = 1
	register(t, c, spec)
	ended, queued := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "files/hang", nil, relay.WithClientName("editor 2"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(c.CallsInFlight()) == 1 }, time.Minute, time.Millisecond)
	go func() {
		_, err := c.CallTool(t.Context(), "files/echo", map[string]any{"text": "x"})
		queued <- err
	}()
	reader := newPage(t, serve(t, c, nil).URL, prefix+"/#/calls")
	reader.has("#flight", "queued")
	require.Zero(t, eval[int](reader, `document.querySelectorAll("[data-act=cancel]").length`), "a page that is read only")
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/calls")
	p.has("#flight", "queued")
	require.ElementsMatch(t, []string{"Cancel the call of files/hang", "Cancel the call of files/echo"}, eval[[]string](p, `[...document.querySelectorAll("#flight [data-act=cancel]")].map((b) => b.getAttribute("aria-label"))`))
	checkAccess(p, "calls in flight")
	p.click(`#flight [aria-label="Cancel the call of files/echo"]`)
	p.has("#answer", "Nothing of it was sent.")
	require.ErrorIs(t, <-queued, mcpvisor.ErrCanceled)
	p.click(`#flight [data-act=cancel]`)
	p.has("#answer", "unless its answer has just come")
	require.ErrorIs(t, <-ended, mcpvisor.ErrCanceled)
	p.has("#calls", "outcome unknown")
	p.click("#calls tbody summary")
	p.has("#calls", "an operator canceled the call")
}

// Titles between the calls are no calls: the page counts calls alone.
func TestCalls_are_counted_without_titles(t *testing.T) {
	c := newClient(t)
	register(t, c, process("files", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "files/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	p := newPage(t, serve(t, c, func(next http.Handler) http.Handler {
		return altered(next, "/api/calls", func(answer map[string]any) {
			one, calls := answer["recent"].([]any)[0].(map[string]any), []any{}
			for seq := range 120 {
				call := maps.Clone(one)
				call["seq"] = seq + 1
				calls = append(calls, call)
			}
			lost := maps.Clone(one)
			lost["seq"], lost["kind"], lost["outcome"] = 121, "crashed", "unknown"
			answer["recent"], answer["unknown"] = append(calls, lost), []any{lost}
		})
	}).URL, prefix+"/#/calls")
	p.has("#calls .more", "100 of 121")
	require.Equal(t, []int{2, 102}, eval[[]int](p, `[document.querySelectorAll("#calls .title-row").length, document.querySelectorAll("#calls tbody tr").length]`))
	p.click(`#calls [data-more=calls]`)
	p.wait(`document.querySelectorAll("#calls tbody tr").length === 123`)
	eval[bool](p, `Boolean(location.hash = "#/calls?sort=took")`)
	p.wait(`document.querySelectorAll("#calls tbody tr").length === 121`)
}

// The filter finds events by their texts.
func TestEvents_filter_by_text(t *testing.T) {
	c := newClient(t)
	register(t, c, process("files", mcptest.Script{}))
	register(t, c, process("other", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "files/crash", map[string]any{"code": 57})
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#events", "exit status 57")
	eval[bool](p, `(() => { const f = document.getElementById("filter"); f.value = "status 57"; f.dispatchEvent(new Event("input")); return true })()`)
	p.wait(`document.querySelectorAll("#events ol.events > li").length === 1`)
	p.has("#events", "exit status 57")
}

// The parts of the page of a server keep their order while it flaps.
func TestDetail_keeps_its_places(t *testing.T) {
	c := newClient(t)
	spec := process("files", mcptest.Script{})
	spec.Policy = supervisor.Retry(supervisor.Unlimited, time.Hour)
	register(t, c, spec)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/files")
	p.has("#detail .title", "ready")
	order := func() string {
		return eval[string](p, `[...document.querySelectorAll("#detail > section")].map((s) => s.dataset.key).filter((k) => k !== "why").join(" ")`)
	}
	p.has("#detail", "stderr")
	before := order()
	_, err := c.CallTool(t.Context(), "files/crash", map[string]any{"code": 57})
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	p.has("#detail .title", "backoff")
	require.Equal(t, before, order())
}
