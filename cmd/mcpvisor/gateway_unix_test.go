//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// bearer adds a token to each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session with an MCP server over Streamable HTTP.
func connect(t *testing.T, url, token string) (*mcp.ClientSession, error) {
	t.Helper()
	transport := &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}
	if token != "" {
		transport.HTTPClient = &http.Client{Transport: bearer{token}}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// mcpURL waits for the address of the MCP server.
func mcpURL(b *background) string {
	return strings.TrimPrefix(b.await("MCP server: "), "MCP server: ")
}

// The servers of a run are one MCP server, at an address of its own or beside the page.
func TestRun_mcp(t *testing.T) {
	for name, args := range map[string][]string{
		"own":             {"run", "--mcp", "127.0.0.1:0"},
		"beside the page": {"run", "--http", "127.0.0.1:0", "--mcp", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STATE_DIRECTORY", t.TempDir())
			b := startRun(t, map[string]any{"fixture": entry(mcptest.Script{})}, args...)
			url := mcpURL(b)
			b.await(" ready: ")
			session, err := connect(t, url, "")
			require.NoError(t, err)
			echo(t, session, "over HTTP")
			if name != "own" {
				response, err := http.Get(strings.TrimSuffix(url, "mcp") + "healthz")
				require.NoError(t, err)
				_ = response.Body.Close()
				require.Equal(t, http.StatusOK, response.StatusCode)
				requireClients(t, b, strings.TrimSuffix(url, "mcp"))
			}
			http.DefaultClient.CloseIdleConnections()
			require.NoError(t, session.Close())
		})
	}
}

// requireClients requires that the page, metrics and the socket show both hosts of a run: the one
// over HTTP, and one that comes over the socket, as mcpvisor stdio does.
func requireClients(t *testing.T, b *background, url string) {
	t.Helper()
	conn, err := attach.DialMCP(t.Context(), b.config, "")
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "editor", Version: "2"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	require.NoError(t, err)
	echo(t, session, "over the socket")
	var shown api.Clients
	get := func(path string) []byte {
		response, err := http.Get(url + path)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return text
	}
	require.NoError(t, json.Unmarshal(get("api/clients"), &shown))
	require.True(t, shown.Gateway)
	var hosts []string
	for _, s := range shown.Sessions {
		hosts = append(hosts, s.Label()+" "+s.Transport)
		require.EqualValues(t, 1, s.Calls)
	}
	require.ElementsMatch(t, []string{"host 1 http", "editor 2 stdio"}, hosts)
	require.Equal(t, []string{"fixture"}, shown.Offers[0].Servers)
	require.Regexp(t, `mcpvisor_gateway_sessions\{[^}]*\} 2`, string(get("metrics")))
	require.Regexp(t, `mcpvisor_gateway_requests_total\{[^}]*answered[^}]*\} \d+`, string(get("metrics")))
	require.Contains(t, string(get("api/calls")), `"client":"editor 2"`)
	running, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer running.Close()
	same, err := running.Clients(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, same.Total)
	_ = session.Close() // the connection is closed twice
}

// Tokens are asked for, and one is needed beyond this machine.
func TestRun_mcp_tokens(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	tokens, file := makeTokens(t, []string{"ci"})
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"token", "other"}, strings.NewReader(""), &out, &errs))
	require.Regexp(t, `^other [0-9a-f]{64}\n$`, out.String(), "nothing else: the user appends it to the file")
	require.Regexp(t, `Authorization: Bearer \w{40,}`, errs.String())

	b := startRun(t, map[string]any{"fixture": entry(mcptest.Script{})}, "run", "--mcp", "127.0.0.1:0", "--mcp-tokens", file)
	url := mcpURL(b)
	_, err := connect(t, url, "")
	require.Error(t, err)
	_, err = connect(t, url, "wrong")
	require.Error(t, err)
	b.await(" ready: ")
	session, err := connect(t, url, tokens["ci"])
	require.NoError(t, err)
	echo(t, session, "with a token")
	require.NoError(t, session.Close())

	// The file is followed: a token that is added is valid, one that is removed is not, and a damaged file changes nothing.
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	connects := func(token string) bool {
		session, err := connect(t, url, token)
		if err == nil {
			_ = session.Close()
		}
		return err == nil
	}
	other := regexp.MustCompile(`Bearer (\w+)`).FindStringSubmatch(errs.String())[1]
	require.False(t, connects(other))
	require.NoError(t, os.WriteFile(file, append(text, out.Bytes()...), 0o600))
	require.Eventually(t, func() bool { return connects(other) }, time.Minute, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(file, []byte("other 12"), 0o600))
	require.True(t, connects(tokens["ci"]))
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
	require.Eventually(t, func() bool { return !connects(tokens["ci"]) }, time.Minute, 10*time.Millisecond)
	require.True(t, connects(other))
	http.DefaultClient.CloseIdleConnections()

	for _, args := range [][]string{{"--mcp", "0.0.0.0:0"}, {"--mcp-tokens", file}, {"--mcp", "x"}, {"--mcp", "127.0.0.1:0", "--mcp-tokens", b.config}, {"--mcp", "127.0.0.1:0", "--mcp-tokens", os.DevNull}} {
		errs.Reset()
		require.Equal(t, 2, run(t.Context(), append([]string{"--config", b.config + ".other", "run"}, args...), strings.NewReader(""), &out, &errs), "%v", args)
	}
}

