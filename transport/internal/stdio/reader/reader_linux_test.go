package reader

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/poll"
)

// server is a Reader, its handler, and the server that writes to it.
type server struct {
	*Reader
	t        *testing.T
	out      *os.File
	received chan string // the lines that are no responses
	ended    chan error
	only     call // which every response answers
}

// call is a call in flight.
type call struct{ answered atomic.Bool }

func (c *call) Answered() bool { return c.answered.Load() }

func (s *server) ReceiveLine(line []byte)                  { s.received <- string(line) }
func (s *server) ReceiveSkipped(head, tail []byte, _ bool) { s.received <- "skipped" }
func (s *server) ReceiveUnfinished([]byte)                 {}
func (s *server) NoteReceived()                            {}
func (s *server) ReadEnded(err error)                      { s.ended <- err }

const response = `{"result":1}`

func (s *server) ReceiveResponse(line []byte) (handled bool) {
	if string(line) != response {
		return false
	}
	s.End()
	s.only.answered.Store(true)
	return true
}

// newServer makes a Reader of a pipe. Its goroutines end with the test.
func newServer(t *testing.T, o Options) *server {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	s := &server{t: t, out: w, received: make(chan string, 100), ended: make(chan error, 1)}
	var loops sync.WaitGroup
	if o.Go == nil {
		o.Go = loops.Go
	}
	if o.MaxLine == 0 {
		o.MaxLine = 1 << 20
	}
	s.Reader = New(r, s, o)
	t.Cleanup(func() {
		s.Stop()
		_, _ = r.Close(), w.Close()
		loops.Wait()
	})
	return s
}

// newIdleServer makes a Reader that watches.
func newIdleServer(t *testing.T) *server {
	t.Helper()
	s := newServer(t, Options{})
	s.Start()
	s.AllowIdle()
	s.awaitState(Watching)
	return s
}

func (s *server) write(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.out, text)
	require.NoError(s.t, err)
}

func (s *server) awaitState(want State) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.State() == want }, time.Minute, 100*time.Microsecond)
}

// requireIdle checks that no goroutine reads, and that no buffer is held.
func (s *server) requireIdle() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(s.t, Watching, s.state)
	require.Nil(s.t, s.lines.buf, "a buffer is held")
	require.Nil(s.t, s.leader)
	require.Zero(s.t, s.calls)
}

// beginLead begins a call whose caller leads.
func (s *server) beginLead(ctx context.Context) {
	s.t.Helper()
	s.only.answered.Store(false)
	others, leads := s.Begin(ctx, &s.only, true)
	require.False(s.t, others)
	require.True(s.t, leads)
	require.Equal(s.t, Leading, s.State())
}

