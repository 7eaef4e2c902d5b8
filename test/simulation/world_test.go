package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// An event of a schedule begins at its time, in a goroutine of its own.
type event struct {
	At      time.Duration
	Kind    string
	Server  int
	Plan    plan
	Key     string
	Timeout time.Duration // of the context; 0: none
	Wait    bool
	For     time.Duration
	N       int
}

func (e event) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%8v %-9s server %d plan %+v key %q timeout %v wait %v for %v n %d", e.At, e.Kind, e.Server, e.Plan, e.Key, e.Timeout, e.Wait, e.For, e.N), " ")
}

// viaGateway reports whether a client of the gateway makes the call.
func (e event) viaGateway() bool { return e.Kind == "post" || e.Kind == "taskpost" || e.Kind == "line" }

const servers = 3

// schedule makes the events of a seed.
func schedule(seed uint64) (all []event) {
	r := rand.New(rand.NewPCG(seed, 1))
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }
	length := 20_000
	id := 0
	makePlan := func() plan {
		id++
		p := plan{ID: fmt.Sprintf("c%d", id), Form: "plain", Delay: ms(1 + []int{1, 50, 3000}[r.IntN(3)])}
		switch r.IntN(6) {
		case 0, 1:
			p.Form = "task"
		case 3:
			p.Form = "ask"
		case 2:
			if r.IntN(3) == 0 {
				p.Form = "never"
			}
		}
		if r.IntN(4) == 0 {
			p.Fault = faults[r.IntN(len(faults))]
		}
		return p
	}
	keys := map[string]event{}
	gatewayKeys := map[string]event{}
	for range 20 + r.IntN(120) {
		e := event{At: ms(length), Kind: "call", Server: r.IntN(servers), Plan: makePlan(), Wait: r.IntN(2) == 0}
		if e.Wait || r.IntN(2) == 0 {
			e.Timeout = ms(8000) + time.Millisecond
		}
		switch r.IntN(12) {
		case 11:
			e.Kind, e.Wait = "line", false
			e.Timeout = ms(20_000) + time.Millisecond
		case 10:
			e.Kind, e.N, e.Wait = "taskpost", 2+r.IntN(3), false // of the versions that have tasks
			e.Plan.Form, e.Timeout = "task", ms(20_000)+time.Millisecond
		case 0, 1, 2:
			e.Kind, e.Key = "key", fmt.Sprintf("k%d", r.IntN(12))
			e.Timeout = ms(12_000) + time.Millisecond
			if first, ok := keys[e.Key]; ok {
				e.Server, e.Plan = first.Server, first.Plan
			} else {
				e.Plan.ID = e.Key
				keys[e.Key] = e
			}
		case 3:
			e.Kind = "handle"
			e.Timeout = ms(12_000) + time.Millisecond
		case 5, 6, 7:
			e.Kind, e.N, e.Wait = "post", r.IntN(peers), false
			e.Timeout = ms(20_000) + time.Millisecond
			if r.IntN(3) == 0 {
				e.Key = fmt.Sprintf("g%d", r.IntN(6))
				principal := []string{"alice", "bob"}[e.N%2]
				if first, ok := gatewayKeys[principal+e.Key]; ok {
					e.Server, e.Plan = first.Server, first.Plan
				} else {
					e.Plan.ID = principal + ":" + e.Key
					gatewayKeys[principal+e.Key] = e
				}
			}
		case 4:
			if r.IntN(3) == 0 {
				e = event{At: e.At, Kind: "resume", Key: fmt.Sprintf("k%d", r.IntN(12)), Timeout: ms(12_000) + time.Millisecond}
			}
		}
		all = append(all, e)
		if e.Key != "" && r.IntN(4) == 0 { // it is sent twice
			e.At += time.Duration(1 + r.IntN(1000))
			all = append(all, e)
		}
	}
	for range r.IntN(20) {
		all = append(all, event{At: ms(length), Kind: []string{"tools", "read", "hostread", "thief", "bye"}[r.IntN(5)], Server: r.IntN(servers), N: r.IntN(peers), Timeout: ms(5000) + time.Millisecond})
	}
	for range r.IntN(4) {
		action := []string{"die", "kill", "restart", "drain", "apply", "again", "hide", "fence"}[r.IntN(8)]
		all = append(all, event{At: ms(length), Kind: "write", Key: action, Server: r.IntN(servers), N: r.IntN(4), Wait: r.IntN(2) == 0})
	}
	for range r.IntN(25) {
		e := event{At: ms(length), Server: r.IntN(servers), N: r.IntN(4), For: ms(3000)}
		e.Kind = []string{"kill", "kill", "stop", "change", "restart", "drain", "again", "apply", "fence", "refresh", "store", "refuse", "die", "forget", "hide", "hide", "touch", "touch"}[r.IntN(18)]
		all = append(all, e)
	}
	for i := range all { // actions of the host that cross a call: of calls that may end without a result
		if f := all[i].Plan.Fault; all[i].Key != "" && f == "cancel" {
			all[i].Plan.Fault = ""
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return int(a.At - b.At) })
	return all
}