// wrapCommand is mcpvisor wrap as a host starts it.
func wrapCommand(t *testing.T, script mcptest.Script) *exec.Cmd {
	t.Helper()
	server := mcptest.Stdio(script)
	cmd := exec.Command(buildProgram(t), append([]string{"wrap", "--", server.Command}, server.Args...)...)
	cmd.Env = os.Environ()
	for name, value := range server.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// wrapped starts mcpvisor wrap as a host does.
func wrapped(t *testing.T, script mcptest.Script) (*mcp.ClientSession, error) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: wrapCommand(t, script)}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// A server that is wrapped keeps the names of its tools, and may be killed.
func TestWrap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	session, err := wrapped(t, mcptest.Script{StateDir: dir})
	require.NoError(t, err)
	before, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.NotEmpty(t, before.Tools)
	call := func(text string) {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
		require.NoError(t, err)
		require.False(t, result.IsError, "%v", result.Content)
		require.Equal(t, text, result.Content[0].(*mcp.TextContent).Text)
	}
	call("before")
	pids := mcptest.PIDs(dir)
	require.Len(t, pids, 1)
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
	awaitEnd(t, pids[0])
	call("after")
	after, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, before.Tools, after.Tools)
	pids = mcptest.PIDs(dir)
	require.NoError(t, session.Close())
	awaitEnd(t, pids[len(pids)-1])
}

// When the host closes the stream, wrap ends, and so does a server that ignores that and SIGTERM.
func TestWrap_server_ignores_the_end(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := wrapCommand(t, mcptest.Script{StateDir: dir, Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}}})
	const never = 10 * time.Minute // no signal helps
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: never}, nil)
	require.NoError(t, err)
	pids := mcptest.PIDs(dir)
	require.Len(t, pids, 1)
	require.NoError(t, session.Close())
	awaitEnd(t, pids[0])
}

