package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
)

// guardedConfig writes a configuration with a server, "web", that wants OAuth, and
// another one, "open", that does not. Tokens go to a directory of the test.
func guardedConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("AppData", dir)
	web := mcptest.NewHTTP(mcptest.Script{Name: "web"})
	t.Cleanup(web.Close)
	guard := oauthtest.NewServer(web.URL)
	t.Cleanup(guard.Close)
	return serversFile(t, map[string]any{"web": map[string]any{"url": guard.URL, "auth": true}, "open": map[string]any{"url": web.URL}})
}

var address = regexp.MustCompile(`http://\S+/authorize\?\S+`)

// actAsUser reads the output of the program. It calls then once, with the URL to
// open, and returns the whole output.
func actAsUser(t *testing.T, out io.Reader, then func(url string)) *strings.Builder {
	t.Helper()
	seen, opened := new(strings.Builder), false
	buffer := make([]byte, 4096)
	for {
		n, err := out.Read(buffer)
		seen.Write(buffer[:n])
		if url := address.FindString(seen.String()); url != "" && strings.HasSuffix(seen.String(), "\n") && !opened {
			opened = true
			go then(url) // the program continues to print
		}
		if err != nil {
			return seen
		}
	}
}

// command runs the program, and acts on its output as a user does.
func command(t *testing.T, in io.Reader, then func(url string), args ...string) (code int, out, errs string) {
	t.Helper()
	r, w := io.Pipe()
	var problems strings.Builder
	done := make(chan int, 1)
	go func() {
		done <- run(context.Background(), args, in, w, &problems)
		_ = w.Close()
	}()
	seen := actAsUser(t, r, then)
	return <-done, seen.String(), problems.String()
}

// With --device the user enters a code on another device, and no browser comes back to this machine.
func TestAuthorize_device(t *testing.T) {
	web := mcptest.NewHTTP(mcptest.Script{Name: "web"})
	t.Cleanup(web.Close)
	guard := oauthtest.NewServer(web.URL)
	t.Cleanup(guard.Close)
	guard.Set(oauthtest.Rules{Device: true})
	path := serversFile(t, map[string]any{"web": map[string]any{"url": guard.URL, "auth": map[string]any{"store": filepath.Join(t.TempDir(), "tokens")}}})
	login := regexp.MustCompile(`(?s)\n(http://\S+/device)\n\nand enter the code (\S+) before`)
	r, w := io.Pipe()
	var problems strings.Builder
	done := make(chan int, 1)
	go func() {
		done <- run(context.Background(), []string{"-c", path, "authorize", "web", "--device"}, strings.NewReader(""), w, &problems)
		_ = w.Close()
	}()
	out, buffer, entered := "", make([]byte, 4096), false
	for {
		n, err := r.Read(buffer)
		out += string(buffer[:n])
		if found := login.FindStringSubmatch(out); found != nil && !entered {
			entered = true
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(found[1] + "?user_code=" + found[2])
			require.NoError(t, err)
			_ = resp.Body.Close()
		}
		if err != nil {
			break
		}
	}
	require.Equal(t, cli.ExitOK, <-done, problems.String())
	require.Contains(t, out, "authorized: server web is ready")
	require.NotContains(t, out, "device-", "the device code is a secret")
	code, out, errs := command(t, strings.NewReader(""), func(string) { t.Error("the user was asked") }, "-c", path, "call", "web/echo", `{"text":"hello"}`)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "hello")

	guard.Set(oauthtest.Rules{})
	code, _, errs = command(t, strings.NewReader(""), func(string) { t.Error("the user was asked") }, "-c", path, "authorize", "web", "--device", "--again")
	require.Equal(t, cli.ExitUnavailable, code)
	require.Contains(t, errs, "offers no login by code")
}

