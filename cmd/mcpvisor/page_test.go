package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/daemon"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// pageOf waits for the address that a run prints.
func pageOf(b *background) string {
	b.t.Helper()
	return regexp.MustCompile(`http://\S+/$`).FindString(b.await("page: "))
}

// request makes one request without keeping the connection.
func request(t *testing.T, method, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestRun_page(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		restart int
	}{
		"read only": {nil, http.StatusForbidden},
		"controls":  {[]string{"--controls"}, http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, append([]string{"run", "--http", "127.0.0.1:0"}, c.args...)...)
			page := pageOf(b)
			b.await(" ready: ")
			status, body := request(t, http.MethodGet, page+"api/status", "")
			require.Equal(t, http.StatusOK, status)
			var answer api.Status
			require.NoError(t, json.Unmarshal([]byte(body), &answer))
			require.Equal(t, []string{"one"}, answer.Names)
			require.Equal(t, len(c.args) > 0, answer.Controls)
			status, body = request(t, http.MethodGet, page, "")
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, body, "<html")
			status, _ = request(t, http.MethodGet, page+"readyz", "")
			require.Equal(t, http.StatusOK, status)
			_, errs := b.exits(cli.ExitOK, "call", "one/echo", `{"text":"x"}`)
			status, body = request(t, http.MethodGet, page+"metrics", "")
			require.Equal(t, http.StatusOK, status)
			require.Regexp(t, `(?m)^mcp_client_operation_duration_seconds_count\{.*gen_ai_tool_name="echo".*\} 1$`, body, errs)
			require.Regexp(t, `(?m)^mcpvisor_\w+\{.*"one".*\} 1$`, body)
			status, _ = request(t, http.MethodPost, page+"api/servers/one/restart", "")
			require.Equal(t, c.restart, status)
			// What only the commands need is not served there.
			status, _ = request(t, http.MethodGet, page+"run/info", "")
			require.Equal(t, http.StatusNotFound, status)

			code, out, errs := b.command("--json", "status")
			require.Contains(t, []int{cli.ExitOK, cli.ExitUnavailable}, code, errs) // it may be starting again
			require.Contains(t, out, `"url": "`+page+`"`)
			b.stop()
			require.Zero(t, b.code, b.errs.String())
		})
	}
}

// The token may come from a file, or from the environment.
func TestRun_page_with_token(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("a secret\n"), 0o600))
	for variable, args := range map[string][]string{"": {"run", "--http", "0.0.0.0:0", "--token-file", file}, "a secret": {"run", "--http", "0.0.0.0:0"}} {
		t.Setenv(daemon.TokenVariable, variable)
		b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, args...)
		page := pageOf(b)
		require.Contains(t, page, "http://localhost:")
		for token, want := range map[string]int{"": http.StatusUnauthorized, "other": http.StatusUnauthorized, "a secret": http.StatusOK} {
			status, _ := request(t, http.MethodGet, page+"api/status", token)
			require.Equal(t, want, status, token)
		}
		require.NotContains(t, b.stop(), "a secret")
	}
}

// What is wrong about the page is said before a server is started.
func TestRun_page_refused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(empty, []byte(" \n"), 0o600))
	t.Setenv(daemon.TokenVariable, "")
	for args, want := range map[string]string{
		"--http 0.0.0.0:0": `--http 0.0.0.0:0 can be reached from other machines, so it needs a token; set --token-file or MCPVISOR_TOKEN, or listen on 127.0.0.1`,
		"--http :0":        `can be reached from other machines`,
		"--http [::]:0":    `can be reached from other machines`,
		"--http nonsense":  `--http "nonsense" is not an address: .*; write for instance 127.0.0.1:7777`,
		"--http 127.0.0.1:0 --token-file " + empty: `token file .* is empty; write a secret into it`,
		"--http 127.0.0.1:0 --token-file /none":    `the token cannot be read: `,
		"--controls":                               `set its address with --http`,
		"--require one":                            `set its address with --http`,
	} {
		t.Run(args, func(t *testing.T) {
			dir, server := recorded(t)
			b := startRun(t, map[string]any{"one": server}, append([]string{"run"}, strings.Split(args, " ")...)...)
			require.Empty(t, b.stop())
			require.Equal(t, cli.ExitUsage, b.code)
			require.Regexp(t, want, b.errs.String())
			require.Empty(t, mcptest.PIDs(dir))
		})
	}
}