// TestReader_states goes through the table of the package.
func TestReader_states(t *testing.T) {
	t.Run("a leader reads its answer", func(t *testing.T) {
		s := newIdleServer(t)
		for range 3 {
			s.beginLead(context.Background())
			s.write(response + "\n")
			require.True(t, s.Lead(&s.only))
			s.requireIdle()
		}
	})
	t.Run("more has arrived than the answer", func(t *testing.T) {
		s := newIdleServer(t)
		s.beginLead(context.Background())
		s.write(response + "\nmore\n")
		require.True(t, s.Lead(&s.only))
		require.Equal(t, "more", <-s.received)
		s.awaitState(Watching)
		s.requireIdle()
	})
	t.Run("another call is in flight", func(t *testing.T) {
		s := newIdleServer(t)
		s.beginLead(context.Background())
		var second call
		others, leads := s.Begin(context.Background(), &second, true)
		require.True(t, others)
		require.False(t, leads)
		s.write(response + "\n")
		require.True(t, s.Lead(&s.only))
		require.Equal(t, Looping, s.State())
		s.GiveUp(&second)
		s.awaitState(Watching) // without a further line
		s.requireIdle()
	})
	t.Run("a leader stops at what is no response", func(t *testing.T) {
		for _, text := range []string{"log", "{}", "{" + strings.Repeat("x", 200<<10) + "}"} {
			s := newIdleServer(t)
			s.beginLead(context.Background())
			answered := make(chan bool)
			go func() { answered <- s.Lead(&s.only) }()
			s.write(text + "\n") // more than the pipe holds
			require.False(t, <-answered)
			require.Equal(t, text, <-s.received, "the goroutine handles it")
			require.Equal(t, Looping, s.State())
			s.GiveUp(&s.only)
			s.awaitState(Watching)
		}
	})
	t.Run("a leader whose context may be canceled stops", func(t *testing.T) {
		s := newIdleServer(t)
		s.beginLead(context.Background()) // leaves stdout without a deadline
		s.write(response + "\n")
		require.True(t, s.Lead(&s.only))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.beginLead(ctx)
		require.False(t, s.Lead(&s.only))
		require.Equal(t, Looping, s.State())
	})
	t.Run("a leader is given up", func(t *testing.T) {
		s := newIdleServer(t)
		s.beginLead(context.Background())
		s.GiveUp(&s.only)
		require.False(t, s.Lead(&s.only))
		s.awaitState(Watching)
		s.requireIdle()
	})
	t.Run("a caller that cannot read", func(t *testing.T) {
		s := newIdleServer(t)
		_, leads := s.Begin(context.Background(), &s.only, false)
		require.False(t, leads)
		require.Equal(t, Watching, s.State())
		s.write("line\n")
		require.Equal(t, "line", <-s.received)
		require.Equal(t, Looping, s.State(), "a call is in flight")
	})
	t.Run("Wake", func(t *testing.T) {
		s := newIdleServer(t)
		s.Wake()
		s.awaitState(Watching) // there was nothing to read
		require.NoError(t, s.out.Close())
		require.Equal(t, io.EOF, <-s.ended)
	})
	t.Run("no goroutine reads after Stop", func(t *testing.T) {
		s := newIdleServer(t)
		s.Stop()
		s.write("line\n")
		s.Wake()
		_, leads := s.Begin(context.Background(), &s.only, true)
		require.False(t, leads)
		settlePoller(t)
		require.Equal(t, Stopped, s.State())
		require.Empty(t, s.received)
	})
	t.Run("a leader does not start the goroutine after Stop", func(t *testing.T) {
		s := newIdleServer(t)
		s.beginLead(context.Background())
		s.Stop()
		s.write("line\n")
		require.False(t, s.Lead(&s.only))
		require.Equal(t, Stopped, s.State())
		require.Empty(t, s.received)
	})
}

// TestReader_without_epoll: if the system has no descriptor for the poller, the goroutine
// always reads.
func TestReader_without_epoll(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	allow := func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }
	defer allow()
	s := newServer(t, Options{})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}))
	s.Start()
	s.AllowIdle()
	for _, then := range []func(){allow, func() {}} {
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.pinned
		}, time.Minute, time.Millisecond)
		_, leads := s.Begin(t.Context(), &s.only, true)
		require.False(t, leads)
		s.write("line\n")
		require.Equal(t, "line", <-s.received)
		s.End()
		require.Equal(t, Looping, s.State())
		then()
	}
}

// TestReader_AllowIdle: the goroutine that waits for the server during the handshake ends
// after it, without a message of the server.
func TestReader_AllowIdle(t *testing.T) {
	s := newServer(t, Options{})
	waits := make(chan struct{}, 100)
	s.lines.in.OnEmpty = func() bool {
		stop := s.mayPause()
		waits <- struct{}{}
		return stop
	}
	s.Start()
	<-waits
	require.Equal(t, Looping, s.State())
	s.AllowIdle()
	s.awaitState(Watching)
	s.requireIdle()
}

// TestReader_lingers: after several calls were in flight, the goroutine waits for the next
// call, but not forever.
func TestReader_lingers(t *testing.T) {
	s := newServer(t, Options{})
	s.pinned = false
	require.True(t, s.mayPause(), "nothing needs the goroutine")
	for _, c := range []*call{new(call), new(call)} {
		_, leads := s.Begin(context.Background(), c, true)
		require.False(t, leads)
	}
	require.False(t, s.mayPause(), "calls are in flight")
	s.End()
	s.End()
	for range lingerRounds {
		require.False(t, s.mayPause())
	}
	require.True(t, s.mayPause())
}

