// Package bridge connects a host on a pair of streams, such as the stdin and stdout of
// `mcpvisor stdio`, with the MCP sessions of another process, which may end and be started
// again. The host has one session that outlives them all.
//
// While there is no connection, requests wait for the next one. When a connection ends, the
// bridge opens another one, repeats what the host has set up (initialize, the level of log
// messages, subscriptions), and then what it has asked for:
//
//   - A request of which nothing was sent is sent.
//   - A request that only reads, such as tools/list or resources/read, is sent again.
//   - A tool call that was sent is never repeated. It is answered with a result with isError,
//     which says that the tool may have run.
//   - Any other request gets a JSON-RPC error that says so.
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
	// HoldFor is how long a request waits for a connection after one has ended. Default 10 s.
	// The first connection is waited for as long as Dial takes.
	HoldFor time.Duration
}

const (
	defaultHoldFor = 10 * time.Second
	// maxHostLine and maxLinkLine bound one message of the host, which is what mcpvisor run takes, and of a connection.
	maxHostLine = 16 << 20
	maxLinkLine = 64 << 20
	// endTimeout bounds how long the last messages of a host that has ended may wait to be passed on.
	endTimeout = time.Second
	// closeTimeout bounds the wait for a host that does not read what is being written to it when the bridge ends.
	// Together with endTimeout it is well below the 5 seconds within which mcpvisor stdio ends after its stdin.
	closeTimeout = 2 * time.Second
	// maxKept and maxKeptBytes bound the requests that wait for a connection, or that would be
	// sent again. Further ones are refused, or not sent again.
	maxKept      = 1 << 10
	maxKeptBytes = 16 << 20
)

// dialPause is the wait between attempts to connect.
var dialPause = backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}