// When the host closes its end while the server starts, wrap does not wait for the server, even if
// what the host wrote was not read.
func TestWrap_host_leaves_during_the_first_start(t *testing.T) {
	t.Parallel()
	in, host, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	_, err = io.WriteString(host, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`+"\n")
	require.NoError(t, err)
	require.NoError(t, host.Close())
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: t.Context(), In: in, Out: io.Discard, Err: io.Discard, Words: []string{"sleep", "3600"}}}}
	require.NoError(t, (&wrapCmd{ready: time.Hour}).Run(inv))
}

// A command that cannot be started is an error of wrap.
func TestWrap_errors(t *testing.T) {
	for _, args := range [][]string{{"wrap"}, {"wrap", "--header", "a: b", "--", "x"}, {"wrap", "--header", "none", "http://localhost:1"}} {
		require.Equal(t, 2, run(t.Context(), args, strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)), "%v", args)
	}
	var errs bytes.Buffer
	require.Equal(t, 3, run(context.Background(), []string{"wrap", "--", "no-such-command-here"}, strings.NewReader(""), new(bytes.Buffer), &errs))
	require.Contains(t, errs.String(), "no-such-command-here")
}

// configOf is a configuration with servers and "gateway".
func configOf(t *testing.T, servers map[string]any, gateway string) string {
	t.Helper()
	return jsonText(t, map[string]any{"mcpServers": servers, "gateway": json.RawMessage(gateway)})
}

// toolNames lists the tools of a session.
func toolNames(t *testing.T, session *mcp.ClientSession) (names []string) {
	t.Helper()
	for tool, err := range session.Tools(t.Context(), nil) {
		require.NoError(t, err)
		names = append(names, tool.Name)
	}
	return names
}

// A run serves the profiles of its configuration, by path and by token, and takes over a change of
// them without an end of sessions. What cannot be used leaves them as they are.
func TestRun_profiles(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	servers := map[string]any{"a": entry(mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "read", Text: strings.Repeat("x", 5000)}, {Name: "write", Text: "y"}}}),
		"b": entry(mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "read", Text: "z"}}})}
	tokens, file := makeTokens(t, []string{"all"}, []string{"reader", "--profile", "read"})
	b := startRun(t, servers, "run", "--mcp", "127.0.0.1:0", "--mcp-tokens", file)
	url := mcpURL(b)
	b.await(" ready: ")
	b.await(" ready: ")
	b.drain()
	_, err := connect(t, url, tokens["reader"])
	require.Error(t, err, "there is no such profile yet")
	reload := func(gateway string) {
		b.writeText(configOf(t, servers, gateway))
		b.exits(cli.ExitOK, "reload")
	}
	reload(`{"profiles": {"read": {"tools": ["read"]}}, "result_max": 1000}`)
	session, err := connect(t, url, tokens["reader"])
	require.NoError(t, err)
	require.Equal(t, []string{"a__read", "b__read"}, toolNames(t, session))
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__write"})
	require.ErrorContains(t, err, `unknown tool "a__write"`)
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__read"})
	require.NoError(t, err)
	require.Len(t, result.Content, 2)
	require.Len(t, result.Content[0].(*mcp.TextContent).Text, 1000)
	whole, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: result.Content[1].(*mcp.ResourceLink).URI})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", 5000), whole.Contents[0].Text)

	all, err := connect(t, url, tokens["all"])
	require.NoError(t, err)
	require.Equal(t, []string{"a__read", "a__write", "b__read"}, toolNames(t, all))
	byPath, err := connect(t, url+"/read", tokens["all"])
	require.NoError(t, err)
	require.Equal(t, []string{"a__read", "b__read"}, toolNames(t, byPath))
	_, err = connect(t, url+"/none", tokens["all"])
	require.Error(t, err)

	reload(`{"profiles": {"read": {"servers": ["b"]}}}`)
	require.Equal(t, []string{"b__read"}, toolNames(t, session), "the session goes on")
	for _, broken := range []string{`{"profiles": {"read": {"server": ["a"]}}}`, `{"profiles": {"read": {"tools": ["a["]}}}`} {
		b.writeText(configOf(t, servers, broken))
		for _, args := range [][]string{{"reload", "--dry-run"}, {"reload"}} {
			_, errs := b.exits(3, args...)
			require.Contains(t, errs, `"gateway.profiles.read.`, broken)
			require.Contains(t, errs, "what hosts are offered is kept")
		}
		require.Equal(t, []string{"b__read"}, toolNames(t, session), broken)
		code, shown, _ := b.command("status")
		require.Zero(t, code, "the servers run")
		require.NotContains(t, shown, "gateway")
	}

	// Names that collide are withheld, and the status says so.
	reload(`{"names": {"prefix": "never"}}`)
	require.Equal(t, []string{"write"}, toolNames(t, all))
	shown, _ := b.exits(cli.ExitOK, "status")
	require.Equal(t, 2, strings.Count(shown, `the tool "read" is not offered to hosts: the name "read" would stand for a/read`), shown)
	shown, _ = b.exits(cli.ExitOK, "--json", "status")
	require.Equal(t, 2, strings.Count(shown, `"withheld"`))
	http.DefaultClient.CloseIdleConnections()
}

// A configuration whose "gateway" cannot be used does not start: a profile that is read in part would
// offer more than it says.
func TestRun_gateway_that_cannot_be_used(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	a, b := entry(mcptest.Script{}), entry(mcptest.Script{})
	a["tools"], b["tools"] = []string{"echo"}, []string{"echo", "pid"}
	for gateway, says := range map[string]string{
		`{"profiles": {"read": {"tool": ["read"]}}}`: `unknown key "gateway.profiles.read.tool"; did you mean "tools"?`,
		`{"names": {"prefix": "never"}}`:             `the servers "a" and "b" both offer the tool "echo"`,
	} {
		path := filepath.Join(t.TempDir(), "c.json")
		require.NoError(t, os.WriteFile(path, []byte(configOf(t, map[string]any{"a": a, "b": b}, gateway)), 0o600))
		var errs bytes.Buffer
		require.Equal(t, 2, run(t.Context(), []string{"--config", path, "run"}, strings.NewReader(""), new(bytes.Buffer), &errs))
		require.Contains(t, errs.String(), says)
	}
}