// An answer is what a caller was told.
type answer struct {
	event
	began, ended time.Time
	text         string
	err          error
	host         *facade.Client
}

// A world is one run of a schedule.
type world struct {
	t    *testing.T
	seed uint64

	mu      sync.Mutex // guards all below, and the fields of servers
	servers []*server
	ledger  []execution
	faulted map[string]bool
	posted  map[string]bool // ids of calls through the gateway
	answers []answer
	failed  []string
	// forgetful are the times in which the journal may lose what a host writes: its writes fail, or the host ends.
	forgetful [][2]time.Time

	files   *files
	host    *facade.Client // the one that lives
	disk    *store         // as it uses the files
	began   time.Time
	hosts   int
	closes  sync.WaitGroup
	net     *network
	peers   []*peer
	line    *linePeer
	stop    func()                          // ends what the host serves; written before serves is closed
	serves  chan struct{}                   // closed when the host serves
	crossed sync.WaitGroup                  // actions at an instant of something else
	cancels map[string][]context.CancelFunc // of the calls in flight, by the id of their plan

	settings *gateway.SettingsVar
	copied   string       // the server that runs once for each client; empty: none
	hidden   []visibility // guarded by mu
}

func (w *world) current() *facade.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host
}

// start starts a host on the files that the one before has left.
func (w *world) start() {
	disk := &store{files: w.files}
	disk.cross = func(action string) {
		e := event{Kind: action, Server: len(disk.entries) % servers, N: len(disk.entries) % 4}
		if action == "die" {
			w.crossed.Go(func() { w.end(disk) })
			return
		}
		w.cross(e)
	}
	options := []facade.Option{facade.WithJournal(disk, ""), facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.posted[r.Message] {
			w.failLocked("the host was asked for %s, which a client of its gateway calls", r.Message)
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"a": r.Message}}, nil
	})}
	if *logs {
		options = append(options, facade.WithLogger(zerolog.New(zerolog.ConsoleWriter{Out: os.Stdout, NoColor: true, TimeFormat: "05.000"}).Level(zerolog.DebugLevel).With().Timestamp().Logger()))
	}
	c, err := facade.New(options...)
	if err != nil {
		panic(err)
	}
	serves := make(chan struct{})
	defer close(serves)
	w.mu.Lock()
	w.host, w.disk, w.serves = c, disk, serves
	w.hosts++
	w.mu.Unlock()
	_ = c.RegisterAll(context.Background(), w.specs(0)) // those that do not start are tried again
	stop, stopLines := w.serve(c), w.serveLines(c)
	w.stop = func() { stop(); stopLines() }
}

