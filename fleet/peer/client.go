package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/transport"
)

const (
	beatInterval = time.Second
	// suspectAfter is the silence after which new calls fail at once: three beats, and the time that
	// the answer to the third one may take.
	suspectAfter = 3*beatInterval + beatInterval/4
	// redialFirst and redialMost are the pauses between attempts to connect.
	redialFirst = 50 * time.Millisecond
	redialMost  = 2 * time.Second
)

// ClientConfig configures a [Client].
type ClientConfig struct {
	// Identity is that of this node. Required.
	Identity Identity
	// Node is the id of the other node, and Address its host and port. Required.
	Node    string
	Address string
	// RoomBytes bounds the long results (more than 32 KiB) that are being received, or wait for
	// room in another budget ([Route.Into]), in bytes. A quarter of it is for each stream; a single
	// result may exceed that. Default 32 MiB.
	RoomBytes int
	// MaxResultBytes bounds one result; a call with a longer one fails with ErrProtocol. Default
	// 256 MiB, at most 1 GiB.
	MaxResultBytes int
	// MaxCalls bounds the calls in flight. Further ones fail with ErrOverloaded. Default 2,048.
	MaxCalls int
	// OnChange, if set, is called when the node becomes reachable or unreachable; err says why it is
	// unreachable. One goroutine calls it, and the link waits until it returns.
	OnChange func(reachable bool, err error)
}

// Client makes calls on one other node. It connects in the background, again and again, from
// [NewClient] to [Client.Close]. Safe for concurrent use.
type Client struct {
	config ClientConfig
	node   string // this one
	link   atomic.Pointer[link]
	calls  atomic.Int64 // in flight
	// notices counts the streams of notices. reportBytes counts the reports and notices that have come
	// and that their callers have not handled.
	notices, reportBytes atomic.Int64

	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is left

	mu     sync.Mutex
	reason error // why there is no link; guarded by mu
}

// NewClient makes a client and begins to connect.
func NewClient(config ClientConfig) (*Client, error) {
	node, err := config.Identity.Node()
	if err != nil {
		return nil, err
	}
	if err := certs.CheckNodeID(config.Node); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if config.Address == "" || config.MaxResultBytes > framing.MaxMessage {
		return nil, fmt.Errorf("peer: a client needs an Address, and MaxResultBytes of at most %d", framing.MaxMessage)
	}
	config.RoomBytes, config.MaxResultBytes, config.MaxCalls = cmp.Or(config.RoomBytes, defaultRoom), cmp.Or(config.MaxResultBytes, defaultResult), cmp.Or(config.MaxCalls, defaultCalls)
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{config: config, node: node, cancel: cancel, done: make(chan struct{}), reason: errors.New("not connected yet")}
	go c.run(ctx)
	return c, nil
}

// Close ends the client. Calls in flight fail; those that were sent have an unknown outcome. Close
// returns when the connection and all goroutines have ended.
func (c *Client) Close() {
	c.cancel()
	<-c.done
}

// Reachable returns nil if calls can be made now, and otherwise an error that says why not.
func (c *Client) Reachable() error {
	_, err := c.current()
	return err
}

// WaitReachable waits until calls can be made, or ctx or the client ends.
func (c *Client) WaitReachable(ctx context.Context) error {
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		err := c.Reachable()
		if err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-c.done:
			tick.Stop()
			return errClosed
		}
	}
}

var errClosed = errors.New("the client of the node is closed")

// current returns the link for a new call, or an error that says why no call can be made.
func (c *Client) current() (*link, error) {
	l := c.link.Load()
	if l == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, c.reason
	}
	if l.leaving.Load() {
		return nil, ErrLeaving
	}
	if silence := l.silence(); l.isSuspect(silence) {
		return nil, fmt.Errorf("nothing has come from the node for %v", silence.Round(100*time.Millisecond))
	}
	return l, nil
}

// run keeps a link until ctx ends.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	for pause := redialFirst; ctx.Err() == nil; {
		l, err := c.connect(ctx)
		if err == nil {
			pause = redialFirst
			c.link.Store(l)
			c.notify(true, nil)
			err = l.watch(ctx)
			c.setReason(err)
			c.link.Store(nil)
			l.close(err)
			c.notify(false, err)
		} else {
			c.setReason(err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, redialMost)
	}
	c.setReason(errClosed)
}

func (c *Client) setReason(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reason = err
}

func (c *Client) notify(reachable bool, err error) {
	if c.config.OnChange != nil {
		c.config.OnChange(reachable, err)
	}
}

