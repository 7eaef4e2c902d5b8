package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio/reader"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func (p *peer) awaitState(want reader.State) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.reader.State() == want }, time.Minute, 100*time.Microsecond)
}

// newIdlePeer makes a connection with nothing in flight, whose stdout the poller watches.
func newIdlePeer(t *testing.T) *peer {
	t.Helper()
	p := newPeer(t, osPipe, 1<<20)
	p.awaitState(reader.Watching)
	return p
}

// startLeader sends a request whose caller reads, and returns its id. A caller whose call may
// end otherwise gives the reading up after a moment.
func (p *peer) startLeader(ctx context.Context, r transport.Request) (id int64, ended <-chan outcome) {
	p.t.Helper()
	p.awaitState(reader.Watching)
	ended = p.startRequest(ctx, r)
	id = p.readMessage().ID
	if ctx.Done() == nil && r.Timeout == 0 {
		require.Equal(p.t, reader.Leading, p.reader.State())
	}
	return id, ended
}

func (p *peer) answer(id int64, result string) {
	p.t.Helper()
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result)
}

// TestReading_leader_ends: whatever ends a call ends that of a caller who reads, and the next
// call finds the connection in order.
func TestReading_leader_ends(t *testing.T) {
	p := newIdlePeer(t)
	t.Run("timeout", func(t *testing.T) {
		_, ended := p.startLeader(context.Background(), transport.Request{Method: "m", Timeout: 20 * time.Millisecond})
		require.Equal(t, mcpvisor.ErrTimeout, (<-ended).err.Kind)
		require.Equal(t, "notifications/cancelled", p.readMessage().Method)
	})
	t.Run("context", func(t *testing.T) {
		p := newIdlePeer(t)
		id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
		p.answer(id, `{}`) // the leader of this call leaves stdout without a deadline
		require.Equal(t, outcome{`{}`, nil}, <-ended)
		ctx, cancel := context.WithCancel(t.Context())
		p.awaitState(reader.Watching)
		ended = p.startRequest(ctx, transport.Request{Method: "m"})
		id = p.readMessage().ID
		cancel()
		require.Equal(t, mcpvisor.ErrCanceled, (<-ended).err.Kind)
		require.Equal(t, "notifications/cancelled", p.readMessage().Method)
		p.answer(id, `{}`) // late
		require.Eventually(t, func() bool { return p.discarded.Counts().Unmatched == 1 }, time.Minute, time.Millisecond)
	})
	for p.reader.State() != reader.Watching { // after a timeout the goroutine may stay for some calls
		ended := p.startRequest(context.Background(), transport.Request{Method: "m"})
		p.answer(p.readMessage().ID, `{}`)
		<-ended
	}
	id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
	p.answer(id, `{}`)
	require.Equal(t, outcome{`{}`, nil}, <-ended)

	_, ended = p.startLeader(context.Background(), transport.Request{Method: "m"})
	p.end(&supervisor.Cause{Kind: supervisor.CauseSignal, Message: "killed"})
	require.Equal(t, mcpvisor.ErrCrashed, (<-ended).err.Kind)
}

