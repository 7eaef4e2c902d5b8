package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
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

	mu       sync.Mutex // guards all below, and the fields of servers
	servers  []*server
	ledger   []execution
	faulted  map[string]bool
	posted   map[string]bool // ids of calls through the gateway
	canceled map[string]bool // ids of calls of which a server was told that they are canceled
	answers  []answer
	open     []*facade.Task // which could not be canceled
	orders   []order
	// registrations of servers in memory: when each was asked for, and when it was made; zero: it was not
	registrations []*registration
	sessions      map[string][]string  // of clients before 2026-07-28, by the id of the plan of a call; several if they use one key
	left          map[string]time.Time // when a client has ended its session
	settled       time.Time
	failed        []string
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
	offers   sync.Mutex   // held while the profile is changed
	hidden   []visibility // guarded by mu

	supervision *supervision // nil: no groups, no order, no sleep
	trust       *trust       // nil: everything is listed and sent
	closing     bool         // guarded by mu
}

func (w *world) current() *facade.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host
}

// start starts a host on the files that the one before has left.
func (w *world) start() {
	disk := &store{files: w.files, began: time.Now()}
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
	options = append(options, w.trust.options()...)
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
	for _, s := range w.servers {
		s.registered, s.fenced = false, time.Time{}
	}
	if w.supervision != nil {
		w.supervision.trees = []*tree{{asked: time.Now(), set: time.Now()}}
	}
	w.mu.Unlock()
	early := w.supervision != nil && w.supervision.early
	if early {
		_ = w.setGroups(context.Background(), w.hosts)
	}
	specs := w.specs(0)
	w.mu.Lock()
	for _, s := range w.servers {
		s.disturbed = false
	}
	w.mu.Unlock()
	w.registered(c.Register(context.Background(), specs...), specs...) // those that do not start are tried again
	if w.supervision != nil && !early {
		_ = w.setGroups(context.Background(), w.hosts)
	}
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

func (w *world) execute(id, server, session string, l *life) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger = append(w.ledger, execution{id, server, l.number, session, len(w.ledger) + 1, time.Now(), w.servers[server[1]-'0'].halted, l.drifted, l.honest, time.Since(l.stopped) < relisted})
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
	noteTime  = 3 * time.Second // how long a call with a key waits for a note of its task, and for one of its end
)

func (w *world) spec(i, version int, supervised bool) mcpvisor.ServerSpec {
	s := w.servers[i]
	made := &registration{asked: time.Now()}
	w.mu.Lock()
	disk := w.disk
	w.mu.Unlock()
	spec := mcpvisor.ServerSpec{
		Name: s.name,
		InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
			return s.serve(ctx, disk, made, stdin, stdout)
		}},
		Policy:   mcpvisor.Retry(supervisor.Unlimited, 100*time.Millisecond, supervisor.WithMaxDelay(time.Second)),
		Timeouts: mcpvisor.Timeouts{Start: 3 * time.Second, Call: callTime, CallTotal: totalTime, Shutdown: time.Second, Drain: 2 * time.Second},
		Probe:    mcpvisor.Probe{Interval: time.Second, Timeout: 500 * time.Millisecond},
	}
	made.of, made.server = spec.InMemory, s.name
	if s.http != nil {
		spec.InMemory, spec.HTTP = nil, &mcpvisor.HTTP{URL: "http://" + s.name + ".sim/mcp", Client: s.http}
	}
	spec.StartSupervised = supervised
	if version%2 == 1 {
		spec.Limits.MaxInFlight = 3
	}
	if w.trust != nil { // calls wait while rules change
		spec.Limits.MaxInFlight = 2 + version%2
	}
	if version >= 2 && s.http == nil {
		spec.Standby = true
	}
	if w.supervision != nil {
		w.supervision.specify(&spec, i, version)
	}
	made.spec = spec
	w.mu.Lock()
	defer w.mu.Unlock()
	w.registrations = append(w.registrations, made)
	s.reviveLocked()
	s.registered, s.disturbed, s.fenced = false, true, time.Time{}
	return spec
}

// A registration is a specification that was given to a host.
type registration struct {
	of          *mcpvisor.InMemory
	spec        mcpvisor.ServerSpec
	server      string
	asked, made time.Time
	over        bool // the host has answered
}

// registered notes that specifications were registered, unless there was an error.
func (w *world) registered(err error, specs ...mcpvisor.ServerSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.registrations {
		if slices.ContainsFunc(specs, func(s mcpvisor.ServerSpec) bool { return s.Name == r.server && s.InMemory == r.of }) {
			if r.over = true; err == nil {
				r.made = time.Now()
			}
		}
	}
	if err != nil {
		return
	}
	for _, spec := range specs {
		s := w.servers[spec.Name[1]-'0']
		s.registered, s.registeredAt = true, time.Now()
	}
}

