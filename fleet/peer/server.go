package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Defaults of the configurations.
const (
	defaultRoom     = 32 << 20
	defaultCalls    = 2048
	defaultCall     = 64 << 20
	defaultResult   = 256 << 20
	streamsPerLink  = 4
	silenceLimit    = 10 * time.Second
	helloTimeout    = 5 * time.Second
	maxHelloBytes   = 4 << 10
	maxReportsAhead = 64 // progress and log messages that wait to be sent, for each call
)

// ServerConfig configures a [Server].
type ServerConfig struct {
	// Identity is that of this node. Required.
	Identity Identity
	// Local executes the calls: the facade.Client of this node. Required.
	Local Caller
	// Check returns nil if this node may execute a call of a server that was placed with this
	// epoch, and otherwise ErrMoved or ErrLeaseOver. It is called when a call or request arrives,
	// by the goroutine that makes it, and each second for each stream of notices. Required.
	Check func(server string, epoch uint64) error
	// Catalog returns the encoded catalog of a server by its digest. The bytes must not change
	// afterwards. An error refuses the request. Default: [ErrUnsupported].
	Catalog func(server, digest string) ([]byte, error)
	// Request executes a request that is not a call. Default: [ErrUnsupported].
	Request func(ctx context.Context, r Request) (json.RawMessage, error)
	// Notices calls opened, and then notify with each notice of the server. It returns when ctx
	// ends, or earlier with an error. Neither function blocks. Default: [ErrUnsupported].
	Notices func(ctx context.Context, r Request, opened func(), notify func(transport.Notice)) error
	// RoomBytes bounds the long calls (more than 32 KiB) that are received from one peer at a
	// time, in bytes. A quarter of it is for each stream; a single call may exceed that. Default
	// 32 MiB.
	RoomBytes int
	// MaxCalls bounds the calls of one peer that are executed at a time; a quarter of it is for
	// each of its streams. Further ones fail with ErrOverloaded. Default 2,048.
	MaxCalls int
	// MaxCallBytes bounds a call with its arguments. Default 64 MiB.
	MaxCallBytes int
}

func (c *ServerConfig) withDefaults() ServerConfig {
	d := *c
	d.RoomBytes, d.MaxCalls, d.MaxCallBytes = cmp.Or(d.RoomBytes, defaultRoom), cmp.Or(d.MaxCalls, defaultCalls), cmp.Or(d.MaxCallBytes, defaultCall)
	return d
}

// Server executes the calls of other nodes. Safe for concurrent use.
type Server struct {
	config ServerConfig
	node   string
	grpc   *grpc.Server

	running sync.WaitGroup // the loops of the streams, and the calls

	mu      sync.Mutex
	streams map[*serverStream]bool // whose clients were greeted; guarded by mu
	leaving bool                   // guarded by mu; see Shutdown
}

// NewServer makes a server, which [Server.Serve] starts.
func NewServer(config ServerConfig) (*Server, error) {
	node, err := config.Identity.Node()
	if err != nil {
		return nil, err
	}
	if config.Local == nil || config.Check == nil {
		return nil, errors.New("peer: a server needs Local and Check")
	}
	s := &Server{config: config.withDefaults(), node: node, streams: map[*serverStream]bool{}}
	s.grpc = grpc.NewServer(append(framing.ServerOptions(streamsPerLink),
		grpc.Creds(credentials.NewTLS(config.Identity.serverTLS())),
		grpc.MaxConcurrentStreams(2*streamsPerLink),
		grpc.ConnectionTimeout(helloTimeout))...)
	framing.Register(s.grpc, s.serveStream)
	return s, nil
}

// Serve accepts connections until Close, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(l)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Close closes all connections, and ends the contexts of the calls of other nodes. It returns when
// these calls have ended.
func (s *Server) Close() {
	s.grpc.Stop()
	s.running.Wait()
}

// nodeOf returns the id of the node at the other end of a stream.
func nodeOf(ctx context.Context) (string, error) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return "", errors.New("the connection has no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return "", errors.New("the connection has no certificate")
	}
	return certs.NodeOf(info.State.PeerCertificates[0])
}

