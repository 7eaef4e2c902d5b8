package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// script says how one session behaves. The zero value opens at once, offers no
// tool, answers every call at once, and releases at once.
type script struct {
	openAfter    time.Duration
	openErr      *supervisor.Cause // Open fails with it
	openPanics   bool
	openHangs    bool // until the context ends or the session is aborted
	listAfter    time.Duration
	listErr      bool
	tools        []string
	crashAfter   time.Duration // after it opened; 0: never
	callAfter    time.Duration
	callHangs    bool
	callIsTask   bool // the server makes a task of each call
	probePanics  bool
	probeFails   error         // refuses each probe at once
	sendsEvery   time.Duration // the server sends something this often by itself; 0: never
	releaseAfter time.Duration
	left         error // what it leaves behind
}

var errScripted = &supervisor.Cause{Kind: supervisor.CauseExit, Message: "the server exited (scripted)"}

// scriptedDialer makes sessions by script, and checks that the next one is made only
// after the last one is released.
type scriptedDialer struct {
	t      testing.TB
	id     int // of the registration, as the harness counts them
	script func(epoch int) script
	// standby: one other session may exist when the next is made.
	standby bool

	mu       sync.Mutex
	sessions []*scriptedSession
	keeps    bool // Keep was called, and not Idle since
	// finishTakes is how long what Idle returns takes. Set by tests before Idle.
	finishTakes time.Duration
	kept        bool // Keep was called, and what Idle returned has not returned since
}

// Keep implements transport.Keeper.
func (d *scriptedDialer) Keep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keeps, d.kept = true, true
}

// Idle implements transport.Keeper.
func (d *scriptedDialer) Idle() (finish func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.keeps {
		return nil
	}
	d.keeps = false
	return func() {
		time.Sleep(d.finishTakes)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.kept = d.keeps
	}
}

// isKept reports whether the dialer keeps something for a next session.
func (d *scriptedDialer) isKept() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept
}

// NewSession implements transport.Dialer.
func (d *scriptedDialer) NewSession() transport.Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	alive := 0
	for _, s := range d.sessions {
		if !isClosed(s.released) {
			alive++
		}
		if !isClosed(s.released) && (!d.standby || alive > 1) {
			d.t.Errorf("registration %d: session %d is dialled before session %d is released", d.id, len(d.sessions)+1, s.epoch)
		}
	}
	epoch := len(d.sessions) + 1
	s := &scriptedSession{dialer: d, epoch: epoch, script: d.script(epoch), born: time.Now(),
		dead: make(chan struct{}), released: make(chan struct{})}
	d.sessions = append(d.sessions, s)
	return s
}

func (d *scriptedDialer) all() []*scriptedSession {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*scriptedSession(nil), d.sessions...)
}

type scriptedSession struct {
	transport.Base
	calls  endCalls
	dialer *scriptedDialer
	epoch  int
	script script
	born   time.Time
	notify func(transport.Notice)

	dead, released chan struct{}

	mu           sync.Mutex
	cause        *supervisor.Cause
	lastReceived time.Time
	hung         bool
	probes       []time.Time
	opening      bool          // Open has not returned
	heardDead    chan struct{} // what Dead returns once in place of dead; nil: dead
	opened       bool
	ran          map[string]int // how often a call with this target arrived
}

func (s *scriptedSession) setOpening(v bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening = v
}

// Open implements transport.Session.
func (s *scriptedSession) Open(ctx context.Context) error {
	if s.script.openPanics {
		panic("scripted panic in Open")
	}
	s.setOpening(true)
	defer s.setOpening(false)
	var err error
	if s.script.openHangs {
		err = s.wait(ctx, 0, true)
	} else {
		err = s.wait(ctx, s.script.openAfter, false)
	}
	switch {
	case errors.Is(err, errDied):
		return s.Cause()
	case err != nil:
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "not open in time", Err: err})
		return s.Cause()
	case s.script.openErr != nil:
		s.Abort(s.script.openErr)
		return s.Cause()
	}
	s.mu.Lock()
	s.opened = true
	s.mu.Unlock()
	s.touch()
	if s.script.crashAfter > 0 {
		go func() {
			if s.wait(context.Background(), s.script.crashAfter, false) == nil {
				s.Abort(errScripted)
			}
		}()
	}
	if s.script.sendsEvery > 0 {
		go func() {
			for s.wait(context.Background(), s.script.sendsEvery, false) == nil {
				s.touch()
			}
		}()
	}
	return nil
}

var errDied = errors.New("session died")

