package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// copied is a server in a process that is restarted at once. dir counts its starts.
func copied(dir string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "a", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir}), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
}

// user is a client of a gateway, of any version and over any transport: it returns the result of a request, or
// the error.
type user func(method, params string) (result, failure string)

func (r raw) user(modern bool) user {
	return func(method, params string) (result, failure string) {
		r.t.Helper()
		if modern {
			params = withModernMeta(params)
		}
		answer := r.call(method, params)
		if answer.Error != nil {
			return "", answer.Error.Error()
		}
		return string(answer.Result), ""
	}
}

func withModernMeta(params string) string {
	return strings.Replace(strings.TrimSuffix(params, "}")+","+modernMeta+"}", "{,", "{", 1)
}

func (p *peer) user(modern bool) user {
	return func(method, params string) (result, failure string) {
		p.t.Helper()
		var header []string
		if modern {
			var named struct{ Name, URI string }
			require.NoError(p.t, json.Unmarshal([]byte(params), &named))
			params = withModernMeta(params)
			header = []string{versionHeader, "2026-07-28", methodHeader, method, nameHeader, named.Name + named.URI}
		}
		_, text := p.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, header...)
		if data, ok := strings.CutPrefix(text, "event: message\n"); ok {
			_, text, _ = strings.Cut(data, "data: ")
		}
		if failure = memberOf(p.t, []byte(text), "error"); failure != "" {
			return "", failure
		}
		return memberOf(p.t, []byte(text), "result"), ""
	}
}

// pidOf asks the tool "pid" of a server for its process.
func pidOf(t *testing.T, u user, tool string) int {
	t.Helper()
	result, failure := u("tools/call", `{"name":"`+tool+`"}`)
	require.Empty(t, failure)
	_, rest, found := strings.Cut(result, `\"pid\":`)
	require.True(t, found, result)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	pid, err := strconv.Atoi(rest[:end])
	require.NoError(t, err)
	return pid
}

// openUser opens a session before 2026-07-28 over HTTP.
func openUser(t *testing.T, url, token string) *peer {
	t.Helper()
	p := newPeer(t, url)
	if token != "" {
		p.header.Set("Authorization", "Bearer "+token)
	}
	p.initialize("2025-11-25")
	return p
}

// withNames are tokens of principals whose names they are.
func withNames(names ...string) Option {
	var tokens []Token
	for _, name := range names {
		tokens = append(tokens, Token{Principal: name, SHA256: HashToken(name)})
	}
	return WithTokens(tokens...)
}

func hostPID(t *testing.T, c *facade.Client, server string) int {
	t.Helper()
	status, ok := c.ServerStatus(server)
	require.True(t, ok)
	require.NotNil(t, status.Session)
	return status.Session.PID
}

// requireEnded waits until all processes that were started have ended, but for some.
func requireEnded(t *testing.T, dir string, but ...int) {
	t.Helper()
	until(t, func() bool {
		for _, pid := range mcptest.PIDs(dir) {
			kept := false
			for _, other := range but {
				kept = kept || pid == other
			}
			if !kept && mcptest.Alive(pid) {
				return false
			}
		}
		return true
	})
}