// serverStream is one stream of another node.
type serverStream struct {
	*framing.Stream
	server *Server
	node   string
	hello  chan hello
	beats  atomic.Bool // an answer to a beat is queued

	mu        sync.Mutex
	calls     map[uint64]*served    // by number, until they have returned
	held      int                   // calls that count for MaxCalls: until their answers are sent
	refusals  int                   // answers to refused calls, until they are sent
	answerers map[uint64]*answerer  // by number
	questions map[uint64]chan reply // by number
	lastAsked uint64
	greeted   bool
	lastCall  bool                     // the client makes no further calls
	notices   map[uint64]*noticeStream // by number of their call
	over      bool                     // the stream has ended; no further calls begin
	deadlines *time.Timer              // fires at due
	due       time.Time                // not after the first deadline of the calls; zero: none has a deadline

	noticeBytes atomic.Int64 // of notices that wait to be sent
}

// served is a call that is being executed, with all that it needs.
type served struct {
	callContext
	call
	number  uint64
	stream  *serverStream
	room    relay.ResultRoom // the room of the result in the buffers of the facade
	reports reports
	answer  framing.Message
}

func (s *Server) serveStream(grpc grpc.ServerStream) error {
	node, err := nodeOf(grpc.Context())
	if err != nil {
		return err
	}
	t := &serverStream{server: s, node: node, hello: make(chan hello, 1),
		calls: map[uint64]*served{}, answerers: map[uint64]*answerer{}, questions: map[uint64]chan reply{}, notices: map[uint64]*noticeStream{}}
	t.Stream = framing.New(grpc, framing.Config{RoomBytes: s.config.RoomBytes / streamsPerLink, Accept: t.onAccept, Deliver: t.onDeliver})
	t.Start(&s.running) // the goroutines end after this function: the stream of gRPC ends with it
	t.run()
	t.endCalls()
	return t.Err()
}

// endCalls ends the contexts of all calls when the stream has ended, and lets none begin.
func (s *serverStream) endCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.deadlines != nil {
		s.deadlines.Stop()
	}
	for _, e := range s.calls {
		e.end(context.Canceled)
	}
}

// watchDeadlineLocked makes sure that a call ends at its deadline.
func (s *serverStream) watchDeadlineLocked(until time.Time) {
	switch {
	case until.IsZero(), !s.due.IsZero() && !until.Before(s.due):
		return
	case s.deadlines == nil:
		s.deadlines = time.AfterFunc(time.Until(until), s.endOverdue)
	default:
		s.deadlines.Reset(time.Until(until))
	}
	s.due = until
}

// endOverdue ends the contexts of the calls whose deadlines have passed.
func (s *serverStream) endOverdue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	now, next := time.Now(), time.Time{}
	for _, e := range s.calls {
		switch {
		case e.until.IsZero():
		case !e.until.After(now):
			e.end(context.DeadlineExceeded)
		case next.IsZero() || e.until.Before(next):
			next = e.until
		}
	}
	s.due = time.Time{}
	s.watchDeadlineLocked(next)
}

// run greets the client and watches it, until the stream ends.
func (s *serverStream) run() {
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case h := <-s.hello:
		if h.Node != s.node || h.Version < version-1 || h.Version < 1 {
			s.End(fmt.Errorf("node %q says that it is node %q, with version %d of the protocol; this node speaks %d and %d", s.node, h.Node, h.Version, version, version-1))
			return
		}
	case <-timer.C:
		s.End(errors.New("the client does not say who it is"))
		return
	case <-s.Ended():
		return
	}
	b, err := json.Marshal(hello{Version: version, Node: s.server.node})
	if err != nil {
		s.End(err)
		return
	}
	s.Send(messageWelcome, 0, b)
	s.server.join(s)
	defer s.server.leave(s)
	for tick := time.NewTicker(beatInterval); ; {
		select {
		case <-tick.C:
			if s.Silence() > silenceLimit {
				s.End(errSilent)
			}
			s.checkNotices()
		case <-s.Ended():
			tick.Stop()
			return
		}
	}
}

// errSilent is the error of a link that is closed because nothing comes on it.
var errSilent = fmt.Errorf("nothing has come from the peer for %v", silenceLimit)

