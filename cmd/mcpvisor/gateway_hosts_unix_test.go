//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
)

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