// longLine is a Reader whose lines the test reads, and which pauses when there is nothing to
// read. stops says whether the goroutine would have ended then.
func longLine(t *testing.T, limit int) (s *server, send func(text string) (line []byte, err error), stops *bool) {
	t.Helper()
	s = newServer(t, Options{MaxLine: limit, Buffer: budget.New(1<<20, nil)})
	s.pinned, stops = false, new(bool)
	s.lines.in.OnEmpty = func() bool {
		*stops = s.mayPause()
		return true
	}
	return s, func(text string) (line []byte, err error) {
		s.write(text)
		line, _, _, err = s.lines.next()
		return line, err
	}, stops
}

// TestReader_within_a_large_line: the goroutine stays, and the memory stays reserved, however
// often the reading is interrupted.
func TestReader_within_a_large_line(t *testing.T) {
	s, send, stops := longLine(t, 1<<20)
	buffer := s.options.Buffer
	_, err := send(`{"a":"`)
	require.ErrorIs(t, err, errPaused)
	require.True(t, *stops, "the beginning of a line keeps no goroutine")

	const piece = 32 << 10 // fits into the pipe
	text := strings.Repeat("x", piece)
	for buffer.Used() == 0 {
		_, err = send(text)
		require.ErrorIs(t, err, errPaused)
	}
	for range 3 {
		require.False(t, *stops)
		require.False(t, s.endLoop())
		_, err = send("x")
		require.ErrorIs(t, err, errPaused)
		require.EqualValues(t, len(s.lines.buf), buffer.Used(), "the line is still held")
	}
	line, err := send("\"}\n")
	require.NoError(t, err)
	require.NotZero(t, buffer.Used(), "the line is in use until the next one")
	require.Equal(t, "x\"}", string(line[len(line)-3:]))
	_, err = send("")
	require.ErrorIs(t, err, errPaused)
	require.Zero(t, buffer.Used())
	require.True(t, *stops)
	require.True(t, s.endLoop())
}

// TestReader_within_a_skipped_line: the goroutine stays until the line has ended.
func TestReader_within_a_skipped_line(t *testing.T) {
	s, send, stops := longLine(t, 1<<10)
	_, err := send(strings.Repeat("x", 8<<10))
	for range 3 {
		require.ErrorIs(t, err, errPaused)
		require.False(t, *stops)
		require.False(t, s.endLoop())
		_, err = send("x")
	}
	_, err = send("\n")
	require.NoError(t, err)
	_, err = send("")
	require.ErrorIs(t, err, errPaused)
	require.True(t, *stops)
}

// TestReader_leader_disarms_the_poller: an answer that a leader reads wakes no other
// goroutine.
func TestReader_leader_disarms_the_poller(t *testing.T) {
	s := newIdleServer(t)
	waits, proceed := make(chan struct{}, 100), make(chan struct{})
	wakeups := 0 // owned by the goroutine of the poller, until that is settled
	s.mu.Lock()
	s.watch.Remove()
	s.watch = poll.Shared.Watch(s.stdout, func() { wakeups++; s.Wake() })
	armed := s.watch.Arm()
	s.lines.in.OnEmpty = func() bool {
		waits <- struct{}{}
		<-proceed
		return s.mayPause()
	}
	s.mu.Unlock()
	require.True(t, armed)
	answered := make(chan bool)
	s.beginLead(context.Background())
	go func() { answered <- s.Lead(&s.only) }()
	<-waits // the leader has found nothing
	s.write(response + "\n")
	settlePoller(t)
	woken := wakeups
	close(proceed)
	require.True(t, <-answered)
	require.Zero(t, woken)
}

// settlePoller returns when the shared poller has reported what was readable before.
func settlePoller(t *testing.T) {
	t.Helper()
	for range 2 {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		called := make(chan struct{}, 1)
		watch := poll.Shared.Watch(r, func() { called <- struct{}{} })
		require.True(t, watch.Arm())
		_, err = io.WriteString(w, "x")
		require.NoError(t, err)
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatal("the poller did not report")
		}
		watch.Remove()
		_, _ = r.Close(), w.Close()
	}
}
