package browser

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/rules"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The page shows the calls that wait for a decision with all characters of their arguments, and a person decides there.
func TestApprovals(t *testing.T) {
	c := newClient(t)
	register(t, c, inMemory("files", mcptest.Script{}))
	var mu sync.Mutex
	open, decided := []api.Approval{
		{ID: "1a", Principal: "ci", Server: "files", Tool: "delete_file", Arguments: json.RawMessage("{\"path\":\"a\u202eb\U000e0065\"}"), Rule: "rule 2 (.mcp.json:12)", Asked: time.Now()},
		{ID: "2b", Client: "editor 2.1", Server: "files", Tool: "write_file", Arguments: json.RawMessage(`{"path":"<b>x</b>"}`), Rule: "rule 3", Asked: time.Now(), InputResponses: json.RawMessage(`{"q1":{"action":"accept"}}`)},
		{ID: "3c", Server: "files", Tool: "deep", Arguments: json.RawMessage(`{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`), Rule: "rule 4", Asked: time.Now()},
	}, map[string]bool{}
	program := api.Program{Approvals: func() []api.Approval {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(open)
	}, Decide: func(id string, approve bool, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(open, func(a api.Approval) bool { return a.ID == id })
		if i < 0 {
			return rules.ErrNoQuestion
		}
		open, decided[id] = slices.Delete(open, i, i+1), approve
		return nil
	}}
	p := newPage(t, serve(t, c, nil, web.WithControls(), web.WithProgram(program)).URL, prefix+"/")
	for _, shown := range []string{"Waiting for a decision", "delete_file", "ci", "editor 2.1", "rule 2 (.mcp.json:12)", `{"path":"a\u202eb\udb40\udc65"}`, `{"path":"<b>x</b>"}`, "with the client’s answers to its server", `{"q1":{"action":"accept"}}`, "This cannot be shown: "} {
		p.has("#approvals", shown)
	}
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		p.wait(`[...document.querySelectorAll("#approvals .scroll")].every((e) => e.scrollWidth <= e.clientWidth)`)
		checkAccess(p, "approvals, "+look.suffix)
		if *screenshots != "" {
			eval[bool](p, `(document.querySelector("#approvals").scrollIntoView(), scrollBy(0, -90), true)`)
			shoot(p, "approvals-"+look.suffix)
		}
	}
	eval[bool](p, `(document.querySelector('#approvals [data-act=approve][data-id="1a"]').click(), true)`)
	p.has("#answer", "The call is approved.")
	eval[bool](p, `(document.querySelector('#approvals [data-act=deny][data-id="2b"]').click(), true)`)
	p.click(`#approvals [data-act=deny][data-id="3c"]`)
	p.wait(`document.querySelector("#approvals").hidden`)
	mu.Lock()
	defer mu.Unlock()
	if len(decided) != 3 || !decided["1a"] || decided["2b"] || decided["3c"] {
		t.Fatalf("decided: %v", decided)
	}
}