// Each client has a process of its own, of each version and over each transport; a server that is shared has
// one. The lists are the same bytes for all. With the clients the processes end.
func TestShare(t *testing.T) {
	dir := t.TempDir()
	shared := copied("")
	shared.Name = "b"
	c := newClient(t, copied(dir), shared)
	host := hostPID(t, c, "a")
	transport := Transport(c, WithNames(Names{}), withShare(ShareClient, "a"))
	_, url := serveHTTP(t, c, withShare(ShareClient, "a"))
	closed, closedURL := serveHTTP(t, c, withShare(ShareClient, "a"), withNames("alice", "bob"))

	sessions := []raw{openRaw(t, transport), openRaw(t, transport)}
	sessions[0].call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	peers := []*peer{openUser(t, url, ""), openUser(t, url, ""), openUser(t, closedURL, "alice")}
	alice, bob := newPeer(t, closedURL), newPeer(t, closedURL)
	alice.header.Set("Authorization", "Bearer alice")
	bob.header.Set("Authorization", "Bearer bob")
	users := map[string]user{"Transport, 2025-11-25": sessions[0].user(false), "Transport, 2026-07-28": sessions[1].user(true),
		"HTTP, first": peers[0].user(false), "HTTP, second": peers[1].user(false), "HTTP, with a token": peers[2].user(false),
		"alice, 2026-07-28": alice.user(true), "bob, 2026-07-28": bob.user(true)}
	before, _ := users["HTTP, first"]("tools/list", `{}`)
	pids, all := map[int]string{host: "the one of the lists"}, map[int]bool{}
	for name, u := range users {
		pid := pidOf(t, u, "a__pid")
		require.Empty(t, pids[pid], "%s has the process of %s", name, pids[pid])
		pids[pid] = name
		require.Equal(t, pid, pidOf(t, u, "a__pid"), "%s keeps its process", name)
		all[pidOf(t, u, "b__pid")] = true
		list, _ := u("tools/list", `{}`)
		require.Equal(t, before, strings.Replace(list, `"resultType":"complete",`, "", 1), name)
	}
	require.Len(t, all, 1, "a server that is shared")
	require.Equal(t, len(users)+1, mcptest.Starts(dir))

	for _, s := range sessions {
		require.NoError(t, s.conn.Close())
	}
	for _, p := range peers {
		p.do(t.Context(), http.MethodDelete, "")
	}
	closed.Close()
	requireEnded(t, dir, host)
	require.Equal(t, host, hostPID(t, c, "a"), "the one of the lists stays")
}

// A read, a prompt, a completion and a subscription start a copy, too. Only its client hears of an update.
func TestShare_of_every_request(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s, url := serveHTTP(t, c, withShare(ShareClient))
	template := c.ResourceTemplates()[0].URITemplate
	_, argument, _ := strings.Cut(template, "{")
	for method, params := range map[string]string{
		"resources/read":      `{"uri":"mcptest://text"}`,
		"prompts/get":         `{"name":"a__` + c.Prompts()[0].OriginalName + `","arguments":{"text":"x","topic":"x","name":"x"}}`,
		"completion/complete": `{"ref":{"type":"ref/resource","uri":"` + template + `"},"argument":{"name":"` + strings.Trim(argument, "{}") + `","value":""}}`,
		"resources/subscribe": `{"uri":"mcptest://text"}`,
	} {
		p := openUser(t, url, "")
		_, failure := p.user(false)(method, params)
		if method == "completion/complete" { // the server has none, and says so
			require.Contains(t, failure, "is not known")
			failure = ""
		}
		require.Empty(t, failure, method)
		require.Len(t, p.copies(s), 1, method)
		p.do(t.Context(), http.MethodDelete, "")
	}
	status, _ := c.ServerStatus("a")
	require.EqualValues(t, 3, status.Calls.Total, "the requests to copies count")
}

