// Package bridge connects a host on a pair of streams, such as the stdin and stdout of
// `mcpvisor stdio`, with the MCP sessions of another process, which may end and be started
// again. The host has one session that outlives those of the process.
//
// While there is no connection, requests wait for the next one; maxKept and maxKeptBytes bound
// them. When a connection ends, the bridge opens another one and repeats what the host has set up
// (initialize, the level of log messages, subscriptions). Then it continues the requests of the
// host:
//
//   - A request that was not sent, not even in part, is sent.
//   - A request that only reads, such as tools/list or resources/read, is sent again, three times at most.
//   - A tool call that was sent is never repeated. It gets a result with isError, which says that
//     the tool may have run.
//   - Any other request gets a JSON-RPC error that says so.
//
// A process that is about to end sends [DrainMethod]. It gets no further requests, and the bridge closes the connection
// when it has answered those that it has: nothing that it has not read counts as sent.
//
// The host is told that a list has changed only if the list that it has read last differs from
// the one of the new process.
package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/envelope"
	"github.com/mcpvisor/mcpvisor/internal/linereader"
)

// Options configure [Run].
type Options struct {
	// Dial opens a connection to the process that serves. It may start that process. An error
	// is the answer to the requests that wait, and Dial is called again after a pause.
	Dial func(context.Context) (io.ReadWriteCloser, error)
	// Log writes a line for the user about what happens to connections. It must not be nil.
	Log func(format string, args ...any)
	// HoldFor is how long a request waits for a connection after one has ended. Default 45 s: a process may wait 20 s
	// for its servers, after another one has waited 30 s for calls in flight.
	// Requests wait for the first connection as long as Dial takes.
	HoldFor time.Duration
}

// DrainMethod is a notification of a process that is about to end.
const DrainMethod = "notifications/mcpvisor/draining"

const (
	defaultHoldFor = 45 * time.Second
	// maxHostLine bounds one message of the host: mcpvisor run accepts no longer ones. maxLinkLine bounds
	// one message of a connection: it is the longest message that a server may be allowed
	// (mcpvisor.Limits.MaxMessageBytes), and what a gateway adds. A longer one ends the connection, and
	// would do so again whenever its request is repeated.
	maxHostLine = 16 << 20
	maxLinkLine = 1<<30 + 1<<20
	// endTimeout bounds how long the last messages of a host that has ended may wait to be passed on.
	endTimeout = time.Second
	// closeTimeout bounds the wait, at the end of the bridge, for a host that does not read. The sum of
	// endTimeout and closeTimeout is well below 5 seconds: within that time mcpvisor stdio must end after
	// its stdin.
	closeTimeout = 2 * time.Second
	// maxKept and maxKeptBytes bound the requests that are kept, because they wait for a connection or
	// may be sent again. Beyond that, requests that would wait are refused, and others are not sent again.
	maxKept      = 1 << 10
	maxKeptBytes = 16 << 20
	// maxRepeats bounds how many times a request is sent again, except one that lasts: the request may be the
	// reason why the process ends.
	maxRepeats = 3
)

// dialPause is the wait between attempts to connect.
var dialPause = backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}

// Run passes messages between a host and the processes that opts.Dial connects to, until in ends, out
// fails or ctx ends. It returns nil when in has ended; then requests in flight get no answer. A read of
// in or a write to out that does not return keeps a goroutine. Such a write delays the return by 3
// seconds at most.
func Run(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if opts.HoldFor <= 0 {
		opts.HoldFor = defaultHoldFor
	}
	b := &bridge{opts: opts, end: cancel, out: out, requests: map[string]*request{}, asked: map[string]question{},
		subscriptions: map[string][]byte{}, lists: map[string]*list{}}
	var wg sync.WaitGroup
	wg.Go(func() { b.connect(ctx) })
	lines := linereader.New(in, maxHostLine).Ahead(b.refuseAll)
	defer lines.Close()
	go func() { cancel(b.readHost(lines)) }()
	go func() {
		select {
		case <-lines.Ended():
			if backoff.Sleep(ctx, endTimeout) == nil { // the last messages of the host cannot be passed on
				cancel(io.EOF)
			}
		case <-ctx.Done():
		}
	}()
	<-ctx.Done()
	b.close()
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout): // a write to out blocks
	}
	if cause := context.Cause(ctx); !errors.Is(cause, io.EOF) {
		return cause
	}
	return nil
}

