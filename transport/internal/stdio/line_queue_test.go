package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// TestLineQueue_concurrent_callers: with many callers, short and long lines, and a slow
// reader, every line arrives whole and once. The lines of one caller arrive in order.
func TestLineQueue_concurrent_callers(t *testing.T) {
	const callers, each = 8, 300
	for name, pipe := range map[string]func() (io.ReadCloser, io.WriteCloser, error){"memory": memoryPipe, "operating system": osPipe} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, pipe, 1<<20)
			var posting sync.WaitGroup
			for caller := range callers {
				posting.Go(func() {
					for n := range each {
						size := 1 + (caller*31+n*17)%200
						if n%50 == caller {
							size = maxBatchBytes + n // longer than a batch: written alone, without a copy
						}
						line := fmt.Appendf(nil, "%d %d %s\n", caller, n, strings.Repeat("x", size))
						if n%7 == 0 {
							_ = p.sendLine(t.Context(), line)
						} else {
							p.postLine(&outgoing{text: line})
						}
					}
				})
			}
			in := bufio.NewReaderSize(p.in, 100)
			next := [callers]int{}
			for range callers * each {
				line, err := in.ReadString('\n')
				require.NoError(t, err)
				var caller, n int
				var rest string
				_, err = fmt.Sscan(line, &caller, &n, &rest)
				require.NoError(t, err, "%.80q", line)
				require.Equal(t, next[caller], n, "caller %d", caller)
				require.Equal(t, len(rest), strings.Count(rest, "x"), "the line is whole")
				next[caller]++
			}
			posting.Wait()
			require.Zero(t, in.Buffered())
		})
	}
}

// TestLineQueue_takeBatch: the batches together are the queue without withdrawn lines, cut
// into pieces of bounded size.
func TestLineQueue_takeBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(maxBatchBytes-100, maxBatchBytes+100)), 1, 40).Draw(t, "sizes")
		o := &lineQueue{}
		var all, got []byte
		var lines []*outgoing
		for i, size := range sizes {
			line := &outgoing{text: []byte(strings.Repeat(string(rune('a'+i%26)), size)), done: make(chan struct{})}
			require.Equal(t, i == 0, o.add(line), "the first caller becomes the writer")
			lines = append(lines, line)
		}
		for i, line := range lines {
			if rapid.IntRange(0, 5).Draw(t, "withdrawn") == 0 {
				o.withdraw(line)
				lines[i] = nil
				continue
			}
			all = append(all, line.text...)
		}
		for {
			batch := o.takeBatch()
			if len(batch) == 0 {
				break
			}
			require.True(t, o.writing)
			got = append(got, batch...)
			if len(batch) > maxBatchBytes {
				require.Len(t, o.waiting, 1, "a long line is a batch of its own")
			}
			o.notifyWritten()
		}
		require.Equal(t, string(all), string(got))
		require.False(t, o.writing)
		for _, line := range lines {
			if line != nil {
				<-line.done
				require.NotEqual(t, lineUnsent, line.state)
			}
		}
		o.withdraw(&outgoing{}) // a line that is not queued
	})
}

// TestLineQueue_full_pipe: while the server does not read, callers return when their
// context ends, and lines that were not written are withdrawn.
func TestLineQueue_full_pipe(t *testing.T) {
	for name, pipe := range map[string]func() (io.ReadCloser, io.WriteCloser, error){"memory": memoryPipe, "operating system": osPipe} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, pipe, 1<<20)
			p.fillPipe()
			ctx, cancel := context.WithCancelCause(t.Context())
			var ended []<-chan outcome
			for range 10 {
				ended = append(ended, p.startRequest(ctx, transport.Request{Method: "withdrawn"}))
			}
			sent := make(chan error, 1)
			go func() { sent <- p.sendLine(ctx, []byte("withdrawn\n")) }()
			require.Eventually(t, func() bool {
				p.table.Mu.Lock()
				defer p.table.Mu.Unlock()
				return len(slices.Collect(p.table.Open.All())) == 10
			}, 10*time.Second, time.Millisecond)
			cause := errors.New("the host has shut down")
			cancel(cause)
			for _, e := range ended {
				got := <-e
				require.Equal(t, mcpvisor.ErrCanceled, got.err.Kind)
				require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
				require.ErrorIs(t, got.err, cause)
			}
			require.ErrorIs(t, <-sent, context.Canceled)

			require.True(t, p.postLine(&outgoing{text: []byte("last\n")}))
			for { // neither a withdrawn line nor a cancellation was written
				line, err := p.in.ReadString('\n')
				require.NoError(t, err)
				if line == "last\n" {
					break
				}
				require.Equal(t, strings.Repeat("f", 1000)+"\n", line)
			}
		})
	}
}

// TestLineQueue_broken_pipe: a write that fails is reported, and the writing goroutine ends.
func TestLineQueue_broken_pipe(t *testing.T) {
	for name, pipe := range map[string]func() (io.ReadCloser, io.WriteCloser, error){"memory": memoryPipe, "operating system": osPipe} {
		t.Run(name, func(t *testing.T) {
			in, out, err := pipe()
			require.NoError(t, err)
			c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), out, lineLimit(1<<20))
			broke := make(chan error, 1)
			c.onWriteError = func(err error) { broke <- err }
			require.NoError(t, in.Close())
			c.postLine(&outgoing{text: []byte("x\n")})
			require.Error(t, <-broke)
			require.NoError(t, out.Close())
		})
	}
}