// copies are those of the session.
func (p *peer) copies(s *Server) []string {
	p.t.Helper()
	said, err := sessionid.Open(s.gateway.opts.key, p.session, "", time.Now())
	require.NoError(p.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs := s.sessions[said.Nonce]; hs != nil && hs.session.tenancy.own.Load() != nil {
		return hs.session.tenancy.own.Load().names()
	}
	return nil
}

// A name that does not say the server, because it was changed to fit, leads to the copy, too.
func TestShare_changed_name(t *testing.T) {
	long := strings.Repeat("long_", 15)
	c := newClient(t, fixture("a", mcptest.Script{Tools: []mcptest.ToolDef{{Name: long, Text: "x"}}}))
	alias := mcpvisor.Alias("a", long)
	_, _, plain := mcpvisor.SplitAlias(alias)
	require.False(t, plain)
	s, url := serveHTTP(t, c, withShare(ShareClient, "a"))
	p := openUser(t, url, "")
	result, failure := p.user(false)("tools/call", `{"name":"`+alias+`"}`)
	require.Empty(t, failure)
	require.Contains(t, result, `"text":"x"`)
	require.Len(t, p.copies(s), 1)
	_, failure = p.user(false)("tools/call", `{"name":"`+mcpvisor.Alias("b", long)+`"}`)
	require.Contains(t, failure, "unknown tool")
	p.do(t.Context(), http.MethodDelete, "")
}

// What a copy reports goes to its client only: updates, also after a restart of the copy, and log messages.
func TestShare_reports(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	_, url := serveHTTP(t, c, withShare(ShareClient))
	heard := make(map[*peer]chan string)
	peers := []*peer{openUser(t, url, ""), openUser(t, url, "")}
	for _, p := range peers {
		stream := p.listen()
		heard[p] = make(chan string, 100)
		go func() {
			for {
				_, data, ok := stream.next()
				if !ok {
					return
				}
				if data != "" {
					heard[p] <- data
				}
			}
		}()
		_, failure := p.user(false)("resources/subscribe", `{"uri":"mcptest://text"}`)
		require.Empty(t, failure)
	}
	ann, bob := peers[0], peers[1]
	touch := func(p *peer) {
		_, failure := p.user(false)("tools/call", `{"name":"a__touch","arguments":{"uri":"mcptest://text"}}`)
		require.Empty(t, failure)
	}
	touch(ann)
	require.Contains(t, receive(t, heard[ann]), "resources/updated")
	_, _ = ann.user(false)("tools/call", `{"name":"a__crash"}`)
	require.Contains(t, receive(t, heard[ann]), "resources/updated", "after a restart")
	touch(ann)
	require.Contains(t, receive(t, heard[ann]), "resources/updated", "the subscription is made again")
	require.Empty(t, heard[bob])
	touch(bob)
	require.Contains(t, receive(t, heard[bob]), "resources/updated")
	require.NoError(t, c.Restart(t.Context(), "a")) // the one of the lists, which has no subscriptions
	require.NoError(t, c.WaitReady(t.Context(), "a"))
	_, err := c.CallTool(t.Context(), "a/add_tool", map[string]any{"name": "fresh"})
	require.NoError(t, err)
	require.Contains(t, receive(t, heard[ann]), "tools/list_changed")
	require.Contains(t, receive(t, heard[bob]), "tools/list_changed")
	require.Empty(t, heard[ann])
	for _, p := range peers {
		p.do(t.Context(), http.MethodDelete, "")
	}
}

// A request of 2026-07-28 over HTTP without a token says not whose it is: it is refused, and nothing is started.
func TestShare_unknown_client(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	_, url := serveHTTP(t, c, withShare(ShareClient))
	u := newPeer(t, url).user(true)
	for method, params := range map[string]string{"tools/call": `{"name":"a__pid"}`, "resources/read": `{"uri":"mcptest://text"}`} {
		_, failure := u(method, params)
		require.Contains(t, failure, "server a runs once for each client, and nothing says whose this request is", method)
		require.Contains(t, failure, "Send a bearer token, connect over stdio, or use version 2025-11-25. Nothing was done.")
	}
	for _, tool := range []string{"a/pid", "mcp__a__pid"} {
		_, failure := u("tools/call", `{"name":"`+tool+`"}`)
		require.Contains(t, failure, "nothing says whose this request is", tool)
	}
	require.Equal(t, 1, mcptest.Starts(dir))
	list, failure := u("tools/list", `{}`)
	require.Empty(t, failure)
	require.Contains(t, list, "a__pid")
}

// Copies end with the idle time of a session and of a principal, and with the connection over stdio. A session
// that comes back, also to another process of the gateway, gets a new copy.
func TestShare_ends(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	host := hostPID(t, c, "a")
	key := WithSessionKey(bytes.Repeat([]byte{7}, 32))
	brief := WithHTTPLimits(HTTPLimits{SessionIdle: time.Millisecond})
	_, url := serveHTTP(t, c, withShare(ShareClient), key, brief, withNames("alice"))
	p := openUser(t, url, "alice")
	first := pidOf(t, p.user(false), "a__pid")
	requireEnded(t, dir, host)
	require.NotEqual(t, first, pidOf(t, p.user(false), "a__pid"))
	requireEnded(t, dir, host)
	modern := newPeer(t, url)
	modern.header.Set("Authorization", "Bearer alice")
	pidOf(t, modern.user(true), "a__pid")
	requireEnded(t, dir, host)

	other := newClient(t, copied(dir))
	_, p.url = serveHTTP(t, other, withShare(ShareClient), key, withNames("alice"))
	second := pidOf(t, p.user(false), "a__pid")
	require.Equal(t, second, pidOf(t, p.user(false), "a__pid"), "it is not idle for long")
	status := p.do(t.Context(), http.MethodDelete, "")
	require.Equal(t, http.StatusNoContent, status.StatusCode)
	requireEnded(t, dir, host, hostPID(t, other, "a"))

	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Serve(t.Context(), Transport(c, withShare(ShareClient)), &mcp.IOTransport{Reader: near, Writer: near})
	}()
	s := connect(t, &mcp.IOTransport{Reader: far, Writer: far}, "2025-11-25", nil)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a/pid"})
	require.Contains(t, text(t, r, err), `"pid"`)
	require.NoError(t, far.Close())
	require.NoError(t, receive(t, served))
	requireEnded(t, dir, host, hostPID(t, other, "a"))
}

