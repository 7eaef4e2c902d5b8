package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// pageStatus is the answer of the page's API.
func pageStatus(t *testing.T, page string) (answer api.Status) {
	t.Helper()
	status, body := request(t, http.MethodGet, page+"api/status", "")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	return answer
}

// An entry that cannot be used is a server in every view, with its reason and its line. A
// disabled one does not count.
func TestRun_shows_entries_that_cannot_be_used(t *testing.T) {
	good := entry(mcptest.Script{})
	hasty := entry(mcptest.Script{})
	hasty["timeouts"] = map[string]any{"call": "soon"}
	servers := map[string]any{"good": good, "hasty": hasty,
		"lacks": map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}},
		"off":   map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}, "disabled": true}}
	b := startRun(t, servers, "run", "--http", "127.0.0.1:0")
	require.Regexp(t, `^3 servers of `, b.await("servers of "))
	page := pageOf(b)
	for wanted := map[string]string{"  good   ready": `\([012] of 3 ready\)`, "  lacks  EVICTED": `MCPVISOR_TEST_NOT_SET is not set`, "  hasty  EVICTED": `timeouts\.call`}; len(wanted) > 0; {
		line := b.await("  ")
		for mark, pattern := range wanted {
			if strings.Contains(line, mark) {
				require.Regexp(t, pattern, line)
				delete(wanted, mark)
			}
		}
	}
	b.drain()

	answer := pageStatus(t, page)
	require.Equal(t, []string{"good", "hasty", "lacks"}, answer.Names)
	require.Len(t, answer.Attention, 2)
	for _, a := range answer.Attention {
		require.Equal(t, api.AttentionEvicted, a.Kind)
		require.Regexp(t, `(MCPVISOR_TEST_NOT_SET is not set|"timeouts\.call").*\(.*c\.json:1\); given up$`, a.Text)
	}
	status, body := request(t, http.MethodGet, page+"readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Regexp(t, `"server": ?"lacks","state": ?"evicted","reason": ?".*MCPVISOR_TEST_NOT_SET is not set`, body)
	status, _ = request(t, http.MethodGet, page+"readyz?server=good", "")
	require.Equal(t, http.StatusOK, status)
	_, body = request(t, http.MethodGet, page+"metrics", "")
	require.Regexp(t, `(?m)^mcpvisor_server_state\{.*"evicted".*"lacks".*\} 1$|^mcpvisor_server_state\{.*"lacks".*"evicted".*\} 1$`, body)
	require.Regexp(t, `(?m)^mcpvisor_config_usable 0$`, body)
	code, out, _ := b.command("config")
	require.Equal(t, cli.ExitUsage, code)
	require.Regexp(t, `(?m)^lacks +x +\S+c\.json:1 +not usable`, out)
	all, _ := b.status(cli.ExitUnavailable)
	require.Len(t, all.Servers, 3)

	servers["lacks"], servers["hasty"] = good, good
	b.write(servers)
	code, out, errs := b.command("reload") // until then they are given up, for which status does not wait
	require.Equal(t, cli.ExitOK, code, out+errs)
	code, out, errs = b.command("--wait", "ready", "status")
	require.Equal(t, cli.ExitOK, code, out+errs)
	require.Empty(t, pageStatus(t, page).Attention)
	status, _ = request(t, http.MethodGet, page+"readyz", "")
	require.Equal(t, http.StatusOK, status)
	_, body = request(t, http.MethodGet, page+"metrics", "")
	require.Regexp(t, `(?m)^mcpvisor_config_usable 1$`, body)

	b.writeText(`{"mcpServers": `)
	code, _, _ = b.command("reload")
	require.Equal(t, cli.ExitUsage, code)
	answer = pageStatus(t, page)
	require.Len(t, answer.Attention, 1)
	require.Equal(t, api.AttentionConfiguration, answer.Attention[0].Kind)
	require.Regexp(t, `c\.json:1:\d+: .*; the servers stay as they are$`, answer.Attention[0].Text)
	_, body = request(t, http.MethodGet, page+"metrics", "")
	require.Regexp(t, `(?m)^mcpvisor_config_usable 0$`, body)
}

// With --json the events of such a server name the reason, as those of any server.
func TestRun_tells_of_entries_that_cannot_be_used(t *testing.T) {
	b := startRun(t, map[string]any{"good": entry(mcptest.Script{}), "odd": map[string]any{"comand": "x"}}, "--json", "run")
	var ev mcpvisor.Event
	require.NoError(t, json.Unmarshal([]byte(b.await(`"kind":"evicted"`)), &ev))
	require.Equal(t, "odd", ev.Server)
	require.Equal(t, supervisor.CauseConfig, ev.Cause.Kind)
	require.True(t, ev.Cause.Permanent)
	require.Regexp(t, `command.*\(.*c\.json:1\)$`, ev.Cause.Message)
}
