//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
)

var (
	stormDuration = flag.Duration("storm.duration", 0, "how long each storm of the gateway lasts (default: 2s, with -everything 6s)")
	stormPause    = flag.Duration("storm.pause", 0, "the pause between two kills of such a storm (default: a third of the duration, at most 2s)")
)

const stormCallers = 8

// stormHousehold returns a household whose server records its calls in dir, and the run of it.
func stormHousehold(t *testing.T, script mcptest.Script) (h *household, p *gatewaytest.Process, dir string) {
	t.Helper()
	dir = t.TempDir()
	h, p = stormHouseholdIn(t, dir, script)
	return h, p, dir
}

func stormHouseholdIn(t *testing.T, dir string, script mcptest.Script) (h *household, p *gatewaytest.Process) {
	t.Helper()
	script.StateDir = dir
	e := entry(script)
	e["retry"] = map[string]any{"base": "10ms", "max": "200ms", "max_attempts": "unlimited"}
	h = newHousehold(t, map[string]any{"fixture": e})
	return h, gatewaytest.Start(t, h.program, h.file, h.dir)
}

// killServer kills the server, which must run, and returns when it is started again.
func killServer(t *testing.T, dir string) {
	t.Helper()
	pids := mcptest.PIDs(dir)
	require.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(mcptest.PIDs(dir)) > len(pids) }, time.Minute, 10*time.Millisecond)
}

// storm makes calls from eight callers, each of which has a key of its own, while kill is called now and
// then. kill returns when the next one may come.
func storm(t *testing.T, p *gatewaytest.Process, l *gatewaytest.Ledger, kill func()) {
	t.Helper()
	hosts, before := make([]*gatewaytest.Host, stormCallers), make([]string, stormCallers)
	for i := range hosts {
		var err error
		hosts[i] = gatewaytest.NewHost(t, p.URL(), []string{"2025-11-25", "2026-07-28", "2025-06-18", "2024-11-05"}[i%4])
		before[i], err = hosts[i].List()
		require.NoError(t, err)
		require.Contains(t, before[i], `"fixture__count"`)
	}
	following, stop := context.WithCancel(t.Context())
	defer stop()
	received := make(chan []string, 1)
	go func() { received <- hosts[0].Follow(following, p) }()

	ended := make(chan struct{})
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() {
			seen := p.Await()
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				key := fmt.Sprintf("http-%d-%d", i, n)
				starts := p.Await()
				r, err := h.Count(key)
				switch {
				case errors.Is(err, gatewaytest.ErrBroken) && p.Await() > starts: // the gateway was killed
					l.AddLost(key)
					continue
				case err != nil:
					t.Errorf("%s: %v", key, err)
					return
				}
				l.Add(key, r)
				if starts > seen && r.IsError && p.Await() == starts {
					t.Errorf("%s: the first call after the gateway came back has failed: %+v", key, r)
				}
				seen = starts
				list, err := h.List()
				if errors.Is(err, gatewaytest.ErrBroken) && p.Await() > starts {
					continue
				}
				if err != nil || list != before[i] {
					t.Errorf("%s: the list is not what it was: %v\n%.500s", key, err, list)
					return
				}
			}
		})
	}
	duration := cmp.Or(*stormDuration, 2*time.Second)
	if *stormDuration == 0 && *everything {
		duration = 6 * time.Second
	}
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); {
		time.Sleep(cmp.Or(*stormPause, min(2*time.Second, duration/3))) // of the storm
		kill()
	}
	close(ended)
	all.Wait()
	stop()
	require.Empty(t, <-received, "no list has changed")
}

// requireNothing waits until nothing of the servers is left.
func requireNothing(t *testing.T, dir string) {
	t.Helper()
	for _, pid := range mcptest.PIDs(dir) {
		require.Eventually(t, func() bool { return !mcptest.Alive(pid) }, time.Minute, 10*time.Millisecond)
	}
}

// The server behind the gateway is killed again and again, while eight clients of four versions make
// calls. Their lists stay byte for byte, no change is announced, no call runs twice by the records of
// the server, and every error says what became of the call.
func TestGateway_server_is_killed_under_load(t *testing.T) {
	t.Parallel()
	_, p, dir := stormHousehold(t, mcptest.Script{})
	l := gatewaytest.NewLedger(t)
	storm(t, p, l, func() { killServer(t, dir) })
	require.Zero(t, l.Lost())
	p.Stop()
	l.Check(dir)
	requireNothing(t, dir)
}