func (s *serverStream) onAccept(what byte, number, total uint64) (framing.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.greeted != (what != messageHello) {
		return framing.Ignore, fmt.Errorf("a message of kind %d at a time when none may come", what)
	}
	switch what {
	case messageHello:
		s.greeted = true
		return framing.Keep, tooLong(what, total, maxHelloBytes)
	case messageCall:
		switch {
		case s.lastCall:
			return framing.Ignore, errors.New("a call after the last one")
		case s.calls[number] != nil:
			return framing.Ignore, fmt.Errorf("call %d is made twice", number)
		case total > uint64(s.server.config.MaxCallBytes):
			return framing.Ignore, s.refuseLocked(number, &mcpvisor.Error{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
				Cause: fmt.Errorf("the call has %d bytes, and the node accepts %d", total, s.server.config.MaxCallBytes)})
		case s.held >= s.server.config.MaxCalls/streamsPerLink:
			return framing.Ignore, s.refuseLocked(number, &mcpvisor.Error{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent,
				RetryAfter: refusedRetryAfter, Cause: errors.New("the node executes as many calls of this node as it may")})
		}
		if s.Incoming() >= s.server.config.MaxCalls/streamsPerLink {
			return framing.Ignore, errors.New("too many calls begin and do not come")
		}
		return framing.Keep, nil
	case messageCancel, messageBeat, messageLastCall:
		return framing.Keep, tooLong(what, total, 16)
	case messageAnswer:
		return framing.Keep, tooLong(what, total, uint64(s.server.config.MaxCallBytes))
	}
	return framing.Ignore, nil // of a later version
}

// refuseLocked answers a call that is not kept.
func (s *serverStream) refuseLocked(number uint64, e *mcpvisor.Error) error {
	if s.refusals >= s.server.config.MaxCalls {
		return errors.New("it makes calls that are refused, and reads no answer")
	}
	s.refusals++
	s.Add(&framing.Message{What: messageFailure, Call: number, Body: encodeFailure(e), Done: func() {
		s.mu.Lock()
		s.refusals--
		s.endIfAnsweredLocked()
		s.mu.Unlock()
	}})
	return nil
}

func (s *serverStream) onDeliver(what byte, number uint64, body []byte, held *framing.Place) error {
	held.Release()
	switch what {
	case messageHello:
		var h hello
		if err := json.Unmarshal(body, &h); err != nil {
			return err
		}
		s.hello <- h
	case messageBeat:
		if s.beats.CompareAndSwap(false, true) { // one answer waits at a time, however many beats come
			s.Add(&framing.Message{What: messageBeatBack, Done: func() { s.beats.Store(false) }})
		}
	case messageCall:
		return s.begin(number, body)
	case messageCancel:
		s.mu.Lock()
		c := s.calls[number]
		s.mu.Unlock()
		if c != nil {
			c.end(context.Canceled)
		}
	case messageAnswer:
		return s.answered(body)
	case messageLastCall:
		s.mu.Lock()
		s.lastCall = true
		s.endIfAnsweredLocked()
		s.mu.Unlock()
	}
	return nil
}

// begin begins to execute a call, in a goroutine of its own.
func (s *serverStream) begin(number uint64, body []byte) error {
	e := &served{number: number, stream: s}
	err := e.read(body)
	switch {
	case errors.Is(err, errUnknownMethod):
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.refuseLocked(number, refused(e.server, e.epoch, fmt.Errorf("%w: %w", ErrUnsupported, err)))
	case err != nil:
		return err
	}
	if e.left > 0 {
		e.until = time.Now().Add(e.left)
	}
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil
	}
	if s.calls[number] != nil { // two long calls with one number
		s.mu.Unlock()
		return fmt.Errorf("call %d is made twice", number)
	}
	if e.method == methodNotices {
		if len(s.notices) >= maxNoticeStreams/streamsPerLink {
			defer s.mu.Unlock()
			return s.refuseLocked(number, tooManyNotices(&e.call))
		}
		s.notices[number] = &noticeStream{stream: s, number: number, server: e.server, epoch: e.epoch}
	} else {
		s.held++
	}
	s.calls[number] = e
	s.watchDeadlineLocked(e.callContext.until)
	s.mu.Unlock()
	s.server.running.Add(1)
	go s.execute(e)
	return nil
}

