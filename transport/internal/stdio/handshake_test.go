package stdio

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestHandshake_unusable_responses_fail_their_request: a response that cannot be
// used fails the request with its id. A log line with the same id does not.
func TestHandshake_unusable_responses_fail_their_request(t *testing.T) {
	p := newPeer(t, osPipe, 1000)
	for i, line := range []string{`{"jsonrpc":"2.0","id":%d}`, `{"jsonrpc":"2.0","id":%d,"error":null}`,
		`{"jsonrpc":"2.0","id":%d,"result":"` + strings.Repeat("long", 1000) + `"}`} {
		id := int64(3 + i)
		answered := p.callOfSDK(id)
		p.writeLine(`{"id":%d,"level":"info"}`, id) // a log line
		p.writeLine(line, 9)                        // an id without a request
		p.writeLine(line, id)
		p.writeLine(line, id) // the request has its response already
		r := <-answered
		require.Equal(t, id, r.ID.Raw())
		require.ErrorContains(t, r.Error, []string{"neither a result nor an error", "neither a result nor an error", "longer than 1000 bytes"}[i])
	}
	require.Eventually(t, func() bool { return p.discarded.Counts() == mcpvisor.Discarded{Malformed: 7, Oversize: 3} }, transporttest.Patience, transporttest.TimeStep)
}

// TestHandshake_response_is_copied: lines that are read later do not overwrite a response.
func TestHandshake_response_is_copied(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	want := `{"a":"` + strings.Repeat("a", 3000) + `"}`
	answered := p.callOfSDK(1)
	p.writeLine(`{"id":1,"result":%s}`, want) // the member "jsonrpc" is missing
	const lines = 2 * jsonrpc.ReadBufferSize / 100
	for range lines {
		p.writeLine("%s", strings.Repeat("X", 100))
	}
	require.Eventually(t, func() bool { return p.discarded.Counts().Malformed == lines }, transporttest.Patience, transporttest.TimeStep)
	require.JSONEq(t, want, string((<-answered).Result))
}

// TestHandshake_accepts_ids_as_strings: some servers return numeric ids as strings.
func TestHandshake_accepts_ids_as_strings(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	unmatched := uint64(0)
	for _, id := range []string{`3`, `"3"`, `3.0`, `"3.0"`} {
		for _, message := range []string{`{"jsonrpc":"2.0","id":%s,"result":{}}`, `{"id":%s,"result":{}}`, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m"}}`,
			`{"id":%s,"error":{"code":1,"message":"m"}}`} {
			answered := p.callOfSDK(3)
			p.writeLine(message, id)
			p.writeLine(message, id) // unmatched: the request has its response already
			r := <-answered
			require.Equal(t, int64(3), r.ID.Raw())
			if strings.Contains(message, "error") {
				require.ErrorContains(t, r.Error, "m")
			} else {
				require.NoError(t, r.Error)
			}
			unmatched++
			require.Eventually(t, func() bool { return p.discarded.Counts().Unmatched == unmatched }, transporttest.Patience, transporttest.TimeStep)
		}
	}
	p.writeLine(`{"jsonrpc":"2.0","id":"3","method":"ping"}`)
	require.Equal(t, `"3"`, string(p.readRefusal().ID), "a request has the id that its answer must have")
}

// TestHandshake_unanswered: a request of the handshake that is never answered is no call. Neither
// does it use up the requests that a server may send, nor is it listed.
func TestHandshake_unanswered(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	p.callOfSDK(1)
	for range 2 * jsonrpc.MaxRequestsPerCall {
		require.True(t, p.table.CountRequest(0))
	}
	require.Empty(t, p.table.InFlight())
}

// TestHandshake_with_ids_as_strings: a whole handshake with a server that returns
// numeric ids as strings.
func TestHandshake_with_ids_as_strings(t *testing.T) {
	quoting := func(_ io.Writer, e jsonrpc.Envelope) string {
		if string(e.Method) == `"initialize"` {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, e.ID)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","error":{"code":-32601,"message":"no"}}`, e.ID)
	}
	s := openMemory(t, replyServer(quoting))
	require.Equal(t, "2025-06-18", s.Info().ProtocolVersion)
}
