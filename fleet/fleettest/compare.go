//go:build linux

package fleettest

import (
	"testing"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// Compare lets nodes join, leave and die under load, and logs what callers have seen and how often two
// lives of a server have overlapped. Servers are in the processes of the nodes, all exclusive.
func Compare(t *testing.T, engine string, names int) {
	f := Start(t, Options{Engine: engine, Nodes: 2, TTL: 8 * time.Second, InMemory: true, Faulty: engine != "", BufferBytes: 32 << 20})
	f.Apply(Servers(names, names))
	ready := func(id, when string) {
		t.Helper()
		calls, err := ask[[]Call](f.Nodes[id], "probe", probeCommand{f.Names(), 40 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if c.Outcome != outcomeResult {
				t.Errorf("%s: %s does not answer: %s", when, c.Server, c.Error)
			}
		}
	}
	ready("a", "after the start")
	ready("b", "after the start")
	begin := func(ids ...string) {
		for _, id := range ids {
			o := loadOptions{Names: f.Names(), Callers: 16, Pause: 4 * time.Millisecond, Call: callOptions{Timeout: 5 * time.Second}}
			must[any](f.Nodes[id], "load", loadCommand{"compare", o})
		}
	}
	seen := 0 // overlaps
	end := func(what string, ids ...string) {
		overlaps := f.Evidence().overlaps()
		for _, id := range ids {
			l := must[*Load](f.Nodes[id], "unload", "compare")
			t.Logf("%s: calls of %s: %v, %d hung", what, id, l, l.Hung)
		}
		t.Logf("%s: %d overlaps of two lives", what, len(overlaps)-seen)
		seen = len(overlaps)
	}

	begin("a", "b")
	f.Add("c").Start()
	ready("c", "after a join")
	time.Sleep(12 * time.Second) // a fleet moves nothing before ten calm seconds
	end("join of c", "a", "b")

	begin("b", "c")
	must[any](f.Nodes["a"], "drain", nil)
	must[any](f.Nodes["a"], "close", nil)
	ready("b", "after a drain")
	end("drain of a", "b", "c")
	f.Nodes["a"].Kill()

	begin("b")
	killed := f.Nodes["c"].Kill()
	ready("b", "after a kill")
	t.Logf("kill of c: every name answers after %v", (boottime.Now() - killed).Round(time.Millisecond))
	end("kill of c", "b")

	d := f.Add("d")
	d.Start()
	ready("d", "after another join")
	var foreign []string // names on the other node
	for _, c := range must[[]Call](d, "probe", probeCommand{f.Names(), 40 * time.Second}) {
		if c.PID == f.Nodes["b"].PID() {
			foreign = append(foreign, c.Server)
		}
	}
	rest := residentBytes(d.PID()) >> 20
	for _, o := range []burstOptions{
		{Callers: 1, For: 3 * time.Second, Tool: toolCall},
		{Callers: 64, For: 3 * time.Second, Tool: toolCall},
		{Callers: 64, For: 3 * time.Second, Tool: toolBlob, Args: arguments{Bytes: 100_000}},
		{Callers: 256, For: 3 * time.Second, Tool: toolBlob, Args: arguments{Bytes: 100_000}},
	} {
		o.Names = foreign
		begun := boottime.Now()
		l := must[*Load](d, "burst", o)
		t.Logf("%d callers, %d bytes: %.0f calls/s with a result; %v, %d hung", o.Callers, o.Args.Bytes,
			float64(l.Outcomes[outcomeResult])/(boottime.Now()-begun).Seconds(), l, l.Hung)
	}
	t.Logf("resident memory of the caller: %d MB before, %d MB after; of the other node %d MB", rest, residentBytes(d.PID())>>20, residentBytes(f.Nodes["b"].PID())>>20)
}