// Close of the client ends the copies, and waits for it.
func TestShare_end_of_the_client(t *testing.T) {
	dir := t.TempDir()
	c, err := facade.New()
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), copied(dir)))
	s := openRaw(t, Transport(c, withShare(ShareClient), WithNames(Names{})))
	pidOf(t, s.user(true), "a__pid")
	require.Equal(t, 2, mcptest.Starts(dir))
	require.NoError(t, c.Close(t.Context()))
	for _, pid := range mcptest.PIDs(dir) {
		require.False(t, mcptest.Alive(pid))
	}
}

// A principal, and all of them, have so many copies and no more. Who is over the bound is refused at once; a copy
// that has ended makes room.
func TestShare_bounds(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}), fixture("b", mcptest.Script{}))
	settings := newSettings(t, Settings{ShareOf: map[string]Share{"a": ShareClient, "b": ShareClient}, MaxCopies: 3, MaxCopiesOfPrincipal: 2})
	_, url := serveHTTP(t, c, WithSettings(settings), withNames("alice", "bob"))
	alice, again, bob := openUser(t, url, "alice"), openUser(t, url, "alice"), openUser(t, url, "bob")
	call := func(p *peer, server string) string {
		_, failure := p.user(false)("tools/call", `{"name":"`+server+`__pid"}`)
		return failure
	}
	require.Empty(t, call(alice, "a"))
	require.Empty(t, call(alice, "b"))
	failure := call(again, "a")
	require.Contains(t, failure, `server a runs once for each client, and \"alice\" has 2 copies of servers, which is the most`)
	require.Contains(t, failure, "-32029")
	require.Empty(t, call(bob, "a"))
	require.Contains(t, call(bob, "b"), "all clients have 3 copies of servers, which is the most")
	_, failure = bob.user(false)("resources/read", `{"uri":"mcpvisor://b/mcptest://text"}`)
	require.Contains(t, failure, "which is the most")
	require.Empty(t, call(bob, "a"), "what it has stays")
	alice.do(t.Context(), http.MethodDelete, "")
	until(t, func() bool { return call(again, "a") == "" })
	for _, p := range []*peer{again, bob} {
		p.do(t.Context(), http.MethodDelete, "")
	}
	until(t, func() bool {
		settings.copies.mu.Lock()
		defer settings.copies.mu.Unlock()
		return settings.copies.all == 0 && len(settings.copies.of) == 0
	})
}

// A server that is replaced, removed or shared again ends its copies. Subscriptions outlive the replacement.
func TestShare_reload(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	var settings SettingsVar
	share := func(s Share) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": s}}))
	}
	share(ShareClient)
	transport := Transport(c, WithNames(Names{}), WithSettings(&settings))
	s, idle := openRaw(t, transport), openRaw(t, transport)
	s.initializeWith(`{}`)
	require.NoError(t, s.call("resources/subscribe", `{"uri":"mcptest://text"}`).Error)
	first := pidOf(t, s.user(false), "a__pid")
	pidOf(t, idle.user(true), "a__pid")
	require.Equal(t, 3, mcptest.Starts(dir))

	next := copied(dir)
	next.Stdio.Env = maps.Clone(next.Stdio.Env)
	next.Stdio.Env["NEXT"] = "1"
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{next}))
	updated, ok := s.read().(*jsonrpc.Request)
	require.True(t, ok)
	require.Equal(t, "notifications/resources/updated", updated.Method, "a copy that is needed starts by itself")
	require.NotEqual(t, first, pidOf(t, s.user(false), "a__pid"))
	result, _ := s.user(false)("tools/call", `{"name":"a__env","arguments":{"name":"NEXT"}}`)
	require.Contains(t, result, `"text":"1"`, "it has the new spec")
	until(t, func() bool { return mcptest.Starts(dir) == 5 }) // the lists, and s
	pidOf(t, idle.user(true), "a__pid")
	require.Equal(t, 6, mcptest.Starts(dir))

	share(ShareAll)
	host := hostPID(t, c, "a")
	requireEnded(t, dir, host)
	require.Equal(t, host, pidOf(t, idle.user(true), "a__pid"))
	share(ShareClient)
	require.NotEqual(t, host, pidOf(t, idle.user(true), "a__pid"))
	awaitUpdate := func() {
		for {
			if m, ok := s.read().(*jsonrpc.Request); ok && m.Method == "notifications/resources/updated" {
				return
			}
		}
	}
	awaitUpdate()
	require.NoError(t, c.Unregister(t.Context(), "a"))
	require.NoError(t, c.Register(t.Context(), next))
	awaitUpdate()
	require.NoError(t, c.Apply(t.Context(), nil))
	requireEnded(t, dir)
	_, failure := idle.user(true)("tools/call", `{"name":"a__pid"}`)
	require.Contains(t, failure, "a__pid")
}

