package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The target of a call is text of a model: it is shown on one line, without secrets.
func TestTargets_of_calls_are_safe_to_show(t *testing.T) {
	c := newClient(t)
	register(t, c, "s")
	for _, uri := range []string{"https://user:canary-user@db.internal/rows?access_token=canary-query&canary-bare#canary-fragment", "file:///a\u202eb\u009bc\nd",
		"https://canary-" + strings.Repeat("x", 300) + "@db.internal/"} {
		_, err := c.ReadResource(t.Context(), "s", uri)
		require.Error(t, err)
	}
	_, err := c.CallTool(t.Context(), "s/none\u202eevil\u009b", nil)
	require.Error(t, err)
	var targets []string
	for _, call := range decoded[api.Calls](serve(t, c), "/api/calls", 200).Recent {
		targets = append(targets, call.Target)
	}
	require.Equal(t, []string{"https://***@db.internal/rows?access_token=***&***#***", "file:///abc d", "https://***@db.internal/", "noneevil"}, targets)
}

// TestSecrets_reach_no_endpoint puts secrets wherever a specification can hold one, lets the
// servers repeat them wherever a server can, and reads every endpoint.
func TestSecrets_reach_no_endpoint(t *testing.T) {
	secrets := map[string]string{"environment": "canary-in-the-environment", "argument": "canary-in-an-argument", "header": "canary-in-a-header",
		"url": "canary-in-a-url", "named": "canary-that-was-named", "token": "canary-token-of-the-page"}
	var repeat []string
	for _, s := range secrets {
		repeat = append(repeat, s)
	}
	text := strings.Join(repeat, " and ")
	c := newClient(t)
	retry := supervisor.Retry(2, time.Hour)
	add := func(spec mcpvisor.ServerSpec) {
		spec.StartSupervised, spec.Secrets = true, []string{secrets["named"], secrets["token"]}
		require.NoError(t, c.Register(t.Context(), spec))
	}
	process := func(name string, faults ...mcptest.Fault) mcpvisor.ServerSpec {
		s := mcpvisor.ServerSpec{Name: name, Origin: ".mcp.json:1", Policy: retry, Stdio: mcptest.Stdio(mcptest.Script{Name: "server of " + text, Version: text, Faults: faults})}
		s.Stdio.Env["SERVICE_API_KEY"] = secrets["environment"]
		s.Stdio.Env["HEADER_API_KEY"], s.Stdio.Env["URL_API_KEY"] = secrets["header"], secrets["url"] // those of the other server
		s.Stdio.Args = []string{"--token", secrets["argument"]}
		return s
	}
	complaint := mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "cannot use " + text}
	add(process("exits", complaint, mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionExit, Code: 1}, mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionExit, Code: 1}))
	add(process("refuses", mcptest.Fault{At: mcptest.StageInitialize, Do: mcptest.ActionError, Text: "refused: " + text},
		mcptest.Fault{At: mcptest.StageDiscover, Do: mcptest.ActionError, Text: "refused: " + text}))
	add(process("serves", complaint, mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionJunk, Text: "banner of " + text},
		mcptest.Fault{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionError, Text: "no: " + text}))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no: "+text+r.Header.Get("Authorization")+r.URL.String(), http.StatusInternalServerError)
	}))
	defer refusing.Close()
	address := strings.Replace(refusing.URL, "http://", "http://user:"+secrets["url"]+"@", 1) + "/mcp?api_key=" + secrets["url"]
	remote := mcpvisor.ServerSpec{Name: "remote", Policy: retry, HTTP: &mcpvisor.HTTP{URL: address, Headers: map[string]string{
		"Authorization": "Bearer " + secrets["header"], "X-Api-Key": secrets["environment"], "X-Other-Token": secrets["argument"]}}}
	add(remote)
	require.NoError(t, c.WaitReady(t.Context(), "serves"))
	require.NoError(t, c.SetLoggingLevel(t.Context(), "serves", "debug"))

	s := serve(t, c, web.WithControls(), web.WithToken(secrets["token"]))
	withToken := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secrets["token"]) }
	var seen strings.Builder
	read := func(method, path, body string) {
		response, answer := s.do(method, path, body, withToken)
		seen.WriteString("\n== " + method + " " + path + "\n" + answer)
		for name, values := range response.Header {
			seen.WriteString(name + ": " + strings.Join(values, ", ") + "\n")
		}
	}
	read(http.MethodPost, "/api/call", `{"tool":"serves/echo","arguments":{"text":"x"}}`)
	_, err := c.CallTool(t.Context(), "serves/log", map[string]any{"level": "error", "text": text})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		st, _ := c.Stderr("serves")
		events, _ := c.History().Events(0)
		logged := false
		for _, e := range events {
			logged = logged || e.Kind == mcpvisor.EventLog
		}
		down := 0
		for _, one := range c.Status() {
			if one.State == supervisor.StateBackoff || one.State == supervisor.StateEvicted || one.State == supervisor.StateUnauthorized {
				down++
			}
		}
		return st.Total > 0 && logged && down == 3
	}, 30*time.Second, 5*time.Millisecond)
	read(http.MethodPost, "/api/call", `{"tool":"serves/crash"}`)
	read(http.MethodPost, "/api/call", `{"tool":"exits/echo"}`)
	read(http.MethodPost, "/api/call", `{"tool":"remote/echo"}`)
	for _, path := range []string{"/", "/app.js", "/api/status", "/api/calls", "/api/tools", "/api/events", "/healthz", "/readyz", "/none", "/api/servers/none"} {
		read(http.MethodGet, path, "")
	}
	for _, name := range []string{"exits", "refuses", "serves", "remote"} {
		for _, part := range []string{"", "/tools", "/stderr", "/stderr?after=0"} {
			read(http.MethodGet, "/api/servers/"+name+part, "")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/events/stream", nil)
	require.NoError(t, err)
	withToken(r)
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	for buffer := make([]byte, 4096); !strings.Contains(seen.String(), "serves down"); {
		n, err := response.Body.Read(buffer)
		require.NoError(t, err)
		seen.Write(buffer[:n])
	}
	response.Body.Close()

	for place, secret := range secrets {
		at := strings.Index(seen.String(), secret)
		if at >= 0 {
			begin := strings.LastIndex(seen.String()[:at], "\n== ")
			require.Fail(t, "a secret is shown", "%s: %.120s … %s", place, seen.String()[begin:], seen.String()[max(0, at-200):at+60])
		}
	}
	require.Contains(t, seen.String(), "***", "the servers did repeat them")
	require.Contains(t, seen.String(), "cannot use ***")
	require.Contains(t, seen.String(), "refused: ***")
	require.Contains(t, seen.String(), "no: ***")
}
