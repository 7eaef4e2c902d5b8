package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// lingering is a server with the resource x:y. Those of its incarnations do not end before they may. The
// tool x answers with the number of its incarnation, from 1; the first copy is 2.
func lingering(may <-chan struct{}, those ...int32) mcpvisor.ServerSpec {
	var started atomic.Int32
	return mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		n := started.Add(1)
		if slices.Contains(those, n) {
			defer func() { <-may }()
		}
		return serveRaw(nil, map[string]string{
			"initialize":               legacyHandshake(`{"tools":{},"resources":{"subscribe":true}}`),
			"resources/list":           `"result":{"resources":[{"name":"x","uri":"x:y"}]}`,
			"resources/templates/list": `"result":{"resourceTemplates":[]}`,
			"tools/call":               rawtest.Text(strconv.Itoa(int(n))),
		}).Serve(ctx, in, out, log)
	}}}
}

// blocked is a server whose calls of x are told to called, and wait until opened is closed.
func blocked(called chan<- struct{}, opened <-chan struct{}) mcpvisor.ServerSpec {
	return legacyRaw(func(m *rawtest.Message) string {
		if m.Method != "tools/call" {
			return ""
		}
		called <- struct{}{}
		<-opened
		return rawtest.Text("done")
	}, nil)
}

// At the bound of copies the copy that replaces another one starts when that has ended: a call waits for it, and a
// subscription has it without a call.
func TestShare_replaced_at_the_bound(t *testing.T) {
	for _, calls := range []bool{false, true} {
		may := make(chan struct{})
		spec := lingering(may, 2)
		c := newClient(t, spec)
		settings := newSettings(t, Settings{ShareOf: map[string]Share{"a": ShareClient}, MaxCopies: 1})
		s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(settings)))
		s.initializeWith(`{}`)
		if calls {
			require.Equal(t, 2, incarnationOf(t, s.user(false)))
		} else {
			require.NoError(t, s.call("resources/subscribe", `{"uri":"x:y"}`).Error)
		}
		own := s.conn.(*connection).session.tenancy.own.Load()
		until(t, func() bool { // the copy runs, as incarnation 2: a subscription is acknowledged before that
			copied := own.copies()["a"]
			if copied == nil {
				return false
			}
			status, _ := copied.ServerStatus("a")
			return status.State == supervisor.StateReady
		})
		require.NoError(t, c.Unregister(t.Context(), "a"))
		require.NoError(t, c.Register(t.Context(), spec))
		until(t, func() bool { return len(own.names()) == 0 })
		_, err := own.client("a")
		require.ErrorContains(t, err, "which is the most")
		if calls {
			s.send(77, "tools/call", `{"name":"a__x"}`)
		}
		close(may)
		for calls {
			if answer, ok := s.read().(*jsonrpc.Response); ok {
				require.NoError(t, answer.Error)
				require.Contains(t, string(answer.Result), `"text":"4"`)
				break
			}
		}
		until(t, func() bool { return len(own.names()) == 1 })
	}
}

// A copy ends when an operator stops its server, and another one follows when the server runs: also if the stop, or a
// fence, reached the copy after the server was started or registered again.
func TestShare_stopped(t *testing.T) {
	may := make(chan struct{})
	close(may)
	c := newClient(t, lingering(may))
	s := openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient)))
	s.initializeWith(`{}`)
	require.NoError(t, s.call("resources/subscribe", `{"uri":"x:y"}`).Error)
	own := s.conn.(*connection).session.tenancy.own.Load()
	ready := func(before *facade.Client) (copied *facade.Client) {
		until(t, func() bool {
			copied = own.copies()["a"]
			if copied == nil || copied == before {
				return false
			}
			status, _ := copied.ServerStatus("a")
			return status.State == supervisor.StateReady
		})
		return copied
	}
	first := ready(nil)
	require.NoError(t, c.Stop(t.Context(), "a"))
	status, _ := first.ServerStatus("a") // zero if it has been removed already
	require.Nil(t, status.Session)
	require.NoError(t, c.Start(t.Context(), "a"))
	second := ready(first)
	require.NoError(t, second.Stop(t.Context(), "a")) // as a late stop of the server does
	third := ready(second)
	require.NoError(t, third.Fence(t.Context(), "a", "the lease is over")) // as a late fence of the server does
	ready(third)
}