// A server that was fenced, as when a lease is lost, has no copies either.
func TestShare_fence(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	s := openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient)))
	pidOf(t, s.user(true), "a__pid")
	require.NoError(t, c.Fence(t.Context(), "a", "the lease is over"))
	requireEnded(t, dir)
	result, failure := s.user(true)("tools/call", `{"name":"a/pid"}`)
	require.Empty(t, failure)
	require.Contains(t, result, `"isError":true`)
	require.Equal(t, 2, mcptest.Starts(dir))
}

// A copy that its policy has given up stays so for its client, and for no other client, until the server is started again.
func TestShare_given_up(t *testing.T) {
	spec := fixture("a", mcptest.Script{})
	spec.Policy = supervisor.NoRetry()
	c := newClient(t, spec)
	transport := Transport(c, WithNames(Names{}), withShare(ShareClient))
	ann, bob := openRaw(t, transport).user(true), openRaw(t, transport).user(true)
	pid := func(u user) string {
		result, failure := u("tools/call", `{"name":"a__pid"}`)
		require.Empty(t, failure)
		return result
	}
	first := pid(bob)
	_, failure := ann("tools/call", `{"name":"a__crash"}`)
	require.Empty(t, failure)
	require.Contains(t, pid(ann), `"isError":true`)
	require.Contains(t, pid(ann), `given up`)
	require.Equal(t, first, pid(bob))
	require.NoError(t, c.Restart(t.Context(), "a"))
	require.NoError(t, c.WaitReady(t.Context(), "a"))
	require.NotContains(t, pid(ann), `"isError":true`)
	require.Equal(t, first, pid(bob), "a copy that runs is left alone")
	_, failure = bob("resources/read", `{"uri":"mcpvisor://nothing/x"}`)
	require.Contains(t, failure, "nothing")
}

