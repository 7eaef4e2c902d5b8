package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The records of the program are searched from the places of calls and events, by the filter, and a link to what was found finds
// it again. Without records there is nothing to search.
func TestRecorded(t *testing.T) {
	c := newClient(t)
	register(t, c, inMemory("files", mcptest.Script{}))
	var mu sync.Mutex
	var asked []api.RecordsQuery
	program := api.Program{Records: func(_ context.Context, q api.RecordsQuery) ([]json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q)
		if q.Events {
			return []json.RawMessage{json.RawMessage(`{"seq":9,"time":"2026-11-27T10:00:00Z","kind":"approval","server":"files","text":"files/write was approved"}`)}, nil
		}
		return []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"seq":7,"time":"2026-11-27T10:00:00Z","kind":"call","server":"files","method":"tools/call","target":"write<b>","principal":"ci","outcome":"unknown","errorKind":"crashed","text":"for %s","arguments":{"a":"<i>"},"tookNs":5000000}`, q.Text))}, nil
	}}
	p := newPage(t, serve(t, c, nil, web.WithProgram(program)).URL, prefix+"/#/calls")
	p.click(`#recorded [data-recorded=all]`)
	for _, shown := range []string{"write<b>", "for ci", "outcome unknown", `{"a":"<i>"}`} {
		p.has("#recorded", shown)
	}
	p.hash("#/calls?recorded=all")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		checkAccess(p, "records, "+look.suffix)
		p.wait(`document.documentElement.scrollWidth <= innerWidth`)
	}
	p.click(`#recorded [data-recorded=unknown]`)
	eval[bool](p, `(document.getElementById("filter").value = "write", document.getElementById("filter").dispatchEvent(new Event("input", { bubbles: true })), true)`)
	p.has("#recorded", "for write")
	p.wait(`location.hash.includes("recorded=unknown")`)
	eval[bool](p, `(location.reload(), true)`)
	p.has("#recorded", "for write")
	eval[bool](p, `(location.hash = "#/events?recorded=all", true)`)
	p.has("#recorded", "files/write was approved")
	number := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(asked)
	}
	before := number()
	p.click(`#recorded [data-recorded=all]`)
	require.Eventually(t, func() bool { return number() > before }, time.Minute, 10*time.Millisecond, "a click searches again")
	mu.Lock()
	defer mu.Unlock()
	var unknown, events bool
	for _, q := range asked {
		unknown, events = unknown || q.Unknown && q.Text == "write", events || q.Events
	}
	require.True(t, unknown && events, "%+v", asked)
}