// A copy that ends because its server was replaced lets its calls in flight end.
func TestShare_replaced_under_a_call(t *testing.T) {
	opened, called := make(chan struct{}), make(chan struct{}, 1)
	spec := blocked(called, opened)
	c := newClient(t, spec)
	s := openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient)))
	s.initializeWith(`{}`)
	s.send(77, "tools/call", `{"name":"a__x"}`)
	receive(t, called)
	own := s.conn.(*connection).session.tenancy.own.Load()
	spec.Timeouts.Call++
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	until(t, func() bool { return len(own.names()) == 0 })
	close(opened)
	answer := s.answer()
	require.NoError(t, answer.Error)
	require.Contains(t, string(answer.Result), `"text":"done"`)
}

// A request that finds the server, or at the bound its copy, while it is being replaced waits longer than MaxWait: calls
// in flight may end first.
func TestMaxWait_longer_while_calls_end(t *testing.T) {
	for _, share := range []Share{ShareAll, ShareClient} {
		t.Run(fmt.Sprint(share == ShareClient), func(t *testing.T) {
			opened, called := make(chan struct{}), make(chan struct{}, 2)
			spec := blocked(called, opened)
			c := newClient(t, spec)
			settings := newSettings(t, Settings{ShareOf: map[string]Share{"a": share}, MaxCopies: 1})
			s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(settings), WithMaxWait(patience)))
			s.initializeWith(`{}`)
			s.send(77, "tools/call", `{"name":"a__x"}`)
			receive(t, called)
			s.conn.(*connection).session.gateway.opts.maxWait = time.Millisecond // enough for no start
			spec.Timeouts.Call = patience + 1                                    // another one than the default
			applied := make(chan error, 1)
			go func() { applied <- c.Apply(context.Background(), []mcpvisor.ServerSpec{spec}) }()
			until(t, func() bool {
				status, _ := c.ServerStatus("a")
				own := s.conn.(*connection).session.tenancy.own.Load()
				return status.State == supervisor.StateStopping || own != nil && len(own.names()) == 0
			})
			s.send(78, "tools/call", `{"name":"a__x"}`)
			time.Sleep(50 * time.Millisecond) // much more than MaxWait: without the longer wait the request has failed
			close(opened)
			require.NoError(t, receive(t, applied))
			for answers := 0; answers < 2; {
				if answer, ok := s.read().(*jsonrpc.Response); ok {
					require.NoError(t, answer.Error)
					require.Contains(t, string(answer.Result), `"text":"done"`)
					answers++
				}
			}
		})
	}
}

// A copy that ends with the client is not asked again and again: who asks learns at once that it is closed.
func TestShare_request_while_the_client_closes(t *testing.T) {
	may := make(chan struct{})
	c, err := facade.New()
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), lingering(may, 1, 2)))
	s := openRaw(t, Transport(c, WithNames(Names{}), withShare(ShareClient)))
	require.Equal(t, 2, incarnationOf(t, s.user(true)))
	conn := s.conn.(*connection)
	kept, err := conn.session.tenancy.clientOf("a")
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() { closed <- c.Close(context.Background()) }()
	until(t, relay.Of(kept).Closed)
	request := func(*facade.Client) error {
		return &mcpvisor.Error{Server: "a", Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeNotSent}
	}
	require.ErrorIs(t, conn.session.tenancy.whenUp(t.Context(), "a", request), mcpvisor.ErrClosed)
	_, err = conn.session.tenancy.clientOf("a")
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
	asked := 0
	find := func() (*facade.Client, error) { asked++; return kept, nil }
	require.ErrorIs(t, conn.session.gateway.whenUp(t.Context(), find, request), mcpvisor.ErrClosed)
	require.LessOrEqual(t, asked, 2)
	close(may)
	require.NoError(t, receive(t, closed))
}

