package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

var errEnded = &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Stderr: []string{"bye"}}

// TestOutboxLosesNothing: many callers at once, short lines and long ones, a
// reader that comes and goes. Every line arrives whole and once, those of one
// caller in their order.
func TestOutboxLosesNothing(t *testing.T) {
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
							size = gatherMax + n // goes alone, without a copy
						}
						line := fmt.Appendf(nil, "%d %d %s\n", caller, n, strings.Repeat("x", size))
						if n%7 == 0 {
							_ = p.send(t.Context(), line)
						} else {
							p.post(&outgoing{line: line})
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
				require.Equal(t, len(rest), strings.Count(rest, "x"), "it is whole")
				next[caller]++
			}
			posting.Wait()
			require.Zero(t, in.Buffered())
		})
	}
}

// TestOutboxGather: batches are the queue, cut into pieces of bounded size.
func TestOutboxGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(gatherMax-100, gatherMax+100)), 1, 40).Draw(t, "sizes")
		o := &outbox{}
		var all, got []byte
		var lines []*outgoing
		for i, size := range sizes {
			line := &outgoing{line: []byte(strings.Repeat(string(rune('a'+i%26)), size)), done: make(chan struct{})}
			require.Equal(t, i == 0, o.add(line), "the first one writes")
			lines = append(lines, line)
		}
		for i, line := range lines {
			if rapid.IntRange(0, 5).Draw(t, "withdrawn") == 0 {
				o.withdraw(line)
				lines[i] = nil
				continue
			}
			all = append(all, line.line...)
		}
		for {
			batch := o.gather()
			if len(batch) == 0 {
				break
			}
			require.True(t, o.writing)
			got = append(got, batch...)
			if len(batch) > gatherMax {
				require.Len(t, o.waiting, 1, "a long line goes alone")
			}
			o.written()
		}
		require.Equal(t, string(all), string(got))
		require.False(t, o.writing)
		for _, line := range lines {
			if line != nil {
				<-line.done
				require.NotEqual(t, queued, line.state)
			}
		}
		o.withdraw(&outgoing{}) // of a line that is long gone
	})
}

// fill posts lines until the pipe is full and the writing goroutine waits for
// the server.
func (p *peer) fill() {
	p.t.Helper()
	line := []byte(strings.Repeat("f", 1000) + "\n")
	for range 1000 { // a megabyte; no pipe takes that much
		require.True(p.t, p.post(&outgoing{line: line}), "posting does not wait")
	}
}