// link is one connection to the other node, with its streams. It ends as a whole.
type link struct {
	client  *Client
	conn    *grpc.ClientConn
	cancel  context.CancelFunc // of the streams
	streams [streamsPerLink]*clientStream
	loops   sync.WaitGroup
	next    atomic.Uint64 // number of the last call
	version int           // of the protocol, that both ends speak; set by greet
	leaving atomic.Bool   // the node accepts no further calls
	over    atomic.Int32  // number of streams that have ended because of that
	ended   chan struct{} // closed when a stream has failed, or all have ended because the node is leaving
	endOnce sync.Once
	began   time.Time
	third   atomic.Int64 // when the third last beat was sent, since began; 0 before that

	mu           sync.Mutex
	answerers    map[*transport.CallHandlers]*answererRef // of calls in flight
	lastAnswerer uint64
}

// answererRef is the number that stands for the handlers of calls in flight. On the other node, an
// [answerer] has the number. If calls 7 and 9 have the same handlers, a question of the server of call 9
// may come with the number 7. It does not end with call 7, but with the last call that has the handlers.
type answererRef struct {
	id     uint64
	ctx    context.Context // of the questions; ends with the last call
	cancel context.CancelFunc
	calls  int
}

// connect makes a link: the connection, its streams, and the greeting on each.
func (c *Client) connect(ctx context.Context) (*link, error) {
	conn, err := grpc.NewClient("passthrough:///"+c.config.Address, append(framing.DialOptions(streamsPerLink),
		grpc.WithTransportCredentials(credentials.NewTLS(c.config.Identity.clientTLS(c.config.Node))),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: helloTimeout}),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy())...)
	if err != nil {
		return nil, err
	}
	streams, cancel := context.WithCancel(context.Background())
	l := &link{client: c, conn: conn, cancel: cancel, began: time.Now(), ended: make(chan struct{}), answerers: map[*transport.CallHandlers]*answererRef{}}
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	greeting := time.AfterFunc(helloTimeout, cancel)
	defer greeting.Stop()
	for i := range l.streams {
		var s grpc.ClientStream
		if s, err = framing.Open(streams, conn); err != nil {
			break
		}
		l.streams[i] = l.newStream(s)
	}
	if err == nil {
		err = l.greet()
	}
	if err != nil {
		l.close(err)
		return nil, err
	}
	return l, nil
}

// greet says who this node is, on each stream, and waits for the answers.
func (l *link) greet() error {
	b, err := json.Marshal(hello{Version: version, Node: l.client.node})
	if err != nil {
		return err
	}
	for _, s := range l.streams {
		s.Send(messageHello, 0, b)
	}
	l.version = version
	for _, s := range l.streams {
		select {
		case h := <-s.welcome:
			if h.Node != l.client.config.Node || h.Version < 1 || h.Version < version-1 {
				return fmt.Errorf("the node says that it is %q, with version %d of the protocol; this node speaks %d and %d", h.Node, h.Version, version, version-1)
			}
			l.version = min(l.version, h.Version)
		case <-s.Ended():
			return s.Err()
		}
	}
	return nil
}

// watch sends beats until a stream ends, the other node is silent for too long, or ctx ends.
func (l *link) watch(ctx context.Context) error {
	tick := time.NewTicker(beatInterval)
	defer tick.Stop()
	var sent [3]time.Duration
	for {
		sent = [3]time.Duration{sent[1], sent[2], time.Since(l.began)}
		l.third.Store(int64(sent[0]))
		for _, s := range l.streams {
			s.Send(messageBeat, 0, nil)
		}
		select {
		case <-tick.C:
			if silence := l.silence(); silence > silenceLimit && l.isSuspect(silence) {
				return errSilent
			}
		case <-l.ended:
			return l.err()
		case <-ctx.Done():
			return errClosed
		}
	}
}

// err returns why a stream of the link has ended.
func (l *link) err() error {
	for _, s := range l.streams {
		if s != nil {
			select {
			case <-s.Ended():
				if s.isOver() {
					return ErrLeaving
				}
				return s.Err()
			default:
			}
		}
	}
	return errors.New("the link is closed")
}

// silence returns the longest silence of the streams.
func (l *link) silence() (longest time.Duration) {
	for _, s := range l.streams {
		longest = max(longest, s.Silence())
	}
	return longest
}

// isSuspect reports whether the other node causes a silence: it has left three beats unanswered. A process that
// was itself stopped has sent no beats meanwhile, so its silence does not count.
func (l *link) isSuspect(silence time.Duration) bool {
	return silence > suspectAfter && silence > time.Since(l.began)-time.Duration(l.third.Load())
}