// TestLineQueue_end_of_the_connection: nothing is sent once the connection has ended, although its
// requests in flight have not failed yet. The end also ends the handlers of the host, and a
// server that got their errors could answer a call that is about to fail.
func TestLineQueue_end_of_the_connection(t *testing.T) {
	c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
	c.goWrite = func(func()) { t.Error("a write begins") }
	c.lifetime.RecordEnd(&supervisor.Cause{Kind: supervisor.CauseClosed})
	c.sendResponse([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"canceled"}}`))
}

// TestLineQueue_caller_stops_flushing_for_others: a caller writes at most maxFlushRounds
// batches, however many lines others queue.
func TestLineQueue_caller_stops_flushing_for_others(t *testing.T) {
	c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
	rounds := 0
	handedOver := 0
	c.goWrite = func(func()) { handedOver++ }
	c.out.tryWrite = func(b []byte) (int, error) {
		if rounds++; rounds < 100 {
			c.postLine(&outgoing{text: []byte("another line\n")})
		}
		return len(b), nil
	}
	c.postLine(&outgoing{text: []byte("first line\n")})
	require.Equal(t, maxFlushRounds, rounds)
	require.Equal(t, 1, handedOver, "the writing goroutine takes over")
}

// brokenPipe takes some bytes of each write before it fails.
type brokenPipe struct{ takes int }

func (b brokenPipe) Write(p []byte) (int, error) { return min(b.takes, len(p)), io.ErrClosedPipe }

// The first write of a request is that of its caller. If it takes nothing, nothing was sent.
func TestRequest_whose_caller_could_not_write(t *testing.T) {
	for takes, want := range []mcpvisor.Outcome{mcpvisor.OutcomeNotSent, mcpvisor.OutcomeUnknown} {
		for _, failure := range []error{nil, io.ErrClosedPipe} { // of the caller; the goroutine fails later
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, memoryPipe, 1<<20)
				p.conn.out.tryWrite = func([]byte) (int, error) { return takes, failure }
				p.conn.out.out = brokenPipe{}
				failed := make(chan struct{})
				p.onWriteError = func(error) { close(failed) }
				call := p.startRequest(t.Context(), transport.Request{Method: "m"})
				<-failed
				p.end(&supervisor.Cause{Kind: supervisor.CauseClosed})
				require.Equal(t, want, (<-call).err.Outcome, "%d bytes taken, %v", takes, failure)
			})
		}
	}
}

// A request of which nothing could be written was not sent, and may be sent to another
// server: that one, and those that wait behind it.
func TestRequest_that_could_not_be_written(t *testing.T) {
	for _, size := range []int{1, 2 * maxBatchBytes} {
		for takes, want := range []mcpvisor.Outcome{mcpvisor.OutcomeNotSent, mcpvisor.OutcomeUnknown} {
			testutil.RunInBubble(t, fmt.Sprint(size, " bytes, ", takes, " taken"), func(t *testing.T) {
				p := newPeer(t, memoryPipe, 1<<20)
				p.conn.out.out = brokenPipe{takes}
				failed := make(chan struct{})
				p.onWriteError = func(error) { close(failed) }
				r := transport.Request{Method: "m", Params: []byte(`"` + strings.Repeat("a", size) + `"`)}
				first := p.startRequest(t.Context(), r)
				<-failed
				second := p.startRequest(t.Context(), r)
				synctest.Wait()
				p.end(&supervisor.Cause{Kind: supervisor.CauseClosed})
				require.Equal(t, want, (<-first).err.Outcome)
				require.Equal(t, mcpvisor.OutcomeNotSent, (<-second).err.Outcome)
			})
		}
	}
}

// What is queued when a write fails was not sent either.
func TestRequest_queued_behind_one_that_could_not_be_written(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		proceed, failed := make(chan struct{}), make(chan struct{})
		p.conn.out.out = writerFunc(func([]byte) (int, error) { <-proceed; return 1, io.ErrClosedPipe })
		p.onWriteError = func(error) { close(failed) }
		first := p.startRequest(t.Context(), transport.Request{Method: "m"})
		synctest.Wait()
		second := p.startRequest(t.Context(), transport.Request{Method: "m"})
		synctest.Wait()
		close(proceed)
		<-failed
		p.end(&supervisor.Cause{Kind: supervisor.CauseClosed})
		require.Equal(t, mcpvisor.OutcomeUnknown, (<-first).err.Outcome)
		require.Equal(t, mcpvisor.OutcomeNotSent, (<-second).err.Outcome)
	})
}

// When a pipe breaks within a batch, the outcome of all its requests is unknown.
func TestRequest_in_a_batch_written_in_part(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		proceed, failed := make(chan struct{}), make(chan struct{})
		p.conn.out.out = writerFunc(func(b []byte) (int, error) {
			if <-proceed; bytes.Count(b, []byte("\n")) == 1 {
				return len(b), nil
			}
			return 1, io.ErrClosedPipe
		})
		p.onWriteError = func(error) { close(failed) }
		var ended []<-chan outcome
		for range 3 {
			ended = append(ended, p.startRequest(t.Context(), transport.Request{Method: "m"}))
			synctest.Wait()
		}
		close(proceed)
		<-failed
		p.end(&supervisor.Cause{Kind: supervisor.CauseClosed})
		for _, e := range ended {
			require.Equal(t, mcpvisor.OutcomeUnknown, (<-e).err.Outcome)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
