package stdio

import (
	"context"
	"errors"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/decisive"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
)

// Open implements [transport.Session].
func (s *session) Open(ctx context.Context) error {
	err := s.negotiate(ctx)
	if err == nil {
		return nil
	}
	var cause *supervisor.Cause
	if !errors.As(err, &cause) {
		cause = jsonrpc.OpenCause(ctx, err, nil)
	}
	switch cause.Kind {
	case supervisor.CauseSpawn, supervisor.CauseRequested, supervisor.CauseExit, supervisor.CauseSignal:
	default: // the remembered era may be the reason of the failure, so it is forgotten
		s.dialer.era.Store(s.dialer.spec.Era)
	}
	s.Abort(cause)
	return s.Cause()
}

// negotiate starts the server and agrees with it on a protocol version. If the first
// attempt fails because the wrong era was tried, it starts a second process and tries
// the other era.
func (s *session) negotiate(ctx context.Context) error {
	spec := s.dialer.spec
	era, _ := s.dialer.era.Load().(mcpvisor.Era)
	if take := s.dialer.opts.TakeLegacy; take != nil && take() {
		era = mcpvisor.EraLegacy
	}
	discoverTimeout := spec.Timeouts.Negotiate
	switch {
	case spec.Era == mcpvisor.EraModern:
		discoverTimeout = 0
	case era == mcpvisor.EraModern && discoverTimeout > 0:
		discoverTimeout = max(discoverTimeout, halfOfRemaining(ctx))
	}
	result, err := s.startProcess(ctx, era, discoverTimeout)
	if err != nil {
		p := s.currentConn()
		other, retry := s.eraToRetry(ctx, p, era, err)
		if !retry {
			return s.explainFailure(ctx, err)
		}
		p.conn.end(&supervisor.Cause{Kind: supervisor.CauseHandshake, Message: "negotiation starts again"})
		select { // two processes of one server could contend for a lock or a port
		case <-p.lifetime.Released():
			s.lifetime.RecordLeft(p.lifetime.Left())
		case <-ctx.Done():
			return s.explainFailure(ctx, ctx.Err())
		}
		if result, err = s.startProcess(ctx, other, 0); err != nil {
			return s.explainFailure(ctx, err)
		}
	}
	return s.completeOpen(result)
}

// eraToRetry decides whether a failed negotiation is repeated with a second process,
// and in which era. p is the process that failed; nil if none was started.
func (s *session) eraToRetry(ctx context.Context, p *processConn, era mcpvisor.Era, err error) (other mcpvisor.Era, retry bool) {
	switch {
	case p == nil || ctx.Err() != nil || s.dialer.spec.Era != mcpvisor.EraAuto || s.Cause() != nil:
		return "", false
	case p.handshake.isUnanswered() && p.lifetime.Cause() != nil:
		// The server exited on server/discover, perhaps when the wait for its answer was
		// over. One that was modern before has probably crashed, so it does not become a
		// legacy server at once.
		if era == mcpvisor.EraModern && s.dialer.probeExits.Add(1) <= maxProbeExits {
			return "", false
		}
		return mcpvisor.EraLegacy, true
	case p.handshake.awaitLateAnswer():
		return mcpvisor.EraModern, true
	case p.handshake.state() != probeNone && refusesInitialize(err):
		// supergateway takes server/discover for the first message of the handshake,
		// and refuses the initialize that follows.
		return mcpvisor.EraLegacy, true
	}
	return "", false
}

// halfOfRemaining returns half of the time until the deadline of ctx. A server that was
// modern before has this long to answer server/discover. The other half is for the
// legacy handshake, if the server has changed its era.
func halfOfRemaining(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) / 2
	}
	return defaults.StartTimeout / 2
}

// refusesInitialize reports whether a handshake ended with an error of the server
// that is about neither the version nor the method.
func refusesInitialize(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Code != jsonrpc.CodeUnsupportedVersion && rpc.Code != sdkrpc.CodeMethodNotFound && !jsonrpc.IsUnsupportedVersion(err)
}