// lives reports whether a host lives: else specifications that were made for it may be of the next one, and are not used.
func (w *world) lives(c *facade.Client, specs ...mcpvisor.ServerSpec) bool {
	if w.current() == c {
		return true
	}
	w.registered(errKilled, specs...)
	return false
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
		w := &world{t: t, seed: seed, faulted: map[string]bool{}, posted: map[string]bool{}, canceled: map[string]bool{}, sessions: map[string][]string{}, left: map[string]time.Time{}, cancels: map[string][]context.CancelFunc{}, files: &files{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{}}, began: time.Now(), supervision: newSupervision(seed)}
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
		w.trust = newTrust(w, seed)
		w.rule(int(seed % 4))
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
		w.settled = time.Now()
		end()
		following.Wait()
		for _, p := range w.peers {
			p.http.CloseIdleConnections()
		}
		w.stop()
		w.mu.Lock()
		w.closing = true
		w.mu.Unlock()
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
	bound := time.Minute
	if w.supervision != nil { // what comes after a server that is stopped waits
		bound = 40 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	w.mu.Lock()
	switch s.want(0); e.Kind {
	case "again", "fence", "halt":
		for _, s := range w.servers { // halt may be that of a group
			s.disturbed = true
		}
	}
	if e.Kind == "again" {
		s.registered = false
	}
	w.mu.Unlock()
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
		s.change(e.N, e.odd())
	case "touch":
		s.touch()
	case "attack":
		w.attack(attacks[e.Key])
	case "thief":
		w.steal(ctx, w.peers[e.N])
	case "bye":
		w.peers[e.N].leave(ctx)
	case "write":
		w.files.mu.Lock()
		w.files.armed = crossing{action: e.Key, writes: e.N, after: e.Wait}
		w.files.mu.Unlock()
	case "groups":
		err = w.setGroups(ctx, e.N)
	case "halt":
		if err = w.halt(ctx, e); e.At == 0 { // it crosses a call
			time.Sleep(time.Second)
			err = w.startAgain(ctx, e)
		}
	case "start":
		err = w.startAgain(ctx, e)
	case "operator":
		w.cancelCall(e)
	case "restart":
		err = w.current().Restart(ctx, s.name)
	case "drain":
		err = w.current().Restart(ctx, s.name, facade.WithDrain())
	case "again":
		c := w.current()
		if err = c.Unregister(ctx, s.name); err == nil || errors.Is(err, mcpvisor.ErrUnknownServer) {
			spec := w.spec(e.Server, e.N, !e.odd())
			if !w.lives(c, spec) {
				break
			}
			if e.N == 3 && err == nil {
				w.crossed.Go(func() { w.fence(ctx, s, true) })
			}
			err = c.Register(ctx, spec)
			w.registered(err, spec)
		}
	case "apply":
		c := w.current()
		specs := w.specs(e.N)
		if !w.lives(c, specs...) {
			break
		}
		err = c.Apply(ctx, specs)
		w.registered(err, specs...)
	case "fence":
		w.fence(ctx, s, false)
	case "refresh":
		err = w.current().Refresh(ctx, s.name)
	case "store":
		w.files.mu.Lock()
		w.files.slow, w.files.failing = e.For/4, []string{"", "before", "after", "full"}[e.N]
		if e.Server == 1 { // slower than a call waits for its note
			w.files.slow, w.files.failing = 3*e.For, ""
		}
		w.files.mu.Unlock()
		time.Sleep(e.For)
		w.files.mu.Lock()
		w.files.slow, w.files.failing = 0, ""
		w.files.mu.Unlock()
		if e.N > 0 && e.Server != 1 {
			w.forgets(began)
		}
	case "rules":
		w.rule(e.N)
	case "drift":
		s.drift(e.odd() || e.At == 0)
		sleep(ctx, 2*relisted)
		w.looks()
		if e.N > 0 {
			s.drift(false)
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
	defer time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("seed %d: %s does not end", w.seed, e)) }).Stop() // nothing can end the world
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if e.Plan.Fault == "cancel" {
		w.mu.Lock()
		w.cancels[e.Plan.ID] = append(w.cancels[e.Plan.ID], cancel)
		w.mu.Unlock()
	}
	s := w.servers[e.Server]
	w.mu.Lock()
	s.want(1)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.want(-1)
	}()
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

// cancel cancels a task. That of a server which is given up stays open: settle cancels it when the server is back.
func (w *world) cancel(t *facade.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	for ctx.Err() == nil { // its server may be down
		err := t.Cancel(ctx)
		switch {
		case err == nil:
			return
		case errors.Is(err, mcpvisor.ErrEvicted):
			w.mu.Lock()
			defer w.mu.Unlock()
			w.open = append(w.open, t)
			return
		case !errors.Is(err, mcpvisor.ErrUnavailable):
			_, _ = t.Wait(ctx)
		}
		time.Sleep(time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, t) // its server is stopped
}

// waitReady waits until all servers are ready or, if they sleep, were woken.
func (w *world) waitReady(ctx context.Context) {
	var names []string
	w.mu.Lock()
	for _, s := range w.servers {
		s.want(0)
		names = append(names, s.name)
	}
	w.mu.Unlock()
	if err := w.current().WaitReady(ctx, names...); err != nil {
		w.fail("not ready again: %v", err)
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
	w.settleTrust()
	time.Sleep(10 * time.Second) // those that were stopped run again
	w.settleSupervision(ctx)
	var again []mcpvisor.ServerSpec
	for i := range w.servers {
		name := w.servers[i].name
		st, ok := w.current().ServerStatus(name)
		if !ok || st.State == supervisor.StateEvicted {
			again = append(again, w.spec(i, 0, false))
		}
	}
	if err := w.current().Register(ctx, again...); err != nil && !errors.Is(err, mcpvisor.ErrExists) {
		w.fail("register %d again: %v", len(again), err)
	}
	w.waitReady(ctx)
	open := w.open
	w.open = nil
	for _, t := range open {
		w.cancel(t)
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
	w.settleSleep(ctx)
	w.settleResources()
	w.waitReady(ctx) // one that sleeps announces no change
	w.settleLists()
	w.settleCopies()
	w.settleCalls(ctx)
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
