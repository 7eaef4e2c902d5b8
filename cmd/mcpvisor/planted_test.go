package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Secrets by reference, whatever they look like, are in nothing that a run shows, serves or keeps: its server repeats them
// in descriptions, errors, logs and on stderr, and a client in arguments. Only the result of the call has them.
func TestRun_planted_secrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no printf")
	}
	folder := t.TempDir()
	secrets := map[string]string{
		"KEYS": "-----BEGIN KEY-----\nYWJjZGVmZ2hpamts\nbW5vcHFyc3R1dnd4\n-----END KEY-----", "PIN": "73019284650", "QUOTED": `a"b\c/d'e<f>g`, "WORD": "swordfish-4711", "PRINTED": "printed-by-a-program",
	}
	value := func(name string) string { return "${file:" + filepath.Join(folder, name) + "}" }
	env, all := map[string]any{"PRINTED": "${command:printf " + secrets["PRINTED"][:10] + "%s\\n " + secrets["PRINTED"][10:] + "}"}, []string{}
	for name, secret := range secrets {
		all = append(all, secret)
		if name != "PRINTED" {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(secret+"\n"), 0o600))
			env[name] = value(name)
		}
	}
	plain := strings.Join(all, " and ")
	one := entry(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo", Description: "uses " + plain}, {Name: "held", As: "echo", Description: plain}, {Name: "fall", Description: plain}, {Name: "refuse"}, {Name: "fail", Text: plain, IsError: true}}, Instructions: plain,
		Faults: []mcptest.Fault{{At: mcptest.StageInitialized, Do: mcptest.ActionStderrLine, Text: plain}, {At: mcptest.StageCall, Tool: "fall", Do: mcptest.ActionStderrLine, Text: plain}, {At: mcptest.StageCall, Tool: "fall", Do: mcptest.ActionExit, Code: 3},
			{At: mcptest.StageCall, Tool: "refuse", Do: mcptest.ActionError, Text: plain}}})
	script := one["env"].(map[string]string)
	for name, text := range script {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		env[name] = value(name)
	}
	one["env"] = env
	file := filepath.Join(folder, "c.json")
	records := filepath.Join(folder, "records")
	text := jsonText(t, map[string]any{"mcpServers": map[string]any{"one": one}, "lock": "warn", "rules": []any{map[string]any{"tool": "held", "do": "ask"}}})
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	b := startRunOf(t, shortDir(t), file, "run", "--http", "127.0.0.1:0", "--records", records, "--records-arguments", "whole")
	page := pageOf(b)
	b.await(" ready: ")
	shown := map[string]string{}
	for _, args := range [][]string{{"lock"}, {"status"}, {"--json", "status"}, {"status", "one"}, {"tools", "one"}, {"--json", "tools", "one"}, {"inspect", "one"}, {"logs", "one"}, {"attention"}, {"doctor"}, {"config"},
		{"call", "one/none", `{"x":` + jsonText(t, plain) + `}`}, {"call", "one/echo", `{"text":` + jsonText(t, plain) + `,"n":73019284650,"m":1730192846509}`},
		{"call", "one/refuse", "{}"}, {"call", "one/fall", "{}"}, {"--wait", "ready", "status"},
		{"calls"}, {"--json", "calls"}, {"events"}, {"--json", "events"}, {"reload", "--dry-run"}, {"lock", "diff"}, {"token", "ci"}} {
		_, out, errs := b.command(args...)
		if args[0] == "call" && args[1] == "one/echo" {
			out = "" // the result
		}
		shown[strings.Join(args[:min(2, len(args))], " ")] = out + errs
	}
	for _, path := range []string{"status", "servers/one", "servers/one/tools", "servers/one/resources", "calls", "events", "tools", "clients", "usage", "approvals", "../metrics", "history"} {
		_, shown[path] = request(t, http.MethodGet, page+"api/"+path, "")
	}
	request(t, http.MethodPost, page+"api/nonsense", "")
	waiting := make(chan struct{})
	arguments := `{"text":` + jsonText(t, plain) + `}`
	go func() { defer close(waiting); b.command("call", "one/held", arguments) }()
	require.Eventually(t, func() bool {
		_, out, _ := b.command("approvals")
		_, more, _ := b.command("--json", "approvals")
		shown["approvals"] = out + more
		return strings.Contains(out, "one/held")
	}, 30*time.Second, 10*time.Millisecond)
	_, shown["status, a call waits"] = request(t, http.MethodGet, page+"api/status", "")
	id := regexp.MustCompile(`(?m)^([0-9a-f]{10}) `).FindStringSubmatch(shown["approvals"])
	require.NotEmpty(t, id, shown["approvals"])
	_, out, errs := b.command("deny", id[1], "--reason=not now")
	shown["deny"] = out + errs
	<-waiting
	for _, path := range []string{"calls", "records?kind=calls", "records?kind=events"} {
		_, shown[path+" at the end"] = request(t, http.MethodGet, page+"api/"+path, "")
	}
	shown["run"] = b.stop() + b.errs.String()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != file && secrets[d.Name()] == "" && script[d.Name()] == "" {
			data, err := os.ReadFile(path)
			shown[path] = string(data)
			return err
		}
		return err
	}))
	for what, text := range shown {
		for name, secret := range secrets {
			encoded, err := json.Marshal(secret)
			require.NoError(t, err)
			for _, form := range append(strings.Split(secret, "\n"), secret, string(encoded[1:len(encoded)-1])) {
				if !strings.Contains(form, "-----") {
					if i := strings.Index(text, form); i >= 0 {
						t.Errorf("%s shows %s: …%s…", what, name, text[max(0, i-100):min(len(text), i+len(form)+20)])
					}
				}
			}
		}
	}
	require.Equal(t, cli.ExitOK, b.code)
}