// die ends the host as SIGKILL does: nothing that it does from now on has an effect.
func (w *world) die() {
	w.mu.Lock()
	disk := w.disk
	w.mu.Unlock()
	if disk.cut() {
		w.end(disk)
	}
}

// end ends the host of a store that is cut already.
func (w *world) end(disk *store) {
	w.mu.Lock()
	if w.disk != disk {
		w.mu.Unlock()
		return // another event has ended it
	}
	c, serves := w.host, w.serves
	defer w.forgets(time.Now())
	var lives []*life
	for _, s := range w.servers {
		lives = append(lives, s.lives...)
	}
	w.mu.Unlock()
	<-serves
	w.stop()
	for _, l := range lives {
		l.end(errKilled)
	}
	w.start()
	w.closes.Go(func() { _ = c.Close(context.Background()) })
}

// forgets notes that the journal may have lost something since a time.
func (w *world) forgets(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetful = append(w.forgetful, [2]time.Time{since, time.Now()})
}

// cross runs an event at the instant of something else.
func (w *world) cross(e event) {
	w.mu.Lock()
	counts["crossing "+e.Kind]++
	cancels := w.cancels[e.Plan.ID]
	w.mu.Unlock()
	w.crossed.Go(func() {
		if e.Kind != "cancel" {
			w.play(e)
			return
		}
		for _, cancel := range cancels {
			cancel()
		}
	})
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failLocked(format string, args ...any) {
	w.failed = append(w.failed, fmt.Sprintf(format, args...))
}

func (w *world) execute(id, server, session string, incarnation int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger = append(w.ledger, execution{id, server, incarnation, session, len(w.ledger) + 1, time.Now()})
	return len(w.ledger)
}

var (
	counts  = map[string]int{}
	virtual time.Duration // of all worlds
)

const (
	callTime  = 5 * time.Second
	totalTime = 30 * time.Second
	slack     = 2 * time.Second
)

func (w *world) spec(i, version int, supervised bool) mcpvisor.ServerSpec {
	s := w.servers[i]
	w.mu.Lock()
	disk := w.disk
	w.mu.Unlock()
	spec := mcpvisor.ServerSpec{
		Name: s.name,
		InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
			return s.serve(ctx, disk, stdin, stdout)
		}},
		Policy:   mcpvisor.Retry(supervisor.Unlimited, 100*time.Millisecond, supervisor.WithMaxDelay(time.Second)),
		Timeouts: mcpvisor.Timeouts{Start: 3 * time.Second, Call: callTime, CallTotal: totalTime, Shutdown: time.Second, Drain: 2 * time.Second},
		Probe:    mcpvisor.Probe{Interval: time.Second, Timeout: 500 * time.Millisecond},
	}
	if s.http != nil {
		spec.InMemory, spec.HTTP = nil, &mcpvisor.HTTP{URL: "http://" + s.name + ".sim/mcp", Client: s.http}
	}
	spec.StartSupervised = supervised
	if version%2 == 1 {
		spec.Limits.MaxInFlight = 3
	}
	if version >= 2 && s.http == nil {
		spec.Standby = true
	}
	return spec
}

func (w *world) specs(version int) (all []mcpvisor.ServerSpec) {
	for i := range w.servers {
		all = append(all, w.spec(i, version, true))
	}
	return all
}