// TestReading_leader_gives_up: a caller reads nothing but answers. All else is handled by the
// goroutine, while the caller waits.
func TestReading_leader_gives_up(t *testing.T) {
	t.Run("notification", func(t *testing.T) {
		p := newIdlePeer(t)
		release := make(chan struct{})
		noticed := make(chan struct{})
		p.notifications.OnNotice(func(transport.Notice) {
			close(noticed)
			<-release // holds up the goroutine that reads, and no caller
		})
		ctx, cancel := context.WithCancel(t.Context())
		_, ended := p.startLeader(ctx, transport.Request{Method: "m"})
		p.writeLine(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		<-noticed
		cancel()
		require.Equal(t, mcpvisor.ErrCanceled, (<-ended).err.Kind)
		close(release)
	})
	for name, text := range map[string]string{
		"request of the server": `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		"junk, then a request":  "junk\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		"blank lines":           "\n\r\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		"a split message":       "{\n}\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		"an oversize line":      strings.Repeat("x", 2<<20) + "\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		"an oversize object":    "{" + strings.Repeat("x", 2<<20) + "}\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		"a large object":        `{"a":"` + strings.Repeat("x", 200<<10) + "\"}\n" + `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newIdlePeer(t)
			id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
			p.writeLine("%s", text)
			require.EqualValues(t, 7, p.readMessage().ID)
			p.answer(id, `{}`)
			require.Equal(t, outcome{`{}`, nil}, <-ended)
		})
	}
	t.Run("a large answer", func(t *testing.T) {
		p := newIdlePeer(t)
		id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
		large := `{"a":"` + strings.Repeat("x", 500<<10) + `"}`
		p.answer(id, large)
		require.Equal(t, outcome{large, nil}, <-ended)
	})
	t.Run("an answer that waits for memory", func(t *testing.T) {
		buffer := budget.New(1<<20, nil)
		p := newPeerWith(t, osPipe, reader.Options{MaxLine: 1 << 20, Buffer: buffer})
		one, other := buffer.Share(), buffer.Share()
		require.NoError(t, one.Grow(t.Context(), nil, 1<<20))
		require.NoError(t, other.Grow(t.Context(), nil, 1)) // one message may exceed the limit
		id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
		p.answer(id, `"`+strings.Repeat("x", 28<<10)+`"`) // the next line finds a buffer of 32 KiB
		require.Nil(t, (<-ended).err)
		ctx, cancel := context.WithCancel(t.Context())
		id, ended = p.startLeader(ctx, transport.Request{Method: "m"})
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n"+`{"jsonrpc":"2.0","id":%d,"result":"%s"}`, jsonrpc.EndID-1, id, strings.Repeat("x", 40<<10))
		require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, 10*time.Second, time.Millisecond)
		cancel()
		require.Equal(t, mcpvisor.ErrCanceled, (<-ended).err.Kind)
		require.Equal(t, "notifications/cancelled", p.readMessage().Method)
		other.Release()
		one.Release()
		require.Eventually(t, func() bool { return p.discarded.Counts().Unmatched == 2 }, 10*time.Second, time.Millisecond)
		require.Zero(t, p.discarded.Counts().Oversize)
	})
	t.Run("an error without id", func(t *testing.T) {
		p := newIdlePeer(t)
		_, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
		p.writeLine(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}`)
		require.Equal(t, mcpvisor.ErrRPC, (<-ended).err.Kind)
	})
	t.Run("half a line", func(t *testing.T) {
		p := newIdlePeer(t)
		_, ended := p.startLeader(context.Background(), transport.Request{Method: "m", Timeout: 20 * time.Millisecond})
		_, err := io.WriteString(p.out, `{"jsonrpc":"2.0","id":7,"method":`)
		require.NoError(t, err)
		require.Equal(t, mcpvisor.ErrTimeout, (<-ended).err.Kind)
		require.Equal(t, "notifications/cancelled", p.readMessage().Method)
		p.writeLine(`"ping"}`)
		require.EqualValues(t, 7, p.readMessage().ID)
	})
}

// TestReading_streams_do_not_count: a stream stays open for as long as the session, so its
// caller does not read, and beside it the only call does.
func TestReading_streams_do_not_count(t *testing.T) {
	p := newIdlePeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream := p.startRequest(ctx, transport.Request{Method: "subscriptions/listen", Stream: &transport.Stream{}})
	streamID := p.readMessage().ID
	require.Equal(t, reader.Watching, p.reader.State())
	id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
	p.answer(id, `{}`)
	require.Equal(t, `{}`, (<-ended).result)
	require.Equal(t, reader.Watching, p.reader.State())
	p.answer(streamID, `{"s":1}`)
	require.Equal(t, `{"s":1}`, (<-stream).result)
	cancel()
	id, ended = p.startLeader(context.Background(), transport.Request{Method: "m"})
	p.answer(id, `{}`)
	require.Equal(t, `{}`, (<-ended).result)
	require.Equal(t, reader.Watching, p.reader.State(), "the stream that has ended does not count")
}

