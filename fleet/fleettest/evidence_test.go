//go:build linux

package fleettest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEvidence: what is in order has no faults, and each fault is found.
func TestEvidence(t *testing.T) {
	const ms = time.Millisecond
	good := func() *Evidence {
		return &Evidence{
			Lives: []*Life{
				{header: header{Name: "only", PID: 10, Parent: 1, Epoch: 1, Exclusive: true, Began: 100 * ms}, Last: 200 * ms, Executed: []Execution{{"a", 150 * ms}}},
				{header: header{Name: "only", PID: 11, Parent: 2, Epoch: 2, Exclusive: true, Began: 300 * ms}, Last: 400 * ms, Executed: []Execution{{"b", 350 * ms}}},
				{header: header{Name: "shared", PID: 12, Parent: 1, Epoch: 1, Began: 100 * ms}, Last: 100 * ms},
				{header: header{Name: "shared", PID: 13, Parent: 2, Epoch: 1, Began: 100 * ms}, Last: 100 * ms},
			},
			Calls: []*Call{
				{ID: "a", Node: 1, Server: "only", Sent: 140 * ms, Limit: 240 * ms, Ended: 160 * ms, Outcome: outcomeResult, PID: 10, Epoch: 1},
				{ID: "b", Node: 1, Server: "only", Sent: 340 * ms, Limit: 440 * ms, Ended: 360 * ms, Outcome: "unknown", Error: "crashed"},
				{ID: "c", Node: 1, Server: "only", Sent: 240 * ms, Limit: 340 * ms, Ended: 260 * ms, Outcome: "not_sent"},
				{ID: "d", Node: 2, Server: "shared", Sent: 900 * ms, Limit: 990 * ms},
			},
			Killed: map[int]time.Duration{2: 950 * ms},
		}
	}
	require.Empty(t, good().Check())
	for fault, change := range map[string]func(e *Evidence){
		"has begun 50ms before the end of":      func(e *Evidence) { e.Lives[1].Began = 150 * ms },
		"has begun 0s before the end of":        func(e *Evidence) { e.Lives[1].Began = 200 * ms },
		"follows only as process 10":            func(e *Evidence) { e.Lives[1].Epoch = 1 },
		"was executed twice":                    func(e *Evidence) { e.Lives[2].Executed = []Execution{{"b", 351 * ms}} },
		"call c was not sent":                   func(e *Evidence) { e.Lives[1].Executed = []Execution{{"c", 350 * ms}} },
		"was executed by none":                  func(e *Evidence) { e.Lives[0].Executed = nil },
		"has a result of process 11, epoch 1":   func(e *Evidence) { e.Calls[0].PID = 11 },
		"has a result of process 10, epoch 2":   func(e *Evidence) { e.Calls[0].Epoch = 2 },
		"was executed at 130ms":                 func(e *Evidence) { e.Lives[0].Executed[0].At = 130 * ms },
		"was executed at 170ms":                 func(e *Evidence) { e.Lives[0].Executed[0].At = 170 * ms },
		"call d to shared has not ended":        func(e *Evidence) { delete(e.Killed, 2) },
		"call d to shared has not":              func(e *Evidence) { e.Killed[2] = time.Second },
		"call b to only ended 1ms after":        func(e *Evidence) { e.Calls[1].Limit = 359 * ms },
		"call b to only ended 1ms after its co": func(e *Evidence) { e.Calls[1].Limit = 359 * ms; e.Pauses = []Pause{{1, 360 * ms, 400 * ms}} },
	} {
		e := good()
		change(e)
		faults := e.Check()
		require.Len(t, faults, 1, fault)
		require.Contains(t, faults[0], fault)
	}
	e := good()
	e.Calls[1].Limit = 345 * ms
	e.Pauses = []Pause{{1, 341 * ms, 357 * ms}} // it could not end
	require.Empty(t, e.Check())
}

// TestReadEvidence: lines that were half written when a process was killed count as not written.
func TestReadEvidence(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("s.1.life", `{"name":"s","pid":1,"epoch":3,"exclusive":true,"began":5}`+"\nb 7 \nx 9 id\nb 1")
	write("s.2.life", `{"name":"s",`)
	write("a.calls", `{"id":"id","node":4,"server":"s","sent":6,"limit":20}`+"\n"+`{"id":"id","ended":10,"outcome":"result","pid":1,"epoch":3}`+"\n{")
	e, err := ReadEvidence(dir)
	require.NoError(t, err)
	require.Len(t, e.Lives, 1)
	require.Equal(t, Life{header{"s", 1, 0, 3, true, 5}, 9, []Execution{{"id", 9}}}, *e.Lives[0])
	require.Len(t, e.Calls, 1)
	require.Equal(t, Call{ID: "id", Node: 4, Server: "s", Sent: 6, Limit: 20, Ended: 10, Outcome: outcomeResult, PID: 1, Epoch: 3}, *e.Calls[0])
	require.Empty(t, e.Check())
}