// A server that a profile withholds from now on has no copy any more, so that it asks no question and says nothing.
func TestShare_withheld(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	var settings SettingsVar
	deny := func(servers ...string) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}, Profiles: map[string]Profile{"p": {Servers: Filter{Deny: servers}}}}))
	}
	deny("other")
	s := askingSessionOf(t, Transport(c, WithNames(Names{}), WithSettings(&settings), WithProfile("p")))
	first := incarnationOf(t, s.user(false))
	own := s.conn.(*connection).session.tenancy.own.Load()
	deny("a")
	require.Empty(t, own.names())
	_, err := own.client("a") // of a request that was admitted before
	require.Error(t, err)
	require.Empty(t, own.names())
	deny("other")
	require.NotEqual(t, first, incarnationOf(t, s.user(false)))
}

// A log message of a copy that the profile withholds is not passed on, though the copy has not ended yet.
func TestShare_log_of_a_withheld_server(t *testing.T) {
	c := newClient(t, legacyFixture("a"))
	settings := newSettings(t, Settings{Share: ShareClient, Profiles: map[string]Profile{"p": {Servers: Filter{Deny: []string{"a"}}}}})
	g := Transport(c, WithSettings(settings), WithProfile("p")).(*gateway)
	own, heard := newTenant(g, "x", ""), notices.New[*subscription]()
	heard.SetLogLevel(0)
	own.join(heard, g.view)
	events := make(chan mcpvisor.Event, 1)
	events <- mcpvisor.Event{Kind: mcpvisor.EventLog, Server: "a", Log: &mcpvisor.LogMessage{Level: "error", Text: "x"}}
	close(events)
	own.seatOf("a").follow(events, 1)
	require.Nil(t, heard.Next())
}

// A request that has waited until all clients share the server starts no copy.
func TestShare_no_copy_of_a_shared_server(t *testing.T) {
	c := newClient(t, legacyFixture("a"))
	settings := newSettings(t, Settings{ShareOf: map[string]Share{"a": ShareClient}})
	conn := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(settings))).conn.(*connection)
	own := conn.session.tenancy.ownTenant()
	_, err := own.client("a")
	require.NoError(t, err)
	require.NoError(t, settings.Set(Settings{}))
	_, err = own.client("a")
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
	require.ErrorIs(t, own.seatOf("a").subscribe(t.Context(), resource.Name{Server: "a", URI: "mcptest://text"}, true), mcpvisor.ErrClosed)
	require.Empty(t, own.names())
}

// A host before 2026-07-28 waits for a server that starts in the same way, whether or not it answers questions: before
// the server is ready it is not known whether the host will need a process of the older era.

func TestTask_of_a_server_that_starts(t *testing.T) {
	for _, capabilities := range []string{`{"tasks":{}}`, `{"elicitation":{},"tasks":{}}`} {
		key := sessionid.NewKey()
		spec := jobServer("2025-11-25", mcptest.TaskDef{Takes: 50 * time.Millisecond, Durable: true})
		_, first := serveHTTP(t, newClient(t, spec), WithSessionKey(key))
		p := newTasker(t, first, false, capabilities)
		id := p.begin("x")
		start := make(chan struct{})
		spec.InMemory, spec.StartSupervised = gated(spec.InMemory, start), true
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		var next *Server
		next, p.url = serveHTTP(t, c, WithSessionKey(key), WithMaxWait(patience))
		asked := make(chan answer, 1)
		go func() { asked <- p.ask("tasks/get", about(id)) }()
		until(t, func() bool { return next.gateway.heldBytes() > 0 })
		close(start)
		require.Nil(t, (<-asked).Error, capabilities)
	}
}