// run plays a schedule and returns what was wrong. The seed also decides what the servers are.
func run(t *testing.T, seed uint64, all []event) (failed []string) {
	variant := rand.New(rand.NewPCG(seed, 2)).Uint64()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, seed: seed, faulted: map[string]bool{}, posted: map[string]bool{}, cancels: map[string][]context.CancelFunc{}, files: &files{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{}}, began: time.Now()}
		for i := range servers {
			w.servers = append(w.servers, &server{w: w, name: fmt.Sprintf("s%d", i), index: i, modern: (variant>>i)&1 == 1, durable: (variant>>(i+3))&1 == 1, tasks: &tasks{byID: map[string]*task{}}})
		}
		w.net = &network{listeners: map[string]*listener{}}
		for _, e := range all {
			if e.viaGateway() && e.Key == "" { // with a key the host answers
				w.posted[e.Plan.ID] = true
			}
		}
		for n := range peers {
			w.peers = append(w.peers, w.newPeer(n))
		}
		world, end := context.WithCancel(context.Background())
		var running sync.WaitGroup
		for i, s := range w.servers {
			if (variant>>(i+6))&1 == 1 {
				s.http = &http.Client{Transport: &http.Transport{DialContext: w.net.dial}}
				running.Go(func() { s.runHTTP(world) })
			}
		}
		synctest.Wait()
		w.settings = new(gateway.SettingsVar)
		if (variant>>9)&1 == 1 {
			w.copied = "s0"
		}
		w.offer("")
		w.start()
		var following sync.WaitGroup
		for _, p := range w.peers[:4] {
			following.Go(func() { p.follow(world) })
		}
		var wg sync.WaitGroup
		for _, e := range all {
			time.Sleep(time.Until(w.began.Add(e.At)))
			wg.Go(func() { w.play(e) })
		}
		wg.Wait()
		w.crossed.Wait()
		w.settle()
		end()
		following.Wait()
		for _, p := range w.peers {
			p.http.CloseIdleConnections()
		}
		w.stop()
		if err := w.current().Close(context.Background()); err != nil {
			w.fail("Close: %v", err)
		}
		w.closes.Wait()
		running.Wait()
		for _, s := range w.servers {
			if s.http != nil {
				s.http.CloseIdleConnections()
			}
		}
		w.judge()
		virtual += time.Since(w.began)
		failed = w.failed
	})
	return failed
}

func (w *world) play(e event) {
	ctx := context.Background()
	if e.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.Timeout)
		defer cancel()
	}
	if slices.Contains([]string{"call", "key", "handle", "resume", "post", "tools", "taskpost", "line", "read", "hostread"}, e.Kind) {
		w.ask(ctx, e)
		return
	}
	s := w.servers[e.Server]
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	var err error
	switch e.Kind {
	case "kill":
		s.kill()
	case "stop":
		if l := s.oldest(); l != nil {
			l.stopFor(e.For)
		}
	case "change":
		s.change(e.N)
	case "touch":
		s.touch()
	case "thief":
		w.steal(ctx, w.peers[e.N])
	case "bye":
		w.peers[e.N].leave(ctx)
	case "write":
		w.files.mu.Lock()
		w.files.armed = crossing{action: e.Key, writes: e.N, after: e.Wait}
		w.files.mu.Unlock()
	case "restart":
		err = w.current().Restart(ctx, s.name)
	case "drain":
		err = w.current().Restart(ctx, s.name, facade.WithDrain())
	case "again":
		if err = w.current().Unregister(ctx, s.name); err == nil || errors.Is(err, mcpvisor.ErrUnknownServer) {
			err = w.current().Register(ctx, w.spec(e.Server, e.N, e.For%2 == 0))
		}
	case "apply":
		err = w.current().Apply(ctx, w.specs(e.N))
	case "fence":
		err = w.current().Fence(ctx, s.name, "the simulation says so")
	case "refresh":
		err = w.current().Refresh(ctx, s.name)
	case "store":
		w.files.mu.Lock()
		w.files.slow = e.For / 4
		w.files.failing = []string{"", "before", "after", "full"}[e.N]
		w.files.mu.Unlock()
		time.Sleep(e.For)
		w.files.mu.Lock()
		w.files.slow, w.files.failing = 0, ""
		w.files.mu.Unlock()
		if e.N > 0 {
			w.forgets(began)
		}
	case "hide":
		w.offer([]string{"", "s0", "s1", "s2"}[e.N])
	case "forget":
		if l := s.oldest(); l != nil {
			w.mu.Lock()
			clear(l.sessions)
			w.mu.Unlock()
		}
	case "die":
		w.die()
	case "refuse":
		w.mu.Lock()
		s.refuses = e.N
		w.mu.Unlock()
	}
	if took := time.Since(began); took > 45*time.Second {
		w.fail("%s of %s took %v: %v", e.Kind, s.name, took, err)
	}
}

