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
			b.await(" ready  ")
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
	b.await(" ready  ")
	session, err := connect(t, url, tokens["ci"])
	require.NoError(t, err)
	echo(t, session, "with a token")
	require.NoError(t, session.Close())
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