// startProcess starts a process and performs the handshake of one era with it.
func (s *session) startProcess(ctx context.Context, era mcpvisor.Era, discoverTimeout time.Duration) (*mcp.InitializeResult, error) {
	if aborted := s.beginSpawn(); aborted != nil {
		return nil, aborted
	}
	p, cause := s.spawnConn(ctx)
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
		case <-p.lifetime.Dead():
			cancel()
		case <-stop:
		}
	}()
	return p.connect(ctx, s.dialer.opts.ClientInfo, version, discoverTimeout)
}

// explainFailure returns the best cause of a failed start. The end of the process, if
// it ended, explains more than the error that its end caused.
func (s *session) explainFailure(ctx context.Context, err error) error {
	if c := s.Cause(); c != nil {
		return c
	}
	p := s.currentConn()
	if p == nil { // no process was started; the message may quote a command line
		c := jsonrpc.OpenCause(ctx, err, nil)
		c.Message, c.Err = s.dialer.redactor.Text(c.Message), s.dialer.redactor.Error(c.Err)
		return c
	}
	if p.lifetime.Cause() == nil && ctx.Err() == nil {
		select {
		case <-p.lifetime.Dead():
		case <-time.After(2 * evidenceTimeout):
		}
	}
	c := jsonrpc.OpenCause(ctx, err, p.lifetime.Cause())
	if c.Kind == supervisor.CauseExit || c.Kind == supervisor.CauseSignal {
		c.Message = p.proc.ExitCause().Message // without the line of stderr that counts of a server that was ready
	}
	if stdio := s.dialer.spec.Stdio; stdio != nil && c.Kind == supervisor.CauseTimeout && process.IsAlone(p.proc.PID()) {
		if runner := display.PackageRunner(stdio.Command, stdio.Args); runner != "" {
			c.Message = runner + " has not started the server in time: it is still installing; raise Timeouts.Start if that is slow"
		}
	}
	c = jsonrpc.ExplainCause(c, p.conn.remarks.Explain(p.conn.redactor), inbound.IsEcho(c.Err))
	c.Message, c.Err = s.dialer.redactor.Text(c.Message), s.dialer.redactor.Error(c.Err)
	if c.Kind == supervisor.CauseVersion && s.dialer.spec.Era == mcpvisor.EraAuto && p.handshake.state() != probeAnswered {
		c.Permanent = false // the server may speak the modern era: it did not answer server/discover
	}
	if len(c.Stderr) == 0 {
		c.Stderr = p.proc.ExitCause().Stderr
	}
	return decisive.Lead(c, true)
}

// completeOpen records the result of the negotiation, opens the session for requests,
// and makes the session end with its process.
func (s *session) completeOpen(result *mcp.InitializeResult) error {
	spec := s.dialer.spec
	modern := jsonrpc.IsModern(result.ProtocolVersion)
	if spec.Era == mcpvisor.EraModern && !modern {
		return &supervisor.Cause{Kind: supervisor.CauseVersion, Permanent: true,
			Message: "server speaks " + result.ProtocolVersion + " only, and the era is fixed to modern; leave Era empty"}
	}
	meta, err := jsonrpc.RequestMeta(result.ProtocolVersion, s.dialer.opts.ClientInfo, &s.dialer.opts.Handlers)
	if err != nil {
		return err
	}
	p := s.currentConn()
	info := jsonrpc.NewSessionInfo(result, s.dialer.redactor)
	info.PID = p.proc.PID()
	info.BothEras = modern && p.speaksLegacy
	s.mu.Lock()
	s.info = info
	s.mu.Unlock()
	if spec.Era == mcpvisor.EraAuto {
		s.dialer.era.Store(info.Era)
		if !modern {
			// The next session then tries the modern era first.
			p.handshake.onLateResult(func() { s.dialer.era.Store(mcpvisor.EraModern) })
		}
	}
	s.dialer.probeExits.Store(0)
	s.open.Store(s.newOpenState(p, meta))
	p.lifetime.PropagateTo(s.lifetime)
	unfollow := p.followRootChanges(modern)
	p.lifetime.OnReleased(func() {
		unfollow()
		s.lifetime.RecordLeft(p.lifetime.Left())
		s.lifetime.Release()
	})
	if c := s.Cause(); c != nil { // Abort was called during the negotiation
		return c
	}
	return nil
}
