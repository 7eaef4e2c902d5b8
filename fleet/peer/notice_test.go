package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/transport"
)

// noticing serves notices by a function, and returns a client.
func noticing(t testing.TB, check func(string, uint64) error, notices func(ctx context.Context, r Request, opened func(), notify func(transport.Notice)) error) *Client {
	t.Helper()
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, Check: check, Notices: notices})
	return connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address, MaxCalls: 4})
}

// TestClient_Notices: notices come in order; those that cannot travel leave a gap; the end of the
// caller reaches the node.
func TestClient_Notices(t *testing.T) {
	ended := make(chan error, 1)
	long := &mcpvisor.LogMessage{Level: "info", Text: strings.Repeat("x", framing.MaxChunk)}
	short := &mcpvisor.LogMessage{Level: "info", Text: "x"}
	c := noticing(t, nil, func(ctx context.Context, r Request, opened func(), notify func(transport.Notice)) error {
		require.Equal(t, Request{Node: "a", Server: "s", Epoch: 1}, r)
		opened()
		notify(transport.Notice{Kind: transport.ResourceUpdated, URI: "u"})
		notify(transport.Notice{Kind: transport.LogMessage, Log: short})
		notify(transport.Notice{Kind: transport.ListChanged}) // does not travel
		notify(transport.Notice{Kind: transport.LogMessage, Log: long})
		notify(transport.Notice{Kind: transport.ResourceUpdated, URI: "v"})
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(within(t))
	open := false
	var got []transport.Notice
	err := c.Notices(ctx, "s", 1, func() { open = true }, func(n transport.Notice) {
		if got = append(got, n); n.URI == "v" {
			cancel()
		}
	})
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.True(t, open)
	require.Equal(t, []transport.Notice{{Kind: transport.ResourceUpdated, URI: "u"}, {Kind: transport.LogMessage, Log: short}, {Kind: transport.Gap},
		{Kind: transport.ResourceUpdated, URI: "v"}}, got)
	require.ErrorIs(t, <-ended, context.Canceled)
}

// TestClient_Notices_moved: a stream ends when the server moves, although nothing comes.
func TestClient_Notices_moved(t *testing.T) {
	var moved atomic.Bool
	c := noticing(t, func(string, uint64) error {
		if moved.Load() {
			return ErrLeaseOver
		}
		return nil
	}, func(ctx context.Context, _ Request, opened func(), _ func(transport.Notice)) error {
		opened()
		<-ctx.Done()
		return ctx.Err()
	})
	err := c.Notices(within(t), "s", 1, func() { moved.Store(true) }, nil)
	require.ErrorIs(t, err, ErrLeaseOver)
	requireNotSent(t, err, "notices of s")
	requireNotSent(t, c.Notices(within(t), "s", 1, nil, nil), "lease")
}

// TestClient_Notices_bound: streams of notices take no place of calls, and are bounded.
func TestClient_Notices_bound(t *testing.T) {
	c := noticing(t, nil, func(ctx context.Context, _ Request, opened func(), _ func(transport.Notice)) error {
		opened()
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(within(t))
	const streams = 100 // more than MaxCalls
	opened, ended := make(chan bool, streams), make(chan error, streams)
	for range streams {
		go func() { ended <- c.Notices(ctx, "s", 1, func() { opened <- true }, nil) }()
	}
	for range streams {
		<-opened
	}
	_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", []byte("1"))
	require.NoError(t, err)
	c.notices.Add(maxNoticeStreams)
	require.ErrorIs(t, c.Notices(ctx, "s", 1, nil, nil), mcpvisor.ErrOverloaded)
	c.notices.Add(-maxNoticeStreams)
	cancel()
	for range streams {
		require.ErrorIs(t, <-ended, mcpvisor.ErrCanceled)
	}
	require.Zero(t, c.notices.Load())
	require.Zero(t, c.reportBytes.Load())
}

// TestServer_many_notice_streams: a client that opens too many is refused, and keeps its stream.
func TestServer_many_notice_streams(t *testing.T) {
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, Notices: func(ctx context.Context, _ Request, _ func(), _ func(transport.Notice)) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	s := dialRaw(t, identity(t, a, "a"), address)
	s.send(greeting("a"))
	open := call{method: methodNotices, server: "s", epoch: 1}
	for i := range uint64(maxNoticeStreams/streamsPerLink + 1) {
		s.send(whole(messageCall, i+1, open.append(nil)))
	}
	f, err := s.receive(messageFailure)
	require.NoError(t, err)
	require.Equal(t, mcpvisor.ErrOverloaded, decodeFailure(f.payload).Kind)
	s.send(whole(messageCall, 1<<20, callOf([]byte("1"))))
	_, err = s.receive(messageResult)
	require.NoError(t, err)
}

// TestClient_Notices_slow: what waits for a reader that is slow is bounded on both nodes, and a gap
// says that some was dropped. Calls of others pass.
func TestClient_Notices_slow(t *testing.T) {
	text := strings.Repeat("x", 8<<10)
	const flood = 20_000 // 160 MB
	c := noticing(t, nil, func(ctx context.Context, _ Request, opened func(), notify func(transport.Notice)) error {
		opened()
		for range flood {
			notify(transport.Notice{Kind: transport.LogMessage, Log: &mcpvisor.LogMessage{Level: "info", Text: text}})
		}
		notify(transport.Notice{Kind: transport.LogMessage, Log: &mcpvisor.LogMessage{Level: "info", Text: "last"}})
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(within(t))
	calls, gaps, got := 0, 0, 0
	err := c.Notices(ctx, "s", 1, func() {}, func(n transport.Notice) {
		require.LessOrEqual(t, c.reportBytes.Load(), int64(maxReportBytes))
		got++
		if n.Kind == transport.Gap {
			gaps++
		}
		if calls < 100 { // while it is slow
			calls++
			_, err := c.Route("s", 1).CallToolRaw(ctx, "s/x", []byte("1"))
			require.NoError(t, err)
		}
		if n.Kind == transport.Gap && calls >= 100 || n.Log != nil && n.Log.Text == "last" {
			cancel()
		}
	})
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.Positive(t, gaps)
	require.Less(t, got, flood)
}

// TestNoticeStream_bound: notices that are not sent are bounded, for one server and for all; a gap is
// told when there is room.
func TestNoticeStream_bound(t *testing.T) {
	server, far := serverInMemory(t)
	n := &noticeStream{stream: server, number: 1}
	for range 1000 {
		n.notify(transport.Notice{Kind: transport.ResourceUpdated, URI: "u"})
	}
	require.Equal(t, maxNoticesAhead, n.ahead)
	var sent []string
	gaps := map[uint64]bool{} // of which streams
	receive := func(until func() bool) {
		for !until() {
			all, err := far.next()
			require.NoError(t, err)
			for _, f := range all {
				var got notice
				require.NoError(t, json.Unmarshal(f.payload, &got))
				sent = append(sent, got.Kind)
				gaps[f.call] = gaps[f.call] || got.Kind == noticeGap
			}
		}
	}
	server.Start(&server.server.running)
	receive(func() bool { return gaps[1] })
	require.Len(t, sent, maxNoticesAhead+1, "the gap is the last one")
	require.Equal(t, []int{0, 0}, []int{n.ahead, n.bytes})
	require.Zero(t, server.noticeBytes.Load())

	big := transport.Notice{Kind: transport.ResourceUpdated, URI: strings.Repeat("u", framing.MaxChunk-100)}
	streams := make([]*noticeStream, 100)
	for i := range streams {
		streams[i] = &noticeStream{stream: server, number: uint64(i)}
		for range 20 { // more than one server may have
			streams[i].notify(big)
		}
		streams[i].mu.Lock()
		require.LessOrEqual(t, streams[i].bytes, maxNoticeBytesAhead)
		streams[i].mu.Unlock()
	}
	require.LessOrEqual(t, server.noticeBytes.Load(), int64(maxNoticeBytesStream))
	clear(gaps)
	receive(func() bool { return server.noticeBytes.Load() == 0 })
	require.Less(t, len(gaps), len(streams))
	for _, other := range streams { // those that had no room at all
		other.check()
	}
	receive(func() bool {
		for i := range streams {
			if !gaps[uint64(i)] {
				return false
			}
		}
		return true
	})
	for _, other := range streams {
		require.False(t, other.gap)
		require.Zero(t, other.ahead)
	}
	require.Zero(t, server.noticeBytes.Load())
}

// TestClient_Notices_hostile: a node that floods, or sends unknown messages, costs bounded memory.
func TestClient_Notices_hostile(t *testing.T) {
	a := newAuthority(t)
	entered := make(chan struct{}, 1)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
		s.send(welcome("b"))
		for {
			f, err := s.receive(messageCall)
			if err != nil {
				return
			}
			if c, _ := readCall(f.payload); c.method != methodNotices {
				s.send(whole(messageResult, f.call, []byte("1")))
				continue
			}
			s.send(whole(messageNotice, f.call, []byte(`{"kind":"open"}`)))
			<-entered
			s.send(whole(messageNotice, f.call, []byte(`{"kind":"of a later version"}`)))
			s.send(whole(messageNotice, f.call, []byte(`{"kind":"log"}`)))
			s.send(whole(messageNotice, f.call, []byte(`no JSON`)))
			large := whole(messageNotice, f.call, append([]byte(`{"kind":"resource_updated","uri":"`), strings.Repeat("x", framing.MaxChunk-100)+`"}`...))
			for range 500 { // 16 MB
				s.send(large)
			}
			s.send(whole(messageFailure, f.call, encodeFailure(errors.New("end"))))
		}
	})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	got, gaps := 0, 0
	var most int64
	err := c.Notices(within(t), "s", 1, func() {
		entered <- struct{}{}
		require.Eventually(t, func() bool { // it is slow until all has come
			most = max(most, c.reportBytes.Load())
			return answering(c)
		}, time.Minute, time.Millisecond)
	}, func(n transport.Notice) {
		if got++; n.Kind == transport.Gap {
			gaps++
		}
	})
	require.ErrorContains(t, err, "end")
	require.Positive(t, gaps)
	require.Less(t, got, 500)
	require.LessOrEqual(t, most, int64(maxReportBytes))
	require.Zero(t, c.reportBytes.Load())
	_, err = c.Route("s", 1).CallToolRaw(within(t), "s/x", nil)
	require.NoError(t, err, "the link lives")
}

// TestClient_hostile_task: a task that cannot be read ends the link.
func TestClient_hostile_task(t *testing.T) {
	a := newAuthority(t)
	for name, body := range map[string][]byte{
		"nothing":      {},
		"no id":        {0, 0},
		"half an id":   {0, 9, 'x'},
		"neither era":  {7, 1, 'x'},
		"a long id":    append([]byte{0, 0x81, 0x08}, make([]byte, maxTaskID+1)...),
		"a second end": nil,
	} {
		t.Run(name, func(t *testing.T) {
			address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
				s.send(welcome("b"))
				f, err := s.receive(messageCall)
				switch {
				case err != nil:
				case body == nil:
					s.send(begins(1, messageTask, f.call, 2*framing.MaxChunk, make([]byte, framing.MaxChunk)), whole(messageResult, f.call, nil))
				default:
					s.send(whole(messageTask, f.call, body))
				}
			})
			c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
			taken := &relay.TaskRelay{}
			_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", nil, relay.WithTaskRelay(taken))
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			require.Empty(t, taken.ID)
		})
	}
}

// BenchmarkClient_Notices opens the notices of 2,000 servers of one node, and passes one notice on
// for each.
func BenchmarkClient_Notices(b *testing.B) {
	const servers = 2000
	var before, after runtime.MemStats
	begin := make(chan struct{})
	c := noticing(b, nil, func(ctx context.Context, _ Request, opened func(), notify func(transport.Notice)) error {
		opened()
		select {
		case <-begin:
			notify(transport.Notice{Kind: transport.ResourceUpdated, URI: "file:///a"})
		case <-ctx.Done():
		}
		<-ctx.Done()
		return ctx.Err()
	})
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithCancel(context.Background())
		var open, got, ended sync.WaitGroup
		open.Add(servers)
		got.Add(servers)
		start := time.Now()
		for i := range servers {
			ended.Go(func() { _ = c.Notices(ctx, fmt.Sprint("s", i), 1, open.Done, func(transport.Notice) { got.Done() }) })
		}
		open.Wait()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "open-ms")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/1e6, "MB")
		start = time.Now()
		close(begin)
		got.Wait()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "all-ms")
		cancel()
		ended.Wait()
		begin = make(chan struct{})
	}
}