// wait waits for d (or without end), for ctx, or for the death of the session.
func (s *scriptedSession) wait(ctx context.Context, d time.Duration, forever bool) error {
	var due <-chan time.Time
	if !forever {
		if d == 0 && !isClosed(s.dead) && ctx.Err() == nil {
			return nil
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-s.dead:
		return errDied
	case <-ctx.Done():
		return ctx.Err()
	case <-due:
		return nil
	}
}

// Request implements transport.Session.
func (s *scriptedSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if isClosed(s.dead) {
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeNotSent, Cause: s.Cause()}
	}
	var err error
	deadline := mcpvisor.ErrCanceled // the kind of error if the deadline passes
	clock := r.Timeout
	if clock == 0 || r.TotalTimeout > 0 && r.TotalTimeout < clock {
		clock = r.TotalTimeout
	}
	if clock > 0 && !r.Began.IsZero() {
		clock = max(clock-time.Since(r.Began), 1)
	}
	if until, ok := ctx.Deadline(); clock > 0 && (!ok || time.Until(until) > clock) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, clock)
		defer cancel()
		deadline = mcpvisor.ErrTimeout
	}
	result := json.RawMessage(`{}`)
	s.mu.Lock()
	deaf := s.hung
	if r.Method == "ping" {
		s.probes = append(s.probes, time.Now())
	}
	if r.Method == "tools/call" && r.Target != "" {
		if s.ran == nil {
			s.ran = map[string]int{}
		}
		s.ran[r.Target]++
	}
	s.mu.Unlock()
	switch {
	case r.Method == "tools/call" && s.script.callIsTask:
		return result, transport.ErrTask
	case r.Method == "ping" && s.script.probeFails != nil:
		s.mu.Lock()
		s.lastReceived = time.Now() // the answer to another request crosses the probe
		s.mu.Unlock()
		return nil, s.script.probeFails
	case r.Method == "ping" && s.script.probePanics:
		panic("scripted panic in a probe")
	case deaf:
		err = s.wait(ctx, 0, true)
	case r.Method == "tools/list":
		err = s.wait(ctx, s.script.listAfter, false)
		if s.script.listErr && err == nil {
			return nil, &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New("scripted")}
		}
		result = s.listing()
	case r.Method == "tools/call":
		err = s.wait(ctx, s.script.callAfter, s.script.callHangs)
		result = json.RawMessage(fmt.Sprintf(`{"registration":%d,"epoch":%d}`, s.dialer.id, s.epoch))
	}
	switch {
	case errors.Is(err, errDied):
		return nil, transport.DeathError(s.Cause(), mcpvisor.OutcomeUnknown)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &mcpvisor.Error{Kind: deadline, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	case err != nil:
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	}
	s.touch()
	return result, nil
}

func (s *scriptedSession) listing() json.RawMessage {
	type tool struct {
		Name        string         `json:"name"`
		InputSchema map[string]any `json:"inputSchema"`
	}
	list := struct {
		Tools []tool `json:"tools"`
	}{Tools: []tool{}}
	for _, name := range s.script.tools {
		list.Tools = append(list.Tools, tool{name, map[string]any{"type": "object"}})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return raw
}

// OnNotice implements transport.Session.
func (s *scriptedSession) OnNotice(notify func(transport.Notice)) { s.notify = notify }

// Abort implements transport.Session.
func (s *scriptedSession) Abort(cause *supervisor.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = cause
	close(s.dead)
	if s.script.releaseAfter == 0 {
		close(s.released)
		return
	}
	time.AfterFunc(s.script.releaseAfter, func() { close(s.released) })
}

func (s *scriptedSession) touch() {
	s.mu.Lock()
	s.lastReceived = time.Now()
	s.mu.Unlock()
}

// hang makes the server answer nothing from now on.
func (s *scriptedSession) hang() {
	s.mu.Lock()
	s.hung = true
	s.mu.Unlock()
}

func (s *scriptedSession) probed() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.probes...)
}

// Dead implements transport.Session.
func (s *scriptedSession) Dead() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if late := s.heardDead; late != nil {
		s.heardDead = nil
		return late
	}
	return s.dead
}

// Released implements transport.Session.
func (s *scriptedSession) Released() <-chan struct{} { return s.released }

func (s *scriptedSession) OnDead(f func())     { s.calls.onDead(s.dead, f) }
func (s *scriptedSession) OnReleased(f func()) { s.calls.onReleased(s.released, f) }

// Left implements transport.Session.
func (s *scriptedSession) Left() error                  { return s.script.left }
func (s *scriptedSession) Kill(cause *supervisor.Cause) { s.Abort(cause) }

// Cause implements transport.Session.
func (s *scriptedSession) Cause() *supervisor.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// LastReceived implements transport.Session.
func (s *scriptedSession) LastReceived() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastReceived
}

// Info implements transport.Session.
func (s *scriptedSession) Info() mcpvisor.SessionInfo {
	return mcpvisor.SessionInfo{Era: mcpvisor.EraLegacy, ProtocolVersion: "2025-11-25", PID: 1000 + s.epoch,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}}
}