// bridge is one session of the host. One goroutine handles the lines of the host; another one makes
// connections and handles their lines.
type bridge struct {
	opts Options
	end  context.CancelCauseFunc

	outMu sync.Mutex // locked while a message is written to out
	out   io.Writer

	mu      sync.Mutex // guards the fields below; not locked while a message is written
	current *link      // the connection, once it is set up; nil without one, and while it drains
	pending *link      // the connection that is being set up; nil without one
	closed  bool
	links   int // number of connections so far

	requests  map[string]*request // unanswered ones of the host and of the bridge, by key of their id
	seq       uint64              // number of the last request
	kept      int                 // number of requests whose line is kept
	keptBytes int                 // of these lines

	asked map[string]question // unanswered ones, by key of the id that the host was given
	next  uint64              // number of the last id that the bridge has made

	// What the host has set up: the lines of its messages.
	initialize, initialized []byte
	level                   []byte            // the last one that was accepted
	established             bool              // initialize was answered
	subscriptions           map[string][]byte // the accepted ones, by URI
	subscriptionBytes       int               // of their lines
	lists                   map[string]*list  // by method
}

// request is a request of the host, or one of the bridge. bridge.mu guards its fields.
type request struct {
	message
	seq          uint64
	kept         bool                 // its line is kept, and counted
	link         *link                // is to answer it; nil while it waits for a connection
	written      bool                 // some of it may have been read from link
	repeats      int                  // how many earlier connections may have read it
	acknowledged bool                 // the host has the acknowledgement of its subscriptions/listen
	expiry       *time.Timer          // runs while it waits; nil if it waits without a bound
	own          func(answer message) // gets the answer to a request of the bridge; nil for those of the host
}

// question is a request of a connection to the host.
type question struct {
	link  *link
	id    []byte // the id that the connection has given it
	given []byte // the id that the host knows
}

type link struct {
	io.ReadWriteCloser
	number int

	initialized bool // setUp has sent notifications/initialized; owned by the goroutine of connect
	answered    bool // the host got an answer of it; owned by the goroutine of connect
	draining    bool // gets no further requests; set by the goroutine of connect, with bridge.mu

	mu    sync.Mutex // locked while a message is written
	ended bool       // no further messages are written; guarded by mu
}

// write writes one line. sent says that some of it may have been read. An error ends the connection.
func (l *link) write(line []byte) (sent bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false, io.ErrClosedPipe
	}
	n, err := l.Write(line)
	if err != nil {
		_ = l.Close() // then serve calls lose
	}
	return n > 0, err
}

// readHost handles the messages of the host until in ends.
func (b *bridge) readHost(lines *linereader.Ahead) error {
	for {
		line, err := lines.Next(context.Background())
		switch {
		case errors.Is(err, linereader.ErrTooLong):
			b.refuse(nil, codeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", maxHostLine))
			continue
		case err != nil:
			return err
		}
		messages, refusals := parse(line)
		b.refuseEach(refusals)
		for _, m := range messages {
			b.fromHost(m)
		}
	}
}

// refuseAll refuses the requests of a line for which there is no room, because mcpvisor run does not read.
func (b *bridge) refuseAll(line []byte) {
	messages, refusals := parse(line)
	b.refuseEach(refusals)
	for _, m := range messages {
		if m.method != "" && m.id != nil {
			b.giveUp(&request{message: m}, errTooMany, false)
		}
	}
}

func (b *bridge) fromHost(m message) {
	switch {
	case m.method == "":
		b.answerQuestion(m)
	case m.id != nil:
		b.admit(m)
	default:
		b.notify(m)
	}
}

// admit accepts a request of the host, and sends it if there is a connection.
func (b *bridge) admit(m message) {
	r := &request{message: m}
	b.mu.Lock()
	switch {
	case b.requests[m.key] != nil:
		b.mu.Unlock()
		b.refuse(m.id, codeInvalidRequest, "a request with this id is in flight")
		return
	case b.current == nil && b.fullLocked(r):
		b.mu.Unlock()
		b.giveUp(r, errTooMany, false)
		return
	}
	b.noteLocked(m)
	b.addLocked(r)
	if r.link = b.current; r.link == nil && b.links > 0 {
		b.expireLocked(r)
	}
	l := r.link
	b.mu.Unlock()
	if l != nil {
		b.send(l, r)
	}
}

var errTooMany = errors.New("too many requests wait for mcpvisor run")

// fullLocked reports whether there is no room to keep the line of a request.
func (b *bridge) fullLocked(r *request) bool {
	return b.kept >= maxKept || b.keptBytes+len(r.line) > maxKeptBytes
}

func (b *bridge) addLocked(r *request) {
	b.seq++
	r.seq, r.kept, r.key = b.seq, true, envelope.Key(r.id)
	b.kept++
	b.keptBytes += len(r.line)
	b.requests[r.key] = r
}

// dropLineLocked frees the line of a request that is not sent again. It keeps what the answer needs.
func (b *bridge) dropLineLocked(r *request) {
	if !r.kept {
		return
	}
	r.kept = false
	b.kept--
	b.keptBytes -= len(r.line)
	r.modern = isModern(r.params)
	r.id, r.line, r.params = bytes.Clone(r.id), nil, nil
}

// takeLocked removes a request that has an answer, or gets none.
func (b *bridge) takeLocked(key string) *request {
	r := b.requests[key]
	if r == nil {
		return nil
	}
	delete(b.requests, key)
	if r.kept { // a later dropLineLocked must not count it again
		r.kept = false
		b.kept--
		b.keptBytes -= len(r.line)
	}
	if r.expiry != nil {
		r.expiry.Stop()
	}
	return r
}

// expireLocked bounds how long a request waits for a connection.
func (b *bridge) expireLocked(r *request) {
	if r.method == "initialize" || r.method == "subscriptions/listen" { // they wait as long as the session lasts
		return
	}
	r.expiry = time.AfterFunc(b.opts.HoldFor, func() {
		b.mu.Lock()
		waits := b.requests[r.key] == r && r.link == nil
		if waits {
			b.takeLocked(r.key)
		}
		why := "mcpvisor run has not come back"
		if b.pending != nil {
			why = "mcpvisor run is back, and its servers have not started"
		}
		b.mu.Unlock()
		if waits {
			b.giveUp(r, fmt.Errorf("%s within %v", why, b.opts.HoldFor), r.repeats > 0)
		}
	})
}

// send writes a request to a connection. If the connection has ended, lose has handled the request, or will.
func (b *bridge) send(l *link, r *request) {
	b.mu.Lock()
	if r.link != l || b.requests[r.key] != r { // it was canceled or lost while others were sent
		b.mu.Unlock()
		return
	}
	r.written = true
	line := r.line
	b.mu.Unlock()
	sent, err := l.write(line)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.link != l:
	case err != nil:
		r.written = sent
	case !repeatable(r.method) || b.kept > maxKept || b.keptBytes > maxKeptBytes:
		b.dropLineLocked(r)
	}
}