// ask makes a call, and keeps what was told.
func (w *world) ask(ctx context.Context, e event) {
	client := w.current()
	a := answer{event: e, began: time.Now(), host: client}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if e.Plan.Fault == "cancel" {
		w.mu.Lock()
		w.cancels[e.Plan.ID] = append(w.cancels[e.Plan.ID], cancel)
		w.mu.Unlock()
	}
	opts := []facade.CallOption{facade.WithProgress(func(p mcpvisor.Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		counts["progress of "+e.Kind]++
		if p.Message != e.Plan.ID && p.Message != e.Key {
			w.failLocked("%s got the progress of %s", e, p.Message)
		}
	})}
	if e.Wait {
		opts = append(opts, facade.WithWaitReady())
	}
	if e.Kind == "key" {
		opts = append(opts, facade.WithKey(e.Key))
	}
	name := fmt.Sprintf("s%d/do", e.Server)
	var result *mcp.CallToolResult
	var t *facade.Task
	switch e.Kind {
	case "call", "key":
		result, a.err = client.CallTool(ctx, name, e.Plan, opts...)
	case "handle":
		if t, a.err = client.StartTask(ctx, name, e.Plan, opts...); a.err == nil {
			if result, a.err = t.Wait(ctx); ctx.Err() != nil {
				defer w.cancel(t)
			}
		}
	case "post", "tools", "taskpost":
		a.text, a.err = w.peers[e.N].call(ctx, e)
	case "line":
		w.mu.Lock()
		line := w.line
		w.mu.Unlock()
		a.text, a.err = line.call(ctx, e)
	case "read":
		a.err = w.peers[e.N].read(ctx, e.Server)
	case "hostread":
		a.err = w.read(ctx, client, e.Server)
	case "resume":
		if t, a.err = client.ResumeTask(ctx, mcpvisor.JournalKey{Key: e.Key}); a.err == nil {
			result, a.err = t.Wait(ctx)
		}
	}
	a.ended = time.Now()
	if a.err == nil && result != nil {
		if text, ok := result.Content[0].(*mcp.TextContent); ok && len(result.Content) == 1 {
			a.text = text.Text
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, a)
}

func (w *world) cancel(t *facade.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	for ctx.Err() == nil { // its server may be down
		err := t.Cancel(ctx)
		if err == nil {
			return
		}
		if !errors.Is(err, mcpvisor.ErrUnavailable) && !errors.Is(err, mcpvisor.ErrEvicted) {
			_, _ = t.Wait(ctx)
		}
		time.Sleep(time.Second)
	}
}

// settle ends all faults, and looks whether everything comes back.
func (w *world) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w.mu.Lock()
	for _, s := range w.servers {
		s.refuses = 0
		for _, l := range s.lives {
			l.stopped = time.Time{}
		}
	}
	w.mu.Unlock()
	time.Sleep(10 * time.Second) // those that were stopped run again
	for i := range w.servers {
		name := w.servers[i].name
		st, ok := w.current().ServerStatus(name)
		if !ok || st.State == supervisor.StateEvicted {
			if err := w.current().Register(ctx, w.spec(i, 0, false)); err != nil && !errors.Is(err, mcpvisor.ErrExists) {
				w.fail("register %s again: %v", name, err)
			}
		}
	}
	if err := w.current().WaitReady(ctx, slices.Collect(func(yield func(string) bool) {
		for _, s := range w.servers {
			if !yield(s.name) {
				return
			}
		}
	})...); err != nil {
		w.fail("not ready again: %v", err)
	}
	time.Sleep(5 * time.Second) // lists are asked for again after a change
	want := map[string]bool{}
	w.mu.Lock()
	for _, s := range w.servers {
		want[s.name+"/do"] = true
		for i := range s.tools {
			want[fmt.Sprintf("%s/extra%d", s.name, i)] = true
		}
	}
	w.mu.Unlock()
	got := map[string]bool{}
	for _, tool := range w.current().Tools() {
		got[tool.Name] = true
	}
	if !maps.Equal(want, got) {
		w.fail("the servers offer %v, and %v is listed", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
	w.offer("")
	time.Sleep(5 * time.Second)
	w.settleResources()
	w.settleCopies()
	w.settleCalls(ctx)
	want = map[string]bool{}
	for name := range got {
		want[strings.Replace(name, "/", "__", 1)] = true
	}
	w.mu.Lock()
	for _, p := range w.peers[:4] {
		known := map[string]bool{}
		for _, name := range p.known {
			known[name] = true
		}
		if !maps.Equal(want, known) {
			w.failLocked("the gateway offers %v, and peer %d, which follows it, knows %v", slices.Sorted(maps.Keys(want)), p.n, p.known)
		}
	}
	w.mu.Unlock()
	for _, call := range w.current().CallsInFlight() {
		if call.Method == "tools/call" {
			w.fail("a call is in flight at the end: %+v", call)
		}
	}
	for _, open := range w.current().Tasks() {
		if open.Key == "" {
			w.fail("a task is open at the end: %+v", open)
		}
	}
}

// judge compares what was told with what was done.
func (w *world) judge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := map[string][]execution{}
	for _, x := range w.ledger {
		done[x.ID] = append(done[x.ID], x)
	}
	for id, all := range done {
		if len(all) > 1 {
			w.failLocked("%s was executed %d times: %+v", id, len(all), all)
		}
	}
	w.judgeCopies()
	w.judgeKeys()
	told := map[string]string{}
	for _, a := range w.answers {
		name := a.Kind + " ok"
		if a.err != nil {
			text := a.err.Error()
			var e *mcpvisor.Error
			if errors.As(a.err, &e) {
				text = string(e.Kind) + " " + string(e.Outcome)
			}
			name = a.Kind + " " + text[:min(60, len(text))]
		}
		counts[name]++
	}
	counts["executions"] += len(w.ledger)
	for _, a := range w.answers {
		id := a.Plan.ID
		if a.Kind == "resume" {
			id = a.Key
		}
		bound := totalTime + slack
		if a.Timeout > 0 {
			bound = min(bound, a.Timeout+slack)
		}
		if took := a.ended.Sub(a.began); took > bound {
			w.failLocked("%s took %v: %v", a.event, took, a.err)
		}
		if a.Kind == "tools" || a.Kind == "read" || a.Kind == "hostread" {
			continue
		}
		if a.Kind == "post" || a.Kind == "taskpost" {
			for _, x := range done[id] {
				if w.alwaysHidden(x.Server, a.began, x.At) && a.Key == "" {
					w.failLocked("%s was executed at %v, and its server was hidden since before the call", a.event, x.At.Sub(w.began))
				}
			}
		}
		if a.host != w.host && a.err != nil {
			continue // the caller died with its host
		}
		var e *mcpvisor.Error
		switch {
		case a.err == nil:
			n := 0
			if len(done[id]) > 0 {
				n = done[id][0].Number
			}
			if want := fmt.Sprintf("%s#%d", id, n); a.text != want && a.text != want+":" && a.text != want+":"+id {
				w.failLocked("%s got %q and not %q", a.event, a.text, want)
			}
			if strings.HasSuffix(a.text, ":"+id) {
				counts["answered questions of "+a.Kind]++
			} else if strings.HasSuffix(a.text, ":") {
				counts["unanswered questions of "+a.Kind]++
			}
			if first, ok := told[id]; ok && first != a.text {
				w.failLocked("%s was told %q before, and now %q", id, first, a.text)
			}
			told[id] = a.text
		case a.viaGateway():
			if a.Key == "" && claimsNotExecuted(a.err) && len(done[id]) > 0 {
				w.failLocked("%s of peer %d was told that it was not executed, and was: %v, %+v", a.event, a.N, a.err, done[id])
			}
		case !errors.As(a.err, &e):
			w.failLocked("%s got an error of another type: %v", a.event, a.err)
		case e.Outcome == mcpvisor.OutcomeNotSent && a.Kind != "resume" && a.Key == "" && len(done[id]) > 0:
			w.failLocked("%s was told not sent, and was executed: %v, %+v", a.event, a.err, done[id])
		case e.Outcome == mcpvisor.OutcomeNotSent && a.Key != "":
			for _, x := range done[id] { // only by a call that began before this one ended
				if x.At.After(a.began) && !w.otherAsks(a) {
					w.failLocked("%s was told not sent, and was executed: %v, %+v", a.event, a.err, x)
				}
			}
		}
	}
}

// judgeKeys: what a key has got once, it gets again, as long as the journal loses nothing.
func (w *world) judgeKeys() {
	type key struct{ way, id string }
	first := map[key]answer{}
	all := slices.Clone(w.answers)
	slices.SortStableFunc(all, func(a, b answer) int { return a.ended.Compare(b.ended) })
	for _, a := range all {
		k := key{strings.Replace(a.Kind, "resume", "key", 1), cmp.Or(a.Plan.ID, a.Key)}
		if a.Key == "" || a.err == nil && first[k].Key != "" {
			continue
		}
		if a.err == nil {
			first[k] = a
			continue
		}
		var e *mcpvisor.Error
		var model *modelError
		interrupted := errors.As(a.err, &e) && e.Kind == mcpvisor.KindInterrupted || errors.As(a.err, &model) && model.Code == string(mcpvisor.KindInterrupted)
		before := first[k]
		if !interrupted || before.Key == "" || a.began.Before(before.ended) {
			continue
		}
		counts["interrupted after a result"]++
		if !slices.ContainsFunc(w.forgetful, func(t [2]time.Time) bool { return !t[1].Before(before.began) && !t[0].After(a.ended) }) {
			w.failLocked("%s got %q before, and is told now that its result is not known: %v", a.event, before.text, a.err)
		}
	}
}

// judgeCopies: an incarnation of the server that runs once for each client serves one of them.
func (w *world) judgeCopies() {
	owner := map[string]string{}
	for _, a := range w.answers {
		if a.Kind == "line" {
			owner[a.Plan.ID] = fmt.Sprintf("lines of host %p", a.host)
		} else if a.viaGateway() && a.Key == "" {
			owner[a.Plan.ID] = w.peers[a.N].principal
			if p := w.peers[a.N]; !p.modern() {
				owner[a.Plan.ID] = fmt.Sprintf("%s, peer %d", p.principal, p.n)
			}
		}
	}
	served := map[string]string{}
	for _, x := range w.ledger {
		if x.Server != w.copied || owner[x.ID] == "" || w.servers[0].http != nil && w.servers[0].modern {
			continue
		}
		place := fmt.Sprint(x.Incarnation, " ", x.Session)
		counts["executions in copies"]++
		if before := served[place]; before != "" && before != owner[x.ID] {
			w.failLocked("incarnation %d of %s served %s and %s", x.Incarnation, x.Server, before, owner[x.ID])
		}
		served[place] = owner[x.ID]
	}
}

// otherAsks: another call has the key of a.
func (w *world) otherAsks(a answer) bool {
	for _, b := range w.answers {
		if b.Key == a.Key && b.Kind != "resume" && b.event != a.event {
			return true
		}
	}
	return false
}