// The gateway is killed again and again under the same load. Each client's next call succeeds, on
// the session that it had, and finds the list that it had. Hosts on mcpvisor stdio keep their session, too.
func TestGateway_is_killed_under_load(t *testing.T) {
	t.Parallel()
	h, p, dir := stormHousehold(t, mcptest.Script{})
	l := gatewaytest.NewLedger(t)
	defer func() {
		p.Stop()
		requireNothing(t, dir)
	}()
	var all sync.WaitGroup
	ended := make(chan struct{})
	for i := range 2 {
		session, errs, changed := h.host("--no-start")
		before, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		for caller := range stormCallers / 2 {
			all.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
					}
					key := fmt.Sprintf("stdio-%d-%d-%d", i, caller, n)
					result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fixture__count", Arguments: map[string]any{"key": key}})
					if err != nil {
						t.Errorf("%s: %v\n%s", key, err, errs)
						return
					}
					l.Add(key, seen(t, result))
				}
			})
		}
		defer func() {
			after, err := session.ListTools(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, before.Tools, after.Tools)
			require.Empty(t, changed, "no list has changed: %s", errs)
			require.NoError(t, session.Close())
		}()
	}
	kills := 0
	storm(t, p, l, func() {
		kills++
		p.Kill()
		p.Restart()
	})
	close(ended)
	all.Wait()
	require.LessOrEqual(t, mcptest.Starts(dir), kills+1) // a gateway may be killed before it has started its server
	require.NotZero(t, l.Lost(), "no call was in flight at a kill")
	l.Check(dir)
}

// seen is the result of the go-sdk as any host sees it.
func seen(t *testing.T, result *mcp.CallToolResult) (r gatewaytest.Result) {
	t.Helper()
	text, err := json.Marshal(result)
	if err = errors.Join(err, json.Unmarshal(text, &r)); err != nil {
		t.Error(err)
	}
	return r
}

// habitual is a host with one session, which is the only one it ever opens.
type habitual interface {
	list() ([]byte, error)
	call(tool, arguments string) (gatewaytest.Result, error)
}

// overHTTP is a host over Streamable HTTP. Its id of a session is the one that it was given first.
type overHTTP struct{ *gatewaytest.Host }

func (h overHTTP) list() ([]byte, error) {
	list, err := h.List()
	return []byte(list), err
}

func (h overHTTP) call(tool, arguments string) (gatewaytest.Result, error) {
	return h.Call(tool, arguments)
}

// overStdio is a host that has started mcpvisor stdio.
type overStdio struct {
	t *testing.T
	*mcp.ClientSession
}

func (h overStdio) list() ([]byte, error) {
	list, err := h.ListTools(h.t.Context(), nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

func (h overStdio) call(tool, arguments string) (gatewaytest.Result, error) {
	result, err := h.CallTool(h.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return gatewaytest.Result{}, err
	}
	return seen(h.t, result), nil
}

// Hosts with difficult habits, over HTTP and over stdio, while the server is killed, and then the
// gateway: all of their calls succeed.
func TestGateway_hosts_with_habits(t *testing.T) {
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "count"}, {Name: "echo"}, {Name: "add_tool"},
		{Name: "evil", As: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`)},
		{Name: "wrong", As: "echo", InputSchema: json.RawMessage(`{"type":"object","required":7}`)}}}
	for name, use := range map[string]func(t *testing.T, h habitual, disturb func()){
		// It lists once. The list changes, and it goes on with what it knows.
		"ignores list_changed": func(t *testing.T, h habitual, disturb func()) {
			list, err := h.list()
			require.NoError(t, err)
			known, err := gatewaytest.AcceptsTools(list)
			require.NoError(t, err)
			require.Equal(t, []string{"fixture__add_tool", "fixture__count", "fixture__echo"}, known)
			for n := range 3 {
				r, err := h.call(known[0], fmt.Sprintf(`{"name":"extra%d"}`, n))
				require.NoError(t, err)
				require.False(t, r.IsError, "%+v", r)
				disturb()
				r, err = h.call(known[2], `{"text":"x"}`)
				require.NoError(t, err)
				require.False(t, r.IsError, "%+v", r)
			}
		},
		// Whatever happens, its session is the first one: overHTTP and overStdio open no other.
		"never initializes again": func(t *testing.T, h habitual, disturb func()) {
			for n := range 3 {
				r, err := h.call("fixture__count", fmt.Sprintf(`{"key":%q}`, fmt.Sprintf("%s-%d", t.Name(), n)))
				require.NoError(t, err)
				require.False(t, r.IsError, "%+v", r)
				disturb()
			}
			r, err := h.call("fixture__echo", `{"text":"x"}`)
			require.NoError(t, err)
			require.False(t, r.IsError, "%+v", r)
		},
		// It would have no tool at all if one schema could not be compiled.
		"rejects a whole list for one bad schema": func(t *testing.T, h habitual, disturb func()) {
			for range 3 {
				list, err := h.list()
				require.NoError(t, err)
				names, err := gatewaytest.AcceptsTools(list)
				require.NoError(t, err)
				require.Contains(t, names, "fixture__count")
				disturb()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			household, p, dir := stormHousehold(t, script)
			for i, version := range []string{"2024-11-05", "stdio", "2026-07-28", "2025-11-25"} {
				t.Run(version, func(t *testing.T) {
					if leftOut(i) && version != "2026-07-28" {
						t.Skip("-everything plays it")
					}
					var h habitual
					if version == "stdio" {
						session, _, _ := household.host("--no-start")
						h = overStdio{t, session}
					} else {
						h = overHTTP{gatewaytest.NewHost(t, p.URL(), version)}
					}
					use(t, h, func() {
						killServer(t, dir)
						p.Kill()
						p.Restart()
					})
				})
			}
			p.Stop()
			for key, n := range mcptest.Executions(dir) {
				require.Equal(t, 1, n, key)
			}
			requireNothing(t, dir)
		})
	}
}