// notify passes a notification of the host on, if there is a connection.
func (b *bridge) notify(m message) {
	b.mu.Lock()
	b.noteLocked(m)
	l := b.current
	if m.method == "notifications/cancelled" {
		if key := canceledKey(m.params); key != "" {
			if r := b.takeLocked(key); r != nil {
				l = r.link // no other connection knows it
			}
		}
	}
	b.mu.Unlock()
	if l != nil {
		_, _ = l.write(m.line) // a notification may be lost
		b.closeDrained(l)
	}
}

// answerQuestion passes an answer of the host on to the connection that has asked the question.
func (b *bridge) answerQuestion(m message) {
	b.mu.Lock()
	q, ok := b.asked[m.key]
	delete(b.asked, m.key)
	b.mu.Unlock()
	if ok {
		_, _ = q.link.write(m.withID(q.id)) // a connection that has ended has no use for it
	}
}

// connect keeps a connection until ctx ends. A dial may start mcpvisor run with all its servers, so one that ends
// soon, before it was of use to the host, is followed by a pause: the host's request may be what ends it.
func (b *bridge) connect(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		rw, err := b.opts.Dial(ctx)
		if err == nil {
			began := time.Now()
			var useful bool
			useful, err = b.serve(ctx, rw)
			if useful || time.Since(began) > dialPause.Max {
				pause = 0
			}
			if useful && err == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.opts.Log("%v", err)
			b.failWaiting(err)
		}
		pause = dialPause.Next(pause)
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// failWaiting answers the waiting requests with an error, because there is no process to send them to.
func (b *bridge) failWaiting(err error) {
	b.mu.Lock()
	var all []*request
	for key, r := range b.requests {
		if r.link == nil {
			all = append(all, b.takeLocked(key))
		}
	}
	b.mu.Unlock()
	slices.SortFunc(all, bySeq)
	for _, r := range all {
		b.giveUp(r, err, r.repeats > 0)
	}
}

func bySeq(a, b *request) int { return cmp.Compare(a.seq, b.seq) }

// serve sets a connection up and reads it until it ends. It returns an error if the set-up
// failed, and whether the connection was of use: the host got an answer of it, or mcpvisor run ended as it had said.
func (b *bridge) serve(ctx context.Context, rw io.ReadWriteCloser) (useful bool, err error) {
	b.mu.Lock()
	b.links++
	l := &link{ReadWriteCloser: rw, number: b.links}
	b.pending = l
	b.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer b.lose(l)
	lines := linereader.New(l, maxLinkLine)
	refused, err := b.setUp(l, lines)
	switch {
	case err != nil && l.draining:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("mcpvisor run has ended while the session was set up: %w", err)
	}
	if l.number > 1 {
		b.opts.Log("connected again")
	}
	var flushed sync.WaitGroup
	defer flushed.Wait()
	defer func() { _ = l.Close() }()
	flushed.Go(func() { b.flush(l) }) // while answers are read
	untilEnd, end := context.WithCancel(ctx)
	defer end()
	flushed.Go(func() { b.subscribeAgain(untilEnd, l, refused) })
	for {
		line, err := lines.Next()
		if err != nil {
			break
		}
		messages, refusals := parse(line)
		if len(refusals) > 0 {
			b.opts.Log("mcpvisor run has sent a line that is not a JSON-RPC message: %v", refusals[0].why)
			break
		}
		for _, m := range messages {
			b.fromLink(l, m)
		}
	}
	if ctx.Err() == nil {
		b.opts.Log("the connection to mcpvisor run has ended; connecting again")
	}
	return l.draining || l.answered, nil
}

// fromLink handles one message of a connection.
func (b *bridge) fromLink(l *link, m message) {
	switch {
	case m.method == "":
		b.mu.Lock()
		r := b.requests[m.key]
		if r == nil || r.link != l {
			b.mu.Unlock()
			return // it was canceled
		}
		b.takeLocked(m.key)
		if r.own == nil {
			b.noteAnswerLocked(r, m)
		}
		b.mu.Unlock()
		if r.own != nil {
			r.own(m)
			return
		}
		l.answered = true
		b.write(m.line)
		b.closeDrained(l)
	case m.id != nil:
		b.mu.Lock()
		id := b.nextIDLocked()
		b.asked[envelope.Key(id)] = question{l, m.id, id}
		b.mu.Unlock()
		b.write(m.withID(id))
	case m.method == "notifications/subscriptions/acknowledged" && b.isRepeatedListen(m):
		b.tellListenUpdated(m.params)
	case m.method == "notifications/cancelled":
		b.cancelQuestion(l, m)
	case m.method == DrainMethod:
		b.mu.Lock()
		l.draining = true
		if b.current == l {
			b.current = nil
		}
		b.mu.Unlock()
		b.closeDrained(l)
	default:
		b.write(m.line)
	}
}

// closeDrained closes a connection that drains and has answered what cannot be sent again.
func (b *bridge) closeDrained(l *link) {
	b.mu.Lock()
	drained := l.draining
	for _, r := range b.requests {
		drained = drained && (r.link != l || r.own != nil || r.kept && lasts(r.method))
	}
	b.mu.Unlock()
	if drained {
		_ = l.Close()
	}
}

// cancelQuestion tells the host that a connection has canceled a question, by the id that the host knows.
func (b *bridge) cancelQuestion(l *link, m message) {
	canceled := canceledKey(m.params)
	if canceled == "" {
		return
	}
	var id []byte
	b.mu.Lock()
	for key, q := range b.asked {
		if q.link == l && envelope.Key(q.id) == canceled {
			id = q.given
			delete(b.asked, key)
			break
		}
	}
	b.mu.Unlock()
	if id != nil {
		b.write(cancelLine(id, "mcpvisor has canceled the request"))
	}
}

// lose handles the requests and questions of a connection that has ended.
func (b *bridge) lose(l *link) {
	_ = l.Close() // what is being written fails
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	b.mu.Lock()
	if b.current == l {
		b.current = nil
	}
	b.pending = nil
	var lost []*request
	for key, r := range b.requests {
		switch {
		case r.link != l:
		case r.own != nil:
			b.takeLocked(key)
		case r.kept && (!r.written || repeatable(r.method) && (r.repeats < maxRepeats || lasts(r.method))):
			if r.written {
				r.repeats++
			}
			r.link, r.written = nil, false
			b.expireLocked(r)
		default:
			lost = append(lost, b.takeLocked(key))
		}
	}
	var questions [][]byte
	for key, q := range b.asked {
		if q.link == l {
			questions = append(questions, q.given)
			delete(b.asked, key)
		}
	}
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return
	}
	slices.SortFunc(lost, bySeq)
	for _, r := range lost {
		b.giveUp(r, errEndedDuring, true)
	}
	for _, id := range questions {
		b.write(cancelLine(id, "mcpvisor run has ended"))
	}
}

var errEndedDuring = errors.New("mcpvisor run ended during the request")

// close ends the bridge. No further request gets an answer.
func (b *bridge) close() {
	b.mu.Lock()
	b.closed = true
	for key := range b.requests {
		b.takeLocked(key)
	}
	l := b.current
	b.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}

// write writes a line to the host. If it cannot, the bridge ends.
func (b *bridge) write(line []byte) {
	b.outMu.Lock()
	defer b.outMu.Unlock()
	if _, err := b.out.Write(line); err != nil {
		b.end(fmt.Errorf("write to the host: %w", err))
	}
}