// Run passes messages between a host and the processes that opts.Dial connects to, until in
// ends, out fails or ctx ends. It returns nil when in has ended; requests in flight get no
// answer then. A read of in that does not return keeps one goroutine, as does a write to out, which delays the return
// by 3 seconds at most.
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
			if backoff.Sleep(ctx, endTimeout) == nil { // what the host has sent last cannot be passed on
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

// bridge is one session of the host. Two goroutines work on it: one takes the lines of the host, the other
// connects and reads connections.
type bridge struct {
	opts Options
	end  context.CancelCauseFunc

	outMu sync.Mutex // held while a message is written to out
	out   io.Writer

	mu      sync.Mutex // guards the fields below; not held while anything is written
	current *link      // nil while there is no connection that is set up
	closed  bool
	links   int // connections so far

	requests  map[string]*request // of the host, without an answer, by the keys of their ids
	seq       uint64              // of the last request
	kept      int                 // requests that keep their line
	keptBytes int                 // of these lines

	asked map[string]question // of connections, without an answer, by the keys of the ids that the host was given
	next  uint64              // the last of these ids, and of those of requests of the bridge

	// What the host has set up, as it sent it.
	initialize, initialized []byte
	level                   []byte            // that was accepted last
	established             bool              // initialize was answered
	subscriptions           map[string][]byte // that were accepted, by URI
	subscriptionBytes       int               // of these lines
	lists                   map[string]*list  // by method
}

// request is a request of the host, or one of the bridge. bridge.mu guards its fields.
type request struct {
	message
	seq          uint64
	kept         bool                 // its line is kept, and counted
	link         *link                // that it is for; nil while it waits for one
	written      bool                 // link may have read some of it
	repeated     bool                 // an earlier connection may have read it
	acknowledged bool                 // the host has the acknowledgement of its subscriptions/listen
	expiry       *time.Timer          // while it waits; nil without a bound
	own          func(answer message) // gets the answer to a request of the bridge; nil for those of the host
}

// question is a request of a connection to the host.
type question struct {
	link  *link
	id    []byte // that the connection gave it
	given []byte // that the host knows
}

// link is one connection.
type link struct {
	io.ReadWriteCloser
	number int

	initialized bool // setUp has said that the host is initialized; owned by the goroutine that sets it up

	mu    sync.Mutex // held while a message is written
	ended bool       // nothing is written any longer; guarded by mu
}

// write writes one line. sent: some of it may have been read. An error ends the connection.
func (l *link) write(line []byte) (sent bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false, io.ErrClosedPipe
	}
	n, err := l.Write(line)
	if err != nil {
		_ = l.Close() // its reader ends, and sees to what was sent
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

// refuseAll answers the requests of a line that there was no room for, because mcpvisor run takes none.
func (b *bridge) refuseAll(line []byte) {
	messages, refusals := parse(line)
	b.refuseEach(refusals)
	for _, m := range messages {
		if m.method != "" && m.id != nil {
			b.giveUp(&request{message: m}, errTooMany, false)
		}
	}
}

// fromHost handles one message of the host.
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

// admit takes a request of the host over, and sends it if there is a connection.
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

// dropLineLocked frees the text of a request that is not sent again, except for what its answer
// needs.
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

// takeLocked takes a request out, because it has an answer or gets none.
func (b *bridge) takeLocked(key string) *request {
	r := b.requests[key]
	if r == nil {
		return nil
	}
	delete(b.requests, key)
	if r.kept { // send may come to dropLineLocked after this
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
	if r.method == "initialize" || r.method == "subscriptions/listen" { // they stand for the session
		return
	}
	r.expiry = time.AfterFunc(b.opts.HoldFor, func() {
		b.mu.Lock()
		waits := b.requests[r.key] == r && r.link == nil
		if waits {
			b.takeLocked(r.key)
		}
		b.mu.Unlock()
		if waits {
			b.giveUp(r, fmt.Errorf("mcpvisor run has not come back within %v", b.opts.HoldFor), r.repeated)
		}
	})
}

// send writes a request to the connection that it is for. If that has ended, lose has seen to
// the request, or will.
func (b *bridge) send(l *link, r *request) {
	b.mu.Lock()
	if r.link != l || b.requests[r.key] != r { // the host has canceled it while others were sent
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
			if r := b.takeLocked(key); r != nil && r.link != l {
				l = nil // the connection does not know it
			}
		}
	}
	b.mu.Unlock()
	if l != nil {
		_, _ = l.write(m.line) // a notification may be lost
	}
}

// answerQuestion passes the answer of the host to the connection that has asked.
func (b *bridge) answerQuestion(m message) {
	b.mu.Lock()
	q, ok := b.asked[m.key]
	delete(b.asked, m.key)
	b.mu.Unlock()
	if ok {
		_, _ = q.link.write(m.withID(q.id)) // a connection that has ended has no use for it
	}
}

// connect keeps a connection until ctx ends.
func (b *bridge) connect(ctx context.Context) {
	var pause time.Duration
	for ctx.Err() == nil {
		rw, err := b.opts.Dial(ctx)
		if err == nil {
			err = b.serve(ctx, rw)
			if err == nil {
				pause = 0
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		b.opts.Log("%v", err)
		b.failWaiting(err)
		pause = dialPause.Next(pause)
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// failWaiting answers the requests that wait, because there is no process to send them to.
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
		b.giveUp(r, err, r.repeated)
	}
}

func bySeq(a, b *request) int { return cmp.Compare(a.seq, b.seq) }

// serve sets a connection up and reads it until it ends. It returns an error if the set-up
// failed.
func (b *bridge) serve(ctx context.Context, rw io.ReadWriteCloser) error {
	b.mu.Lock()
	b.links++
	l := &link{ReadWriteCloser: rw, number: b.links}
	b.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer b.lose(l)
	lines := linereader.New(l, maxLinkLine)
	refused, err := b.setUp(l, lines)
	if err != nil {
		return fmt.Errorf("mcpvisor run has ended while the session was set up: %w", err)
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
	return nil
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
		b.write(m.line)
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
	default:
		b.write(m.line)
	}
}

// cancelQuestion passes on that a connection has canceled a request to the host, by the id that
// the host knows.
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

// lose sees to what a connection leaves when it ends.
func (b *bridge) lose(l *link) {
	_ = l.Close() // what is being written fails
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	b.mu.Lock()
	if b.current == l {
		b.current = nil
	}
	var lost []*request
	for key, r := range b.requests {
		switch {
		case r.link != l:
		case r.own != nil:
			b.takeLocked(key)
		case r.kept && (!r.written || repeatable(r.method)):
			r.repeated = r.repeated || r.written
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

// close ends the bridge: no request gets an answer any longer.
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