// TestReading_loses_nothing: under random calls, cancellations, timeouts and messages of the
// server, each call ends once, with its own answer, and the connection stays in order.
func TestReading_loses_nothing(t *testing.T) {
	p := newIdlePeer(t)
	notices := 0 // owned by the goroutine that reads
	p.notifications.OnNotice(func(transport.Notice) { notices++ })
	go func() { // the server
		rng := rand.New(rand.NewPCG(1, 2))
		out := bufio.NewWriter(p.out)
		for {
			if p.in.Buffered() == 0 && out.Flush() != nil { // all answers, before it waits for requests
				return
			}
			line, err := p.in.ReadString('\n')
			if err != nil {
				return
			}
			var m transporttest.Message
			if json.Unmarshal([]byte(line), &m) != nil || m.Method != "m" {
				continue
			}
			switch rng.IntN(12) {
			case 0:
				_, _ = fmt.Fprintln(out, "junk")
			case 1:
				_, _ = fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			case 2:
				_ = out.Flush()
				time.Sleep(2 * time.Millisecond) // longer than a leader reads
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`+"\n", m.ID, m.Params)
			cut := rng.IntN(len(answer))
			_, _ = io.WriteString(out, answer[:cut])
			if rng.IntN(4) == 0 {
				_ = out.Flush()
			}
			_, _ = io.WriteString(out, answer[cut:])
			if rng.IntN(2) == 0 {
				if out.Flush() != nil {
					return
				}
			}
		}
	}()
	for callers := range 5 {
		var all sync.WaitGroup
		for caller := range 1 + callers*callers {
			rng := rand.New(rand.NewPCG(uint64(callers), uint64(caller)))
			all.Go(func() {
				for i := range 100 {
					want := fmt.Sprintf(`{"n":%d,"pad":"%s"}`, caller*1000+i, strings.Repeat("p", rng.IntN(100)*rng.IntN(100)))
					r := transport.Request{Method: "m", Params: json.RawMessage(want)}
					ctx, cancel := context.Background(), func() {}
					switch rng.IntN(6) {
					case 0:
						r.Timeout = time.Duration(1+rng.IntN(3000)) * time.Microsecond
					case 1, 2:
						ctx, cancel = context.WithCancel(t.Context())
					case 3:
						ctx, cancel = context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(3000))*time.Microsecond)
					}
					got := <-p.startRequest(ctx, r)
					cancel()
					if got.err == nil {
						require.Equal(t, want, got.result)
					} else {
						require.Contains(t, []mcpvisor.ErrorKind{mcpvisor.ErrTimeout, mcpvisor.ErrCanceled}, got.err.Kind, "%v", got.err)
					}
				}
			})
		}
		all.Wait()
		p.awaitState(reader.Watching)
	}
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.Empty(t, slices.Collect(p.table.Open.All()))
}

// TestReading_ends_with_the_last_call: the goroutine that reads ends when the only call is
// given up, without another message.
func TestReading_ends_with_the_last_call(t *testing.T) {
	p := newIdlePeer(t)
	for _, timeout := range []time.Duration{0, 50 * time.Millisecond} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := p.startRequest(ctx, transport.Request{Method: "m", Timeout: timeout})
		p.readMessage()
		if timeout == 0 {
			p.awaitState(reader.Looping)
			cancel()
		}
		require.NotNil(t, (<-ended).err)
		cancel()
		require.Equal(t, "notifications/cancelled", p.readMessage().Method)
		p.awaitState(reader.Watching)
	}
}

// TestReading_several_callers: callers that come while one reads get their answers, in any
// order, and the first one leaves the reading to a goroutine.
func TestReading_several_callers(t *testing.T) {
	p := newIdlePeer(t)
	first, endedFirst := p.startLeader(context.Background(), transport.Request{Method: "m"})
	endedSecond := p.startRequest(t.Context(), transport.Request{Method: "m"})
	second := p.readMessage().ID
	endedThird := p.startRequest(t.Context(), transport.Request{Method: "m"})
	third := p.readMessage().ID
	p.answer(second, `{"n":2}`)
	require.Equal(t, `{"n":2}`, (<-endedSecond).result)
	require.Equal(t, reader.Leading, p.reader.State())
	p.answer(first, `{"n":1}`)
	require.Equal(t, `{"n":1}`, (<-endedFirst).result)
	require.Equal(t, reader.Looping, p.reader.State())
	p.answer(third, `{"n":3}`)
	require.Equal(t, `{"n":3}`, (<-endedThird).result)
	p.awaitState(reader.Watching) // without another message
}

// TestReading_the_only_caller_reads: without a goroutine before, meanwhile and after.
func TestReading_the_only_caller_reads(t *testing.T) {
	p := newIdlePeer(t)
	for range 3 {
		id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
		p.answer(id, `{"a":1}`)
		require.Equal(t, outcome{`{"a":1}`, nil}, <-ended)
		require.Equal(t, reader.Watching, p.reader.State())
	}
	id, ended := p.startLeader(context.Background(), transport.Request{Method: "m"})
	p.answer(id, `{}`+"}\n"+`{"jsonrpc":"2.0","id":2,"method":"ping"`)
	require.Equal(t, outcome{`{}`, nil}, <-ended)
	require.EqualValues(t, 2, p.readMessage().ID, "what comes with the answer is read")
	p.awaitState(reader.Watching)
	p.writeLine(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.EqualValues(t, 1, p.readMessage().ID, "what comes without a call is read")
	p.awaitState(reader.Watching)
}
