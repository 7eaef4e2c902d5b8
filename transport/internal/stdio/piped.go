package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// pipedSession is one incarnation behind a pair of streams. Opening it may
// take two processes: some servers exit when they are asked server/discover.
type pipedSession struct {
	*jsonrpc.Lifetime
	dialer *pipedDialer
	jsonrpc.Notifications
	handshake jsonrpc.HandshakeWatch

	ready atomic.Pointer[channel]

	mu   sync.Mutex
	link *link
	info mcpvisor.SessionInfo
	// spawning: a process is being started that link does not show yet. Who
	// gives the session up meanwhile leaves its release to the goroutine that spawns.
	spawning bool
}

// channel is what a request needs of a session that is open.
type channel struct {
	wire    *wire
	meta    json.RawMessage // empty: the session is a legacy one
	answers *inbound.Handler
}

// Open implements Session.
func (s *pipedSession) Open(ctx context.Context) error {
	err := s.open(ctx)
	if err == nil {
		return nil
	}
	var cause *supervisor.Cause
	if !errors.As(err, &cause) {
		cause = jsonrpc.OpenCause(ctx, err, nil)
	}
	switch cause.Kind {
	case supervisor.CauseSpawn, supervisor.CauseRequested, supervisor.CauseExit, supervisor.CauseSignal:
	default: // what was believed may be the reason
		s.dialer.era.Store(s.dialer.spec.Era)
	}
	s.Abort(cause)
	return s.Cause()
}

func (s *pipedSession) open(ctx context.Context) error {
	spec := s.dialer.spec
	era, _ := s.dialer.era.Load().(mcpvisor.Era)
	patience := spec.Timeouts.Negotiate
	switch {
	case spec.Era == mcpvisor.EraModern:
		patience = 0
	case era == mcpvisor.EraModern && patience > 0:
		patience = max(patience, half(ctx))
	}
	result, err := s.try(ctx, era, patience)
	if err != nil {
		l := s.current()
		retry := mcpvisor.Era("-")
		switch {
		case l == nil || ctx.Err() != nil || spec.Era != mcpvisor.EraAuto || s.Cause() != nil:
		case l.control.probed().state == probeAsked && l.Cause() != nil:
			if era == mcpvisor.EraModern && s.dialer.doubts.Add(1) <= faith {
				break
			}
			retry = mcpvisor.EraLegacy // it died of the question: ask a fresh one the old way
		case s.answersLate(l):
			retry = mcpvisor.EraModern // it answered after all, only too late
		case l.control.probed().state != probeNone && refusesInitialize(err):
			retry = mcpvisor.EraLegacy // the question may have upset it: a bridge took it for the first message
		}
		if retry == "-" {
			return s.explain(ctx, err)
		}
		l.die(&supervisor.Cause{Kind: supervisor.CauseHandshake, Message: "negotiation starts again"})
		select {
		case <-l.Released():
			s.RecordLeft(l.Left())
		case <-ctx.Done():
			return s.explain(ctx, ctx.Err())
		}
		if result, err = s.try(ctx, retry, 0); err != nil {
			return s.explain(ctx, err)
		}
	}
	return s.settle(result)
}

// half is half of the time that ctx leaves. A server that was modern is given
// that much to say so again, and the other half is for the case that it is not.
func half(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) / 2
	}
	return mcpvisor.DefaultStartTimeout / 2
}

// refusesInitialize reports whether a handshake ended with an error of the server
// that is about neither the version nor the method.
func refusesInitialize(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Code != jsonrpc.CodeUnsupportedVersion && rpc.Code != sdkrpc.CodeMethodNotFound && !jsonrpc.IsUnsupportedVersion(err)
}

// answersLate reports whether a server turned out to be modern only when its
// answer was given up. One that starts slowly answers everything at once, in
// any order.
func (s *pipedSession) answersLate(l *link) bool {
	p := l.control.probed()
	if p.state == probeGivenUp {
		t := time.NewTimer(lastWords)
		defer t.Stop()
		select {
		case <-p.answered:
		case <-l.Dead():
		case <-t.C:
		}
		p = l.control.probed()
	}
	return p.late && p.result
}

// try spawns a process and negotiates with it.
func (s *pipedSession) try(ctx context.Context, era mcpvisor.Era, patience time.Duration) (*mcp.InitializeResult, error) {
	if aborted := s.beginSpawn(); aborted != nil {
		return nil, aborted
	}
	l, cause := s.spawnLink(ctx)
	if cause != nil {
		return nil, cause
	}
	version := ""
	if era == mcpvisor.EraLegacy {
		version = jsonrpc.LegacyVersion
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-l.Dead():
			cancel()
		case <-stop:
		}
	}()
	return l.connect(ctx, s.dialer.opts.ClientInfo, version, patience)
}