// Two copies give the same id to two tasks: each session has its own, and not that of the other one.
func TestShare_tasks(t *testing.T) {
	c := newClient(t, taskServer())
	transport := Transport(c, WithNames(Names{}), withShare(ShareClient))
	var ids []string
	var users []user
	for range 2 {
		s := openRaw(t, transport)
		require.NoError(t, s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"clientInfo":{"name":"x","version":"1"}}`).Error)
		users = append(users, s.user(false))
		result, failure := users[len(users)-1]("tools/call", `{"name":"a__x","task":{}}`)
		require.Empty(t, failure)
		ids = append(ids, memberOf(t, []byte(result), "task", "taskId"))
	}
	_, failure := users[1]("tasks/result", `{"taskId":`+ids[0]+`}`)
	require.Contains(t, failure, "the server does not know the task")
	for i, u := range users {
		list, failure := u("tasks/list", `{}`)
		require.Empty(t, failure)
		require.Contains(t, list, ids[i])
		require.NotContains(t, list, ids[1-i])
		result, failure := u("tasks/result", `{"taskId":`+ids[i]+`}`)
		require.Empty(t, failure)
		require.Contains(t, result, fmt.Sprintf("of incarnation %d", i+2))
	}
}

// The row of a client shows its copies.
func TestShare_is_shown(t *testing.T) {
	c := newClient(t, fixture("b", mcptest.Script{}), fixture("a", mcptest.Script{}))
	server, url := serveHTTP(t, c, withShare(ShareClient))
	p, q := openUser(t, url, ""), openUser(t, url, "")
	pidOf(t, p.user(false), "b__pid")
	pidOf(t, p.user(false), "a__pid")
	rows := map[int]int{}
	for _, s := range server.Status().Clients.Sessions {
		rows[len(s.Copies)]++
		if len(s.Copies) > 0 {
			require.Equal(t, []string{"a", "b"}, s.Copies)
		}
	}
	require.Equal(t, map[int]int{0: 1, 2: 1}, rows)
	for _, p := range []*peer{p, q} {
		p.do(t.Context(), http.MethodDelete, "")
	}
	for _, s := range server.Status().Clients.Sessions {
		until(t, func() bool { return len(server.Status().Clients.Sessions[0].Copies) == 0 })
		require.NotNil(t, s.Ended)
	}
}

// 20 clients with the same ids and tokens, each with a copy that is killed now and then: each gets the answers of
// its own copy, and its own progress.
func TestShare_storm(t *testing.T) {
	const clients = 20
	calls := sized(200, 30)
	c := newAskingClient(t, nil, fixture("a", mcptest.Script{}))
	transport := Transport(c, WithNames(Names{}), withShare(ShareClient))
	_, url := serveHTTP(t, c, withShare(ShareClient))
	var all sync.WaitGroup
	var mu sync.Mutex
	owners := map[string]int{} // of incarnations
	for n := range clients {
		opts := answersAs(fmt.Sprintf("client %d.", n))
		opts.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken != fmt.Sprintf("t%d", n) {
				t.Errorf("client %d has progress of %v", n, r.Params.ProgressToken)
			}
		}
		var s *mcp.ClientSession
		switch n % 3 {
		case 0:
			s = connect(t, transport, "2025-11-25", opts)
		case 1:
			s = connect(t, transport, "2026-07-28", opts)
		case 2:
			s = overHTTP(t, url, "2025-06-18", opts)
		}
		all.Go(func() {
			for i := range calls {
				kind := i % 10
				if kind == 9 && i > 20 { // the pauses between restarts grow
					kind = 0
				}
				switch kind {
				case 3:
					r, err := consult(t.Context(), s, "a__consult", "elicitation/create", wantsText)
					if err != nil || !strings.Contains(textOf(r), fmt.Sprintf(`"client %d."`, n)) {
						t.Errorf("client %d, call %d: %v %v", n, i, err, r)
						return
					}
				case 6:
					params := &mcp.CallToolParams{Name: "a__slow_progress", Arguments: map[string]any{"steps": 2, "ms": 1}}
					params.SetProgressToken(fmt.Sprintf("t%d", n))
					if r, err := s.CallTool(t.Context(), params); err != nil || r.IsError {
						t.Errorf("client %d, call %d: %v %v", n, i, err, r)
						return
					}
				case 9:
					if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__crash"}); err != nil || !r.IsError {
						t.Errorf("client %d, call %d: %v %v", n, i, err, r)
						return
					}
				default:
					r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__pid"})
					if err != nil || r.IsError {
						t.Errorf("client %d, call %d: %v %v", n, i, err, r)
						return
					}
					var who struct{ Instance string }
					_ = json.Unmarshal([]byte(textOf(r)), &who)
					mu.Lock()
					owner, known := owners[who.Instance]
					owners[who.Instance] = n
					mu.Unlock()
					if who.Instance == "" || known && owner != n {
						t.Errorf("client %d has the incarnation of client %d", n, owner)
						return
					}
				}
			}
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, len(owners), clients)
}

// Recent calls have those of copies, and name the client.
func TestShare_recent_calls(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	_, url := serveHTTP(t, c, withShare(ShareClient))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	incarnationOf(t, p.user(false))
	recent, missed := c.History().Calls(0)
	require.Zero(t, missed)
	require.NotEmpty(t, recent)
	last := recent[len(recent)-1] // before it the copy was starting
	require.Equal(t, []string{"a", "tools/call", "x", ""}, []string{last.Server, last.Method, last.Target, string(last.Kind)})
	require.Contains(t, last.Client, "peer")
	p.do(t.Context(), http.MethodDelete, "")
	incarnationOf(t, openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient))).user(false))
	recent, _ = c.History().Calls(last.Seq)
	require.NotEmpty(t, recent, "also of a copy that began later")
}
