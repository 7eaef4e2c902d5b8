package gateway

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

func defaultLimits() *Limits {
	l := Limits{}.withDefaults()
	return &l
}

// servePipe serves a session on a pipe, which has no buffer.
func servePipe(t *testing.T, transport mcp.Transport) (far net.Conn, ended <-chan error) {
	t.Helper()
	near, far := net.Pipe()
	result := make(chan error, 1)
	go func() { result <- Serve(t.Context(), transport, &mcp.IOTransport{Reader: near, Writer: near}) }()
	return far, result
}

// A client that reads nothing while more than 1 MiB waits behind the message that is being written is dropped. The
// others are served meanwhile, and their answers take no time.
func TestServe_deaf_client_is_dropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := Transport(newClient(t, legacyFixture("a")))
		other := openRaw(t, transport)
		far, ended := servePipe(t, transport)
		begin := time.Now()
		for i := range 12 { // the first answer is being written
			_, err := io.WriteString(far, toolCallOf(i, "a/big", `{"bytes":100000}`)+"\n")
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Empty(t, ended)
		require.NoError(t, other.callWith(1, "tools/call", `{"name":"a/echo","arguments":{"text":"x"}}`).Error)
		require.Zero(t, time.Since(begin))
		require.ErrorIs(t, <-ended, ErrPeerDoesNotRead)
		require.Less(t, time.Since(begin), DefaultStallTimeout+closeTimeout+time.Second)
		require.NoError(t, other.callWith(2, "tools/call", `{"name":"a/echo","arguments":{"text":"x"}}`).Error)
	})
}

// A client that has closed its side, and reads nothing, delays the end of its session by little, though a write to it
// does not end: the stdout of a process cannot be closed under a write.
func TestServe_deaf_client_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := Transport(newClient(t, legacyFixture("a")))
		in, host := io.Pipe()
		unread, out := io.Pipe()
		defer func() { _ = unread.Close() }()
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(t.Context(), transport, &mcp.IOTransport{Reader: in, Writer: openEnd{out}})
		}()
		_, err := io.WriteString(host, pingRequest+"\n")
		require.NoError(t, err)
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, host.Close())
		require.NoError(t, <-ended)
		require.LessOrEqual(t, time.Since(begin), endTimeout+closeTimeout)
		require.Less(t, endTimeout+closeTimeout, 4*time.Second)
	})
}

// openEnd is a writer that stays open.
type openEnd struct{ io.Writer }

// Close implements io.Closer.
func (openEnd) Close() error { return nil }

// One that leaves less unread, or one large answer alone, costs little and may continue later.
func TestServe_client_that_pauses_continues(t *testing.T) {
	for name, calls := range map[string][]string{
		"less than 1 MiB waits": {`{"bytes":100000}`, `{"bytes":100000}`, `{"bytes":100000}`},
		"one large answer":      {`{"bytes":20000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far, ended := servePipe(t, Transport(newClient(t, legacyFixture("a"))))
				for i, arguments := range calls {
					_, err := io.WriteString(far, toolCallOf(i, "a/big", arguments)+"\n")
					require.NoError(t, err)
				}
				time.Sleep(time.Hour)
				lines := bufio.NewReader(far)
				for range calls {
					line, err := lines.ReadBytes('\n')
					require.NoError(t, err)
					require.True(t, json.Valid(line))
				}
				require.NoError(t, far.Close())
				require.NoError(t, <-ended)
			})
		})
	}
}

// A client that reads slowly is not deaf, whatever waits: here 20 MB, and behind it 2 MB.
func TestServe_slow_client_is_served(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, ended := servePipe(t, Transport(newClient(t, legacyFixture("a"))))
		_, err := io.WriteString(far, toolCallOf(0, "a/big", `{"bytes":20000000}`)+"\n")
		require.NoError(t, err)
		synctest.Wait()
		const others = 20
		for i := range others {
			_, err := io.WriteString(far, toolCallOf(i+1, "a/big", `{"bytes":100000}`)+"\n")
			require.NoError(t, err)
		}
		lines := bufio.NewReaderSize(slowly{far}, message.PieceBytes)
		for range 1 + others {
			line, err := lines.ReadBytes('\n')
			require.NoError(t, err)
			require.True(t, json.Valid(line))
		}
		require.NoError(t, far.Close())
		require.NoError(t, <-ended)
	})
}

// slowly reads so that the peer nearly counts as deaf: a piece takes two reads.
type slowly struct{ io.Reader }

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(DefaultStallTimeout/2 - time.Second)
	return s.Reader.Read(b)
}

// A peer that stops in the middle is dropped, though it has read before.
func TestOutbox_stalls_after_it_was_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := newOutbox(defaultLimits(), nil)
		var stalled atomic.Bool
		out.stalled = func() { stalled.Store(true) }
		add := func(n int) {
			for i := range n {
				r := newRequest(t.Context(), numbered("tools/call", "")(i), out)
				require.True(t, out.addAnswer(r, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage(strings.Repeat("x", 100_000))}))
			}
		}
		add(30)
		for range 15 {
			time.Sleep(DefaultStallTimeout - time.Second)
			m, _ := out.next()
			require.NotNil(t, m)
			require.False(t, stalled.Load())
		}
		time.Sleep(2 * DefaultStallTimeout)
		require.True(t, stalled.Load())

		stalled.Store(false)
		add(1) // it is watched again
		time.Sleep(DefaultStallTimeout + time.Second)
		require.True(t, stalled.Load())
		stalled.Store(false)
		add(1)
		out.close()
		time.Sleep(2 * DefaultStallTimeout)
		require.False(t, stalled.Load())
	})
}

// Of a batch that is not read only as much waits as MaxUnreadBytes says. It ends, and its session continues.
func TestHandler_batch_that_is_not_read(t *testing.T) {
	c := newClient(t, legacyFixture("a"))
	_, url := serveHTTP(t, c, WithLimits(Limits{MaxUnreadBytes: 4 << 20}))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	status, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`) // it keeps the session
	require.Equal(t, http.StatusOK, status, answer)
	calls := make([]string, 60)
	for i := range calls {
		calls[i] = toolCallOf(i, "a__big", `{"bytes":1000000}`)
	}
	response := p.do(t.Context(), http.MethodPost, "["+strings.Join(calls, ",")+"]")
	until(t, func() bool { return c.Stats().Calls > 0 && len(c.CallsInFlight()) == 0 })
	status, answer = p.post(pingRequest)
	require.Equal(t, http.StatusOK, status, answer)
	read, _ := io.Copy(io.Discard, response.Body)
	require.Less(t, read, int64(len(calls)*1_000_000), "not all of them were kept")
}