// TestFullPipeBlocksNobody: with a server that does not read, callers leave
// when their context ends; what was never written is taken back.
func TestFullPipeBlocksNobody(t *testing.T) {
	for name, pipe := range map[string]func() (io.ReadCloser, io.WriteCloser, error){"memory": memoryPipe, "operating system": osPipe} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, pipe, 1<<20)
			p.fill()
			ctx, cancel := context.WithCancelCause(t.Context())
			var ended []<-chan outcome
			for range 10 {
				ended = append(ended, p.ask(ctx, transport.Request{Method: "withdrawn"}))
			}
			sent := make(chan error, 1)
			go func() { sent <- p.send(ctx, []byte("withdrawn\n")) }()
			require.Eventually(t, func() bool {
				p.table.Mu.Lock()
				defer p.table.Mu.Unlock()
				return len(p.table.Open) == 10
			}, 10*time.Second, time.Millisecond)
			gone := errors.New("the user went home")
			cancel(gone)
			for _, e := range ended {
				got := <-e
				require.Equal(t, mcpvisor.KindCanceled, got.err.Kind)
				require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
				require.ErrorIs(t, got.err, gone)
			}
			err := <-sent
			require.ErrorIs(t, err, context.Canceled)
			code, ok := transport.ErrorCode(err)
			require.True(t, ok)
			require.Equal(t, int64(-32005), code, "it costs the one message, and not the session")

			require.True(t, p.post(&outgoing{line: []byte("last\n")}))
			for { // none of it was written after all, nor a word of cancelling it
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

// TestCanceledCallIsRecalled: the server has seen it, so it is told; and
// whether the call had an effect is not known.
func TestCanceledCallIsRecalled(t *testing.T) {
	for reason, stop := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": context.WithCancel,
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := stop(t.Context())
			defer cancel()
			ended := p.ask(ctx, transport.Request{Method: "m"})
			id := p.read().ID
			if reason == "canceled" {
				cancel()
			}
			got := <-ended
			require.Equal(t, mcpvisor.KindCanceled, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
			require.ErrorIs(t, got.err, ctx.Err())
			m := p.read()
			require.Equal(t, "notifications/cancelled", m.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":%q}`, id, reason), string(m.Params))
		})
	}
	p := newPeer(t, osPipe, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := <-p.ask(ctx, transport.Request{Method: "m"}) // over before it began
	require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
	require.True(t, p.post(&outgoing{line: []byte(`{"method":"last"}` + "\n")}))
	require.Equal(t, "last", p.read().Method)
}

// TestDeathFailsAll: requests under way, lines that wait, and what comes later.
func TestDeathFailsAll(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	seen := p.ask(t.Context(), transport.Request{Method: "seen", Timeout: time.Hour})
	require.Equal(t, "seen", p.read().Method)
	p.fill()
	var waiting []<-chan outcome
	for range 20 {
		waiting = append(waiting, p.ask(t.Context(), transport.Request{Method: "waiting"}))
	}
	sent := make(chan error, 1)
	go func() { sent <- p.send(t.Context(), []byte("x\n")) }()
	require.Eventually(t, func() bool {
		p.table.Mu.Lock()
		defer p.table.Mu.Unlock()
		return len(p.table.Open) == 21
	}, 10*time.Second, time.Millisecond)

	require.True(t, p.die(errEnded))
	require.False(t, p.die(&supervisor.Cause{Kind: supervisor.CauseProbe}), "it dies once")
	check := func(got outcome, want mcpvisor.Outcome) {
		require.NotNil(t, got.err)
		require.Equal(t, mcpvisor.KindCrashed, got.err.Kind)
		require.Equal(t, want, got.err.Outcome)
		require.Equal(t, []string{"bye"}, got.err.Stderr)
		var cause *supervisor.Cause
		require.ErrorAs(t, got.err, &cause)
		require.Same(t, errEnded, cause)
	}
	check(<-seen, mcpvisor.OutcomeUnknown)
	for _, w := range waiting {
		check(<-w, mcpvisor.OutcomeNotSent)
	}
	require.ErrorIs(t, <-sent, io.ErrClosedPipe)

	check(<-p.ask(t.Context(), transport.Request{Method: "late"}), mcpvisor.OutcomeNotSent)
	require.False(t, p.post(&outgoing{line: []byte("x\n")}))
	require.ErrorIs(t, p.send(t.Context(), []byte("x\n")), io.ErrClosedPipe)
	require.Empty(t, p.table.Open)
}

// TestBrokenPipeEndsTheWriter: a write that fails is no silent loss.
func TestBrokenPipeEndsTheWriter(t *testing.T) {
	for name, pipe := range map[string]func() (io.ReadCloser, io.WriteCloser, error){"memory": memoryPipe, "operating system": osPipe} {
		t.Run(name, func(t *testing.T) {
			reads, mine, err := pipe()
			require.NoError(t, err)
			w := newWire(jsonrpc.NewLifetime(), strings.NewReader(""), mine, 1<<20)
			broke := make(chan error, 1)
			go func() { broke <- w.writeLoop() }()
			require.NoError(t, reads.Close())
			w.post(&outgoing{line: []byte("x\n")})
			require.Error(t, <-broke)
			require.NoError(t, mine.Close())
		})
	}
}

// TestRejectedIsOneRequestOnly: the go-sdk ends its session on any other error
// of a write.
func TestRejectedIsOneRequestOnly(t *testing.T) {
	err := errRejected(context.Canceled)
	require.ErrorIs(t, err, context.Canceled)
	code, ok := transport.ErrorCode(err)
	require.True(t, ok)
	require.Equal(t, int64(-32005), code)
	_, ok = transport.ErrorCode(json.Unmarshal([]byte("{"), new(int)))
	require.False(t, ok)
}

// TestNobodyWritesForOthersForEver: a caller whose line is out goes on, however
// much others have to say.
func TestNobodyWritesForOthersForEver(t *testing.T) {
	w := newWire(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, 1<<20)
	rounds := 0
	w.out.try = func(b []byte) (int, error) {
		if rounds++; rounds < 100 {
			w.post(&outgoing{line: []byte("of another\n")})
		}
		return len(b), nil
	}
	w.post(&outgoing{line: []byte("mine\n")})
	require.Equal(t, flushRounds, rounds)
	require.Len(t, w.out.takeover, 1, "somebody else goes on")
}