func TestSubscribe_while_the_server_starts(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		spec := fixture("s", mcptest.Script{Versions: []string{"2025-11-25"}, Resources: []mcptest.ResourceDef{{URI: "mem://r", Name: "r", Text: "x"}}})
		start := make(chan struct{})
		spec.InMemory, spec.StartSupervised = gated(spec.InMemory, start), true
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		s := openRaw(t, Transport(c, WithNames(Names{}), WithMaxWait(patience)))
		_ = s.call("initialize", fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"h","version":"1"}}`, capabilities))
		s.notify("notifications/initialized", "{}")
		s.send(1, "resources/subscribe", `{"uri":"mcpvisor://s/mem://r"}`)
		until(t, func() bool { return s.conn.(*connection).session.account.Used() > 0 })
		close(start)
		answer := s.answer()
		require.NoError(t, answer.Error, capabilities)
	}
}

// requireUpdated reads until the resource was updated; other notifications and answers come before.
func (r raw) requireUpdated(uri string) {
	r.t.Helper()
	for {
		if m, ok := r.read().(*jsonrpc.Request); ok && m.Method == "notifications/resources/updated" {
			require.Contains(r.t, string(m.Params), uri)
			return
		}
	}
}

// A subscription moves with the share of its server, there and back, and counts as updated. So does one of
// subscriptions/listen. What is left counts nowhere when the session has ended.
func TestShare_subscriptions_move(t *testing.T) {
	const uri = "mcptest://text"
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			c := newClient(t, fixture("a", mcptest.Script{}))
			var settings SettingsVar
			s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings)))
			if modern {
				s.send(7, "subscriptions/listen", withModernMeta(`{"notifications":{"resourceSubscriptions":["`+uri+`"]}}`))
				require.Contains(t, string(s.read().(*jsonrpc.Request).Params), uri)
			} else {
				s.initializeWith(`{}`)
				require.NoError(t, s.call("resources/subscribe", `{"uri":"`+uri+`"}`).Error)
			}
			id := 100.0
			touch := func() {
				id++
				params := `{"name":"a__touch","arguments":{"uri":"` + uri + `"}}`
				if modern {
					params = withModernMeta(params)
				}
				s.send(id, "tools/call", params)
				s.requireUpdated(uri)
			}
			touch()
			conn := s.conn.(*connection)
			for _, share := range []Share{ShareClient, ShareAll, ShareClient} {
				require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": share}}))
				s.requireUpdated(uri)
				touch()
				require.Equal(t, share == ShareAll, conn.session.gateway.subscriptions.AreHeld())
				require.Equal(t, share == ShareClient, conn.session.tenancy.own.Load().seatOf("a").subscriptions.AreHeld())
				require.EqualValues(t, 1, conn.session.subscriber.count.Load())
			}
			own := conn.session.tenancy.own.Load()
			require.NoError(t, conn.Close())
			until(t, func() bool {
				return conn.session.subscriber.count.Load() == 0 && !conn.session.gateway.subscriptions.AreHeld() && !own.seatOf("a").subscriptions.AreHeld()
			})
			until(t, func() bool {
				settings.mu.Lock()
				defer settings.mu.Unlock()
				return !settings.watchers[&conn.session.subscriber]
			})
		})
	}
}

// Who subscribes again after the change has one subscription, which ends where it is.
func TestShare_subscribe_again_after_a_reload(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	var settings SettingsVar
	s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings)))
	conn := s.conn.(*connection)
	s.initializeWith(`{}`)
	u := func(method string) {
		s.send(5, method, `{"uri":"mcptest://text"}`)
		for {
			if answer, ok := s.read().(*jsonrpc.Response); ok {
				require.NoError(t, answer.Error)
				return
			}
		}
	}
	u("resources/subscribe")
	require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}}))
	u("resources/subscribe")
	until(t, func() bool { return conn.session.subscriber.count.Load() == 1 })
	s.send(6, "tools/call", `{"name":"a__touch","arguments":{"uri":"mcptest://text"}}`)
	s.requireUpdated("mcptest://text")
	u("resources/unsubscribe")
	until(t, func() bool { return conn.session.subscriber.count.Load() == 0 })
	require.False(t, conn.session.gateway.subscriptions.AreHeld())
	require.False(t, conn.session.tenancy.own.Load().seatOf("a").subscriptions.AreHeld())
}

// The subscription of a host moves to the second process of a server when that appears, and back when it ends: it
// counts as updated then, is counted once, and hears of its own process only, once for each change.
func TestLegacy_subscriptions_move(t *testing.T) {
	const uri = "mcptest://text"
	spec := mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{}), Era: mcpvisor.EraModern, Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
	c := newClient(t, spec)
	var settings SettingsVar
	in := Transport(c, WithNames(Names{}), WithSettings(&settings), WithMaxWait(patience))
	s, other := openRaw(t, in), openRaw(t, in)
	s.initializeWith(`{"elicitation":{}}`)
	require.NoError(t, s.call("resources/subscribe", `{"uri":"`+uri+`"}`).Error)
	other.send(7, "subscriptions/listen", withModernMeta(`{"notifications":{"resourceSubscriptions":["`+uri+`"]}}`))
	require.Contains(t, string(other.read().(*jsonrpc.Request).Params), uri)
	conn, first := s.conn.(*connection), resource.Name{Server: "a", URI: uri}
	id := 100.0
	// touch changes the resource of the process that a session uses, and waits until the session hears of it.
	touch := func(by raw) {
		id++
		params := `{"name":"a__touch","arguments":{"uri":"` + uri + `"}}`
		if by == other {
			params = withModernMeta(params)
		}
		by.send(id, "tools/call", params)
		by.requireUpdated(uri)
	}
	// updates takes all that a session can read now, and returns how many updates that are.
	updates := func(of raw) (n int) {
		for {
			m, err := of.conn.(*connection).poll()
			if require.NoError(t, err); m == nil {
				return n
			}
			if m, ok := m.(*jsonrpc.Request); ok && m.Method == "notifications/resources/updated" {
				n++
			}
		}
	}
	touch(s)
	for range 2 {
		for _, era := range []mcpvisor.Era{mcpvisor.EraAuto, mcpvisor.EraModern} {
			spec.Era = era
			require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
			s.requireUpdated(uri)
			apart := era == mcpvisor.EraAuto
			until(t, func() bool { return conn.session.tenancy.shared.Load() != nil })
			own := conn.session.tenancy.shared.Load()
			seat := own.seatOf("a").subscriptions
			until(t, func() bool { return seat.AreHeld() == apart && (len(own.names()) == 1) == apart })
			until(t, func() bool {
				return conn.session.gateway.subscriptions.Sessions(first) == 1+map[bool]int{false: 1}[apart]
			})
			require.EqualValues(t, 2, conn.session.subscriber.count.Load()+other.conn.(*connection).session.subscriber.count.Load())
			touch(s)
			until(t, func() bool { // of the move and of touch s may hear later
				updates(s)
				updates(other)
				touch(other)
				conn.session.gateway.hub.mu.Lock() // it has told all sessions
				defer conn.session.gateway.hub.mu.Unlock()
				return updates(s) == map[bool]int{false: 1}[apart]
			})
		}
	}
}

// taskServer makes one task, t1, of each call of x, in which it calls inCall. What comes of it names the incarnation,
// from 1, whose second of creation it is.
func taskServer(inCall ...func(m *rawtest.Message)) mcpvisor.ServerSpec {
	const task = `"taskId":"t1","status":"%s","createdAt":"2026-01-01T00:00:0%dZ","lastUpdatedAt":"2026-01-01T00:00:09Z","ttl":null`
	return mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond), InMemory: incarnations(func(n int) *rawtest.Server {
		return rawServerOf(func(m *rawtest.Message) string {
			for _, f := range inCall {
				f(m)
			}
			return ""
		}, map[string]string{
			"initialize":   legacyHandshake(`{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`),
			"tools/list":   `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`,
			"tools/call":   `"result":{"task":{` + fmt.Sprintf(task, "working", n) + `}}`,
			"tasks/get":    `"result":{` + fmt.Sprintf(task, "completed", n) + `}`,
			"tasks/result": rawtest.Text(fmt.Sprintf("of incarnation %d", n)),
		})
	})}
}

// The id of a task of a copy is unknown to the server that all share, whose task of that id is another client's; and
// the other way round.
func TestShare_tasks_of_a_principal_after_a_reload(t *testing.T) {
	c := newClient(t, taskServer())
	var settings SettingsVar
	share := func(s Share) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": s}}))
	}
	_, url := serveHTTP(t, c, WithSettings(&settings), withNames("alice", "bob"))
	as := func(token, method, params, name string) string {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+token)
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		_, text := p.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`, versionHeader, "2026-07-28", methodHeader, method, nameHeader, name)
		return text
	}
	call := func(token string) (id string) {
		id = memberOf(t, []byte(as(token, "tools/call", `"name":"a__x"`, "a__x")), "result", "taskId")
		require.NotEmpty(t, id)
		return id
	}
	get := func(token, id string) string { return as(token, "tasks/get", `"taskId":`+id, strings.Trim(id, `"`)) }

	share(ShareClient)
	require.Contains(t, get("alice", call("alice")), "of incarnation 2")
	ofCopy := call("alice")
	share(ShareAll)
	ofAll := call("bob")
	refused := get("alice", ofCopy)
	require.NotContains(t, refused, "of incarnation")
	require.Contains(t, refused, errTaskGone.Error())
	share(ShareClient)
	require.Contains(t, get("bob", ofAll), errTaskGone.Error())
}