// close ends the link and its calls. It waits for the goroutines of the link.
func (l *link) close(err error) {
	for _, s := range l.streams {
		if s != nil {
			s.End(err)
		}
	}
	l.cancel()
	_ = l.conn.Close()
	l.loops.Wait()
}

// clientStream is one stream of a link.
type clientStream struct {
	*framing.Stream
	link    *link
	welcome chan hello
	left    atomic.Bool // the node is leaving

	mu        sync.Mutex
	pending   map[uint64]*pending // by the number of the call
	questions map[uint64]context.CancelFunc
}

func (l *link) newStream(packets framing.Packets) *clientStream {
	s := &clientStream{link: l, welcome: make(chan hello, 1), pending: map[uint64]*pending{}, questions: map[uint64]context.CancelFunc{}}
	s.Stream = framing.New(packets, framing.Config{RoomBytes: l.client.config.RoomBytes / streamsPerLink, Accept: s.onAccept, Deliver: s.onDeliver, OnEnd: func() {
		if !s.isOver() || l.over.Add(1) == streamsPerLink {
			l.endOnce.Do(func() { close(l.ended) })
		}
	}})
	s.Start(&l.loops)
	return s
}

func (s *clientStream) onAccept(what byte, number, total uint64) (framing.Verdict, error) {
	switch what {
	case messageWelcome:
		return framing.Keep, tooLong(what, total, maxHelloBytes)
	case messageBeatBack:
		return framing.Ignore, tooLong(what, total, 16)
	case messageLeaving:
		return framing.Keep, tooLong(what, total, 16)
	case messageResult, messageTask, messageFailure, messageProgress, messageLog, messageNotice, messageQuestion, messageWithdraw:
	default:
		return framing.Ignore, nil // of a later version
	}
	s.mu.Lock()
	p := s.pending[number]
	s.mu.Unlock()
	switch {
	case p == nil && what == messageQuestion && number != 0 && number <= s.link.next.Load():
		return framing.Keep, tooLong(what, total, maxQuestionBytes+maxHelloBytes)
	case what == messageWithdraw: // the call that brought the question may have ended
		return framing.Keep, tooLong(what, total, maxHelloBytes)
	case p == nil:
		if number == 0 || number > s.link.next.Load() {
			return framing.Ignore, fmt.Errorf("a message of kind %d about call %d, which was never made", what, number)
		}
		return framing.Ignore, nil
	case what == messageTask && p.relay == nil, what == messageNotice && p.notices == nil:
		return framing.Ignore, fmt.Errorf("a message of kind %d about call %d, which does not want any", what, number)
	case what == messageResult, what == messageTask:
		if total > uint64(p.maxResult) {
			p.finish(nil, &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered,
				Cause: fmt.Errorf("the result has %d bytes, and %d at most are accepted", total, p.maxResult), Hint: "raise MaxResultBytes"})
			return framing.Ignore, nil
		}
		return framing.Keep, p.begins(what)
	case what == messageFailure:
		if err := tooLong(what, total, maxFailure); err != nil {
			return framing.Ignore, err
		}
		return framing.Keep, p.begins(what)
	case what == messageQuestion:
		return framing.Keep, tooLong(what, total, maxQuestionBytes+maxHelloBytes)
	default:
		return framing.Keep, tooLong(what, total, framing.MaxChunk)
	}
}

func (s *clientStream) onDeliver(what byte, number uint64, body []byte, held *framing.Place) error {
	s.mu.Lock()
	p := s.pending[number]
	s.mu.Unlock()
	if isResult := what == messageResult || what == messageTask; held != nil && (p == nil || !isResult || !p.holds(held)) {
		held.Release()
	}
	if what == messageWelcome {
		var h hello
		if err := json.Unmarshal(body, &h); err != nil {
			return err
		}
		select {
		case s.welcome <- h:
			return nil
		default:
			return errors.New("a second greeting")
		}
	}
	if what == messageLeaving {
		s.leaving()
		return nil
	}
	switch {
	case what == messageQuestion:
		return s.question(p, number, body)
	case what == messageWithdraw:
		s.withdrawn(body)
		return nil
	case p == nil:
		return nil
	}
	switch what {
	case messageResult:
		p.finish(body, nil)
	case messageFailure:
		p.finish(nil, decodeFailure(body))
	case messageTask:
		return p.finishTask(body)
	case messageProgress, messageLog, messageNotice:
		p.report(what, body)
	}
	return nil
}