func TestAuthorize(t *testing.T) {
	path := guardedConfig(t)
	notAsked := func(string) { t.Error("the user was asked") }
	code, _, errs := command(t, strings.NewReader(""), notAsked, "-c", path, "call", "web/echo", `{"text":"hello"}`)
	require.Equal(t, cli.ExitUnavailable, code)
	require.Contains(t, errs, "mcpvisor authorize")
	require.NotContains(t, errs, "state=")

	code, out, errs := command(t, strings.NewReader(""), func(url string) {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
	}, "-c", path, "authorize", "web")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "authorized: server web is ready")

	code, out, errs = command(t, strings.NewReader(""), notAsked, "-c", path, "call", "web/echo", `{"text":"hello"}`)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "hello")
	code, out, _ = command(t, strings.NewReader(""), notAsked, "-c", path, "authorize", "web")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, out, "needs no authorization")

	code, _, _ = command(t, strings.NewReader(""), notAsked, "-c", path, "authorize", "web", "--forget")
	require.Equal(t, cli.ExitOK, code)
	code, _, _ = command(t, strings.NewReader(""), notAsked, "-c", path, "tools", "web")
	require.NotEqual(t, cli.ExitOK, code)
}

// A server of a running run uses the tokens that authorize has obtained beside it.
func TestAuthorize_beside_run(t *testing.T) {
	text, err := os.ReadFile(guardedConfig(t))
	require.NoError(t, err)
	var file struct {
		Servers map[string]any `json:"mcpServers"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	b := startRun(t, file.Servers, "run")
	b.await("(1 of 2 ready)")
	code, _, _ := b.command("--wait", "ready", "status") // ends when web is unauthorized
	require.Equal(t, cli.ExitUnavailable, code)
	code, out, errs := command(t, strings.NewReader(""), func(url string) {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
	}, "-c", b.config, "authorize", "web")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "authorized: server web is ready")
	require.Regexp(t, `^mcpvisor run \(pid \d+\) continues; authorize starts a copy of the server, .*\nmcpvisor run \(pid \d+\) restarts server web with it\n$`, errs)
	b.exits(cli.ExitOK, "--wait", "ready", "status", "--timeout", "1m")
}

// A user whose browser is on another machine pastes the URL at which it ends.
func TestAuthorize_by_pasted_URL(t *testing.T) {
	path := guardedConfig(t)
	in, keyboard := io.Pipe()
	code, out, errs := command(t, in, func(url string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			_, _ = io.WriteString(keyboard, "not a URL\n"+resp.Header.Get("Location")+"\n")
		}
	}, "-c", path, "authorize", "web")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, errs, "that is not the URL")
	require.Contains(t, out, "authorized")
}

func TestAuthorize_server_without_auth(t *testing.T) {
	path := guardedConfig(t)
	code, _, errs := command(t, strings.NewReader(""), func(string) {}, "-c", path, "authorize", "open", "--again")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, `"auth": {}`)
}

// The advice about credentials depends on the entry.
func TestDoctor_advice_about_credentials(t *testing.T) {
	text, err := os.ReadFile(guardedConfig(t))
	require.NoError(t, err)
	shut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer shut.Close()
	guarded := func(auth string) string { return strings.Replace(string(text), `"auth":true`, `"auth":`+auth, 1) }
	for file, want := range map[string]string{
		guarded(`true`):  `run mcpvisor authorize web`,
		guarded(`false`): `put valid credentials into "headers"; if the server authorizes by OAuth, set "auth": {} and run mcpvisor authorize web`,
		guarded(`{"client_id":"unknown","client_secret":"x","grant":"client_credentials"}`): `correct the client in "auth"`,
		`{"servers":{"web":{"url":"` + shut.URL + `","auth":true}}}`:                        `correct "auth" as the message says, then run mcpvisor authorize web`,
	} {
		path := filepath.Join(t.TempDir(), "servers.json")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		code, out, errs := command(t, strings.NewReader(""), func(string) {}, "-c", path, "doctor")
		require.Equal(t, cli.ExitUnavailable, code, out+errs)
		require.Contains(t, out, "      advice   "+want+"\n")
		require.Equal(t, 1, strings.Count(out, "advice"), out)
	}
}