// The tasks of a copy are not open any more when it has ended with its session, and nothing keeps that.
func TestShare_nothing_of_an_ended_session_is_kept(t *testing.T) {
	c := newClient(t, taskServer())
	server, url := serveHTTP(t, c, withShare(ShareClient))
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"tasks":{}}`)
	_, failure := p.user(false)("tools/call", `{"name":"a__x","task":{}}`)
	require.Empty(t, failure)
	require.Equal(t, 1, server.Status().Clients.Sessions[0].Tasks)
	var freed atomic.Bool
	server.mu.Lock()
	for _, own := range server.sessions {
		runtime.AddCleanup(own.session, func(struct{}) { freed.Store(true) }, struct{}{})
	}
	server.mu.Unlock()
	p.do(t.Context(), http.MethodDelete, "")
	until(t, func() bool { return server.Status().Clients.Sessions[0].Tasks == 0 })
	until(t, func() bool {
		runtime.GC()
		return freed.Load()
	})
	runtime.KeepAlive(server)
}

// A task belongs to the incarnation that got the call, though the server has copies before it answers.
func TestShare_task_of_a_call_during_a_reload(t *testing.T) {
	var settings SettingsVar
	share := func(s Share) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": s}}))
	}
	c := newClient(t, taskServer(func(m *rawtest.Message) {
		if m.Method == "tools/call" {
			share(ShareClient)
		}
	}))
	_, url := serveHTTP(t, c, WithSettings(&settings))
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"tasks":{}}`)
	_, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__x","task":{}}}`)
	id := memberOf(t, []byte(answer), "result", "task", "taskId")
	result := `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":` + id + `}}`
	_, answer = p.post(result)
	require.Contains(t, answer, errTaskGone.Error())
	share(ShareAll)
	_, answer = p.post(result)
	require.Contains(t, answer, "of incarnation 1")
	p.do(t.Context(), http.MethodDelete, "")
}
