package stdio

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// TestConn_matches_responses: each response reaches the caller of its request, in any
// order.
func TestConn_matches_responses(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	const calls = 50
	asked := map[string]<-chan outcome{}
	for i := range calls {
		asked[fmt.Sprintf(`{"n":%d}`, i)] = p.startRequest(t.Context(), transport.Request{Method: "m", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	ids := map[int64]string{}
	for range calls {
		m := p.readMessage()
		require.Equal(t, "m", m.Method)
		require.Greater(t, m.ID, jsonrpc.FirstID)
		require.NotContains(t, ids, m.ID)
		ids[m.ID] = string(m.Params)
	}
	for id, params := range ids { // in any order
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, params)
	}
	for params, ended := range asked {
		require.Equal(t, outcome{result: params}, <-ended)
	}
	require.Zero(t, p.discarded.Counts())
	require.NotZero(t, p.lastReceived.Time())
}

// TestConn_skips_malformed_lines: lines that are not messages are counted and affect no
// call.
func TestConn_skips_malformed_lines(t *testing.T) {
	p := newPeer(t, osPipe, 4<<10)
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	id := p.readMessage().ID
	for _, malformed := range []string{"hello", "{", "[", `[1,"a"]`, "7", `{"a":1}`, `{"id":1}`, "\x1b[31mred\x1b[0m", "\xff\xfe"} {
		p.writeLine("%s", malformed)
	}
	p.writeLine("\n  \r\n\t") // empty lines are not counted
	p.writeLine(`{"id":%d,"result":0}`, id+1000)
	p.writeLine(`{"id":%d,"result":1}`, id)
	require.Equal(t, outcome{result: "1"}, <-ended)
	p.writeLine(`{"id":%d,"result":2}`, id) // a second response
	p.writeLine("%s", strings.Repeat("x", 5<<10))
	require.Eventually(t, func() bool {
		return p.discarded.Counts() == mcpvisor.Discarded{Malformed: 10, Oversize: 1, Unmatched: 2}
	}, 10*time.Second, time.Millisecond)
}

// TestConn_ids_of_the_handshake: responses to the go-sdk, calls, and requests of the server with
// the same ids do not disturb each other.
func TestConn_ids_of_the_handshake(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	id := p.readMessage().ID
	answered := p.callOfSDK(3)
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"id":%d}}`, id)
	p.writeLine(`{"jsonrpc":"2.0","id":3,"result":{"sdk":true}}`)
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) // a request of the server with the same id
	p.writeLine(`{"id":%d,"result":1}`, id)
	require.Equal(t, outcome{result: "1"}, <-ended)
	require.Equal(t, id, p.readMessage().ID, "the ping is answered")
	require.JSONEq(t, `{"sdk":true}`, string((<-answered).Result))
	require.Zero(t, p.discarded.Counts())
}

var errEnded = &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Stderr: []string{"bye"}}

// TestConn_end_fails_all_requests: the end of the connection fails requests in flight,
// queued lines, and later requests.
func TestConn_end_fails_all_requests(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	seen := p.startRequest(t.Context(), transport.Request{Method: "seen", Timeout: time.Hour})
	require.Equal(t, "seen", p.readMessage().Method)
	p.fillPipe()
	var waiting []<-chan outcome
	for range 20 {
		waiting = append(waiting, p.startRequest(t.Context(), transport.Request{Method: "waiting"}))
	}
	sent := make(chan error, 1)
	go func() { sent <- p.sendLine(t.Context(), []byte("x\n")) }()
	require.Eventually(t, func() bool {
		p.table.Mu.Lock()
		defer p.table.Mu.Unlock()
		return p.table.Open.Len() == 21
	}, 10*time.Second, time.Millisecond)

	require.True(t, p.end(errEnded))
	require.False(t, p.end(&supervisor.Cause{Kind: supervisor.CauseProbe}), "only the first cause counts")
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
	for _, ended := range waiting {
		check(<-ended, mcpvisor.OutcomeNotSent)
	}
	require.ErrorIs(t, <-sent, io.ErrClosedPipe)

	check(<-p.startRequest(t.Context(), transport.Request{Method: "late"}), mcpvisor.OutcomeNotSent)
	require.False(t, p.postLine(&outgoing{text: []byte("x\n")}))
	require.ErrorIs(t, p.sendLine(t.Context(), []byte("x\n")), io.ErrClosedPipe)
	require.Zero(t, p.table.Open.Len())
}
