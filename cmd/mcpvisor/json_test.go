package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// camel matches a key in camel case, or one that MCP reserves.
var camel = regexp.MustCompile(`^(_meta|[a-z][A-Za-z0-9]*)$`)

// requireCamel checks every key of a value, except those below _meta.
func requireCamel(t *testing.T, value any) {
	t.Helper()
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			requireCamel(t, item)
		}
	case map[string]any:
		for key, item := range value {
			require.Regexp(t, camel, key)
			if key != "_meta" {
				requireCamel(t, item)
			}
		}
	}
}

// Every answer is an object, a list is one of its members, all keys are in camel
// case, and definitions have no field that the server did not send.
func TestJSON(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		script := mcptest.Script{Versions: []string{version},
			Tools: []mcptest.ToolDef{{Name: "t", Text: "x", Annotations: json.RawMessage(`{"openWorldHint":false}`)}}}
		broken := entryWith(map[string]any{"retry": map[string]any{"max_attempts": 1}}, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7})
		b := startRun(t, map[string]any{"one": entry(script), "two": broken}, "run")
		b.exits(cli.ExitOK, "--wait", "any", "status")
		for command, list := range map[string]string{"tools": "tools", "resources": "resources", "prompts": "prompts", "status": "servers", "doctor": "findings",
			"read one mcptest://text": "contents", "call one/t": "content", "prompt one hello": "messages"} {
			t.Run(version+"/"+command, func(t *testing.T) {
				_, out, errs := b.command(append([]string{"--json"}, strings.Fields(command)...)...)
				var answer map[string]any
				require.NoError(t, json.Unmarshal([]byte(out), &answer), out+errs)
				require.NotEmpty(t, answer[list])
				requireCamel(t, answer)
				for _, invented := range []string{"readOnlyHint", "idempotentHint"} {
					require.NotContains(t, out, invented)
				}
				if command == "tools" {
					require.Contains(t, out, `"openWorldHint": false`)
				}
				if version < "2026-07-28" {
					require.NotContains(t, out, "ttlMs")
					require.NotContains(t, out, "cacheScope")
				} else if list == "contents" {
					require.Contains(t, out, `"ttlMs": 0`)
				}
			})
		}
		b.stop()
	}
}

// An empty list is a list.
func TestJSON_empty_lists(t *testing.T) {
	path := configFile(t, mcptest.Script{NoTools: true, NoResources: true, NoPrompts: true})
	for command, want := range map[string]string{"tools": `{"tools": []}`, "prompts": `{"prompts": []}`, "resources": `{"resources": [], "resourceTemplates": []}`} {
		out := toolExits(t, cli.ExitOK, "--json", "-c", path, command)
		require.JSONEq(t, want, out)
	}
}

// Status lists an entry of the file that is not usable, with its reason.
func TestStatus_unusable_entries(t *testing.T) {
	lost := map[string]any{"comand": "x", "url": 7}
	for name, servers := range map[string]map[string]any{
		"beside a server": {"one": entry(mcptest.Script{}), "lost": lost, "off": map[string]any{"disabled": true}},
		"alone":           {"lost": lost},
	} {
		t.Run(name, func(t *testing.T) {
			path := serversFile(t, servers)
			out := toolExits(t, cli.ExitUnavailable, "-c", path, "status")
			require.Regexp(t, `(?m)^lost +not configured +- +- +0 +0 +0 +0 +"url" must be a string`, out)
			require.NotRegexp(t, `(?m)^off `, out)
			if name != "alone" {
				require.Regexp(t, `(?m)^one +ready `, out)
			}
			var stdout, stderr strings.Builder
			code := run(t.Context(), []string{"--json", "-c", path, "status"}, strings.NewReader(""), &stdout, &stderr)
			require.Equal(t, cli.ExitUnavailable, code)
			var answer struct {
				Servers []map[string]any `json:"servers"`
			}
			require.NoError(t, json.Unmarshal([]byte(stdout.String()), &answer), stdout.String())
			require.Equal(t, "lost", answer.Servers[0]["name"])
			require.Equal(t, "not configured", answer.Servers[0]["state"])
			require.Contains(t, answer.Servers[0]["reason"], `"url" must be a string`)
			require.Len(t, answer.Servers[0], 3)
		})
	}
}