// execute executes a call and queues its answer. The call counts for MaxCalls, and its result keeps its room
// in the buffers of the facade, until the answer is sent.
func (s *serverStream) execute(e *served) {
	defer s.server.running.Done()
	defer e.end(context.Canceled)
	e.answer.Call, e.answer.Done = e.number, e.answered
	e.answer.What, e.answer.Body = s.executeSafely(e)
	s.mu.Lock()
	delete(s.calls, e.number)
	delete(s.notices, e.number)
	few := len(s.calls) < fewCalls
	s.mu.Unlock()
	send := s.Add
	if few {
		send = s.SendNow
	}
	if !send(&e.answer) {
		e.answered()
	}
}

// answered is called when the answer is sent.
func (s *served) answered() {
	s.room.Release()
	if s.method != methodNotices {
		s.stream.mu.Lock()
		s.stream.held--
		s.stream.endIfAnsweredLocked()
		s.stream.mu.Unlock()
	}
}

// executeSafely returns the answer to a call. A panic of a handler ends only its own call.
func (s *serverStream) executeSafely(e *served) (what byte, body []byte) {
	c := &e.call
	defer func() {
		if p := recover(); p != nil {
			what, body = messageFailure, encodeFailure(&mcpvisor.Error{Server: c.server, Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown,
				Cause: fmt.Errorf("internal error while the node executed the call: %v", p)})
		}
	}()
	if c.method == methodCatalog {
		return s.server.catalog(c)
	}
	if err := s.server.config.Check(c.server, c.epoch); err != nil {
		return messageFailure, encodeFailure(refused(c.server, c.epoch, err))
	}
	e.client = cmp.Or(c.settings.Principal, s.node)
	e.reports.stream, e.reports.call = s.Stream, e.number
	if c.progress {
		c.settings.Progress = func(p mcpvisor.Progress) { e.reports.send(messageProgress, p) }
	}
	if c.logs {
		c.settings.LogMessages = func(m mcpvisor.LogMessage) { e.reports.send(messageLog, m) }
	}
	if c.refuses {
		c.settings.Handlers = &refusing
	}
	if c.answerer != 0 {
		a, err := s.answererOf(c, e.number)
		if err != nil {
			return messageFailure, encodeFailure(&mcpvisor.Error{Server: c.server, Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent, Cause: err})
		}
		defer s.leave(c.answerer, e.number)
		c.settings.Handlers = a.handlers
	}
	var result json.RawMessage
	var err error
	switch opts := []facade.CallOption{relay.WithSettings(&c.settings), relay.WithResultRoom(&e.room)}; c.method {
	case methodRequest:
		result, err = s.request(&e.callContext, c, opts)
	case methodNotices:
		err = s.sendNotices(&e.callContext, e.number, c)
	default:
		result, err = c.do(&e.callContext, s.server.config.Local, opts)
	}
	switch taken := c.settings.TaskRelay; {
	case err != nil:
		return messageFailure, encodeFailure(err)
	case taken != nil && taken.ID != "":
		return messageTask, encodeTask(taken, result)
	}
	return messageResult, result
}

// reports sends progress and log messages about a call. When the peer does not read, maxReportsAhead of them
// wait, and further ones are dropped.
type reports struct {
	stream *framing.Stream
	call   uint64

	mu    sync.Mutex
	ahead int // reports that wait to be sent; guarded by mu
}

func (r *reports) send(what byte, report any) {
	body, err := json.Marshal(report)
	if err != nil || len(body) > framing.MaxChunk {
		return
	}
	r.mu.Lock()
	full := r.ahead >= maxReportsAhead
	if !full {
		r.ahead++
	}
	r.mu.Unlock()
	if full {
		return
	}
	r.stream.Add(&framing.Message{What: what, Call: r.call, Body: body, Done: func() {
		r.mu.Lock()
		r.ahead--
		r.mu.Unlock()
	}})
}