// explain finds the best cause for a failed start: the end of the process, if
// it ended, knows more than the error that it caused.
func (s *pipedSession) explain(ctx context.Context, err error) error {
	if c := s.Cause(); c != nil {
		return c
	}
	l := s.current()
	if l == nil { // nothing was started, and the message may quote a command line
		c := jsonrpc.OpenCause(ctx, err, nil)
		c.Message, c.Err = s.dialer.redactor.Text(c.Message), s.dialer.redactor.Error(c.Err)
		return c
	}
	if l.Cause() == nil && ctx.Err() == nil {
		t := time.NewTimer(2 * lastWords)
		defer t.Stop()
		select {
		case <-l.Dead():
		case <-t.C:
		}
	}
	c := withRemarks(jsonrpc.OpenCause(ctx, err, l.Cause()), l.remarks.Explain(l.redactor))
	c.Message, c.Err = s.dialer.redactor.Text(c.Message), s.dialer.redactor.Error(c.Err)
	if c.Kind == supervisor.CauseVersion && s.dialer.spec.Era == mcpvisor.EraAuto && l.control.probed().state != probeAnswered {
		c.Permanent = false // it was not heard whether it speaks the other era
	}
	if len(c.Stderr) == 0 {
		c.Stderr = l.proc.ExitCause().Stderr
	}
	return c
}

// withRemarks is a cause that says what the server sent instead of answers.
func withRemarks(c *supervisor.Cause, remarks string) *supervisor.Cause {
	switch c.Kind {
	case supervisor.CauseTimeout, supervisor.CauseHandshake, supervisor.CauseClosed, supervisor.CauseExit:
	default:
		return c
	}
	if remarks == "" {
		return c
	}
	whole := *c
	whole.Message += "; " + remarks
	return &whole
}

// settle records what was agreed on and ties the session to its process.
func (s *pipedSession) settle(result *mcp.InitializeResult) error {
	spec := s.dialer.spec
	modern := jsonrpc.IsModern(result.ProtocolVersion)
	if spec.Era == mcpvisor.EraModern && !modern {
		return &supervisor.Cause{Kind: supervisor.CauseVersion, Permanent: true,
			Message: "server speaks " + result.ProtocolVersion + " only, and the era is fixed to modern; do not set ServerSpec.Era"}
	}
	meta, err := jsonrpc.RequestMeta(result.ProtocolVersion, s.dialer.opts.ClientInfo, &s.dialer.opts.Handlers)
	if err != nil {
		return err
	}
	l := s.current()
	info := jsonrpc.NewSessionInfo(result, s.dialer.redactor)
	info.PID = l.proc.PID()
	s.mu.Lock()
	s.info = info
	s.mu.Unlock()
	if spec.Era == mcpvisor.EraAuto {
		s.dialer.era.Store(info.Era)
		if !modern {
			s.dialer.heedLate(l)
		}
	}
	s.dialer.doubts.Store(0)
	s.ready.Store(&channel{wire: l.wire, meta: meta, answers: l.answers})
	l.PropagateTo(s.Lifetime)
	unfollow := l.followRoots(modern)
	go func() {
		<-l.Released()
		unfollow()
		s.RecordLeft(l.Left())
		s.Release()
	}()
	if c := s.Cause(); c != nil { // aborted meanwhile
		return c
	}
	return nil
}

func (s *pipedSession) current() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

// Request implements Session.
func (s *pipedSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if c := s.ready.Load(); c != nil {
		if len(c.meta) == 0 {
			result, err := c.wire.request(ctx, r, nil)
			if list := s.handshake.Observe(r.Method, err); list != "" {
				go s.checkHandshake(context.WithoutCancel(ctx), c, list)
			}
			return result, err
		}
		began := time.Now()
		result, err := c.wire.request(ctx, r, c.meta)
		if err == nil && inbound.NeedsInput(r.Method, result) {
			return c.answers.ContinueWithInput(ctx, r, began, result, func(ctx context.Context, r transport.Request) (json.RawMessage, error) {
				return c.wire.request(ctx, r, c.meta)
			})
		}
		return result, err
	}
	if c := s.Cause(); c != nil {
		return nil, jsonrpc.DeathError(c, mcpvisor.OutcomeNotSent)
	}
	return nil, &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: jsonrpc.ErrNotOpen}
}

// checkHandshake ends the session if the server has lost its handshake.
func (s *pipedSession) checkHandshake(ctx context.Context, c *channel, list string) {
	cause := s.handshake.Check(ctx, list, func(ctx context.Context, r transport.Request) (json.RawMessage, error) {
		return c.wire.request(ctx, r, nil)
	})
	if cause != nil {
		s.Abort(cause)
	}
}

// Abort implements Session.
func (s *pipedSession) Abort(cause *supervisor.Cause) {
	s.mu.Lock()
	first := s.End(cause)
	l, spawning := s.link, s.spawning
	s.mu.Unlock()
	if first && !spawning {
		s.releaseAfter(l, cause)
	}
}

// releaseAfter ends a link, if there is one, and releases the session when
// nothing of it is left.
func (s *pipedSession) releaseAfter(l *link, cause *supervisor.Cause) {
	if l == nil {
		s.Release()
		return
	}
	l.die(cause)
	go func() {
		<-l.Released()
		s.RecordLeft(l.Left())
		s.Release()
	}()
}

// Info implements Session.
func (s *pipedSession) Info() mcpvisor.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	if s.link != nil {
		info.Discarded = s.link.noise.Counts()
		info.StrayOutput = s.link.remarks.StrayOutput(s.link.redactor)
		info.PID = s.link.proc.PID()
	}
	return info
}

// Stderr implements Speaker.
func (s *pipedSession) Stderr() []string {
	if l := s.current(); l != nil {
		return l.proc.ExitCause().Stderr
	}
	return nil
}

// LastReceived implements Session.
func (s *pipedSession) LastReceived() time.Time {
	if l := s.current(); l != nil {
		return l.heard.Time()
	}
	return time.Time{}
}