// A host of mcpvisor stdio may have a profile, which must exist.
func TestStdio_profile(t *testing.T) {
	t.Parallel()
	servers := map[string]any{"a": entry(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "read", Text: "x"}, {Name: "write", Text: "y"}}})}
	h := newHousehold(t, servers)
	require.NoError(t, os.WriteFile(h.file, []byte(configOf(t, servers, `{"profiles": {"read": {"tools": ["r*"]}}}`)), 0o600))
	all, _, _ := h.host()
	reader, _, _ := h.host("--profile", "read")
	require.Equal(t, []string{"a__read", "a__write"}, toolNames(t, all))
	require.Equal(t, []string{"a__read"}, toolNames(t, reader))
	_, err := reader.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__write"})
	require.ErrorContains(t, err, "unknown tool")

	_, err = mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: h.stdio("--profile", "raed")}, nil)
	require.ErrorContains(t, err, `the configuration has no profile "raed"`)
}

// pidOf asks the tool "pid" of a server for its process.
func pidOf(t *testing.T, session *mcp.ClientSession, server string) int {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: server + "__pid"})
	require.NoError(t, err)
	require.False(t, result.IsError, "%v", result.Content)
	var who struct{ PID int }
	require.NoError(t, json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &who))
	return who.PID
}

// With "share": "client" each client of a run has a process of its own. Two clients never meet in one process because
// something else in the configuration is broken. With the run all processes end.
func TestRun_share(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	dir := t.TempDir()
	entryOf := func(share any) map[string]any {
		e := entry(mcptest.Script{StateDir: dir})
		if share != nil {
			e["share"] = share
		}
		return e
	}
	tokens, file := makeTokens(t, []string{"ann"}, []string{"bob"})
	b := startRun(t, map[string]any{"a": entryOf("client"), "b": entry(mcptest.Script{})}, "run", "--mcp", "127.0.0.1:0", "--mcp-tokens", file)
	url := mcpURL(b)
	b.await(" ready: ")
	b.await(" ready: ")
	b.drain()
	sessions := map[string]*mcp.ClientSession{}
	for name, token := range tokens {
		session, err := connect(t, url, token)
		require.NoError(t, err)
		sessions[name] = session
	}
	requireApart := func(why string) {
		t.Helper()
		require.NotEqual(t, pidOf(t, sessions["ann"], "a"), pidOf(t, sessions["bob"], "a"), why)
	}
	requireApart("at the start")
	require.Equal(t, pidOf(t, sessions["ann"], "b"), pidOf(t, sessions["bob"], "b"))

	reload := func(want int, a map[string]any, gateway string) {
		t.Helper()
		b.writeText(configOf(t, map[string]any{"a": a, "b": entry(mcptest.Script{})}, gateway))
		b.exits(want, "reload")
	}
	reload(3, entryOf("cleint"), `{}`)
	requireApart("its entry is broken")
	reload(0, entryOf(nil), `{}`)
	require.Equal(t, pidOf(t, sessions["ann"], "a"), pidOf(t, sessions["bob"], "a"), "it is shared now")
	reload(3, entryOf("client"), `{"nonsense": 1}`)
	requireApart(`"gateway" is broken`)
	reload(0, entryOf("client"), `{"max_copies": 1}`)
	first := pidOf(t, sessions["ann"], "a")
	require.Contains(t, mcptest.PIDs(dir), first)
	b.stop()
	for _, pid := range mcptest.PIDs(dir) {
		require.False(t, mcptest.Alive(pid))
	}
	http.DefaultClient.CloseIdleConnections()
}

// requireDead waits until all processes that were started have ended, but for some.
func requireDead(t *testing.T, dir string, but ...int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(mcptest.PIDs(dir), func(pid int) bool { return !slices.Contains(but, pid) && mcptest.Alive(pid) })
	}, 30*time.Second, 5*time.Millisecond)
}

// Two hosts on mcpvisor stdio have two processes. That of a host ends with the host, and a run that is killed does not
// end the session: the next call has a new process.
func TestStdio_share(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := entry(mcptest.Script{StateDir: dir})
	e["share"] = "client"
	h := newHousehold(t, map[string]any{"a": e})
	ann, _, _ := h.host()
	bob, _, _ := h.host()
	first, second := pidOf(t, ann, "a"), pidOf(t, bob, "a")
	require.NotEqual(t, first, second)
	require.Equal(t, first, pidOf(t, ann, "a"))
	require.Equal(t, 3, mcptest.Starts(dir), "one has the lists")
	require.NoError(t, bob.Close())
	require.Eventually(t, func() bool { return !mcptest.Alive(second) }, 30*time.Second, 5*time.Millisecond)
	require.True(t, mcptest.Alive(first))

	kill(t, h.run())
	again := pidOf(t, ann, "a")
	require.NotEqual(t, first, again)
	require.Equal(t, again, pidOf(t, ann, "a"))
	require.NoError(t, ann.Close())
	requireDead(t, dir) // the run ends a little later than its last host
}
