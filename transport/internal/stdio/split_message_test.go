package stdio

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestSplitMessage: a response over several lines fails its own call at once, and no
// other call.
func TestSplitMessage(t *testing.T) {
	pretty := func(v any) string {
		text, err := json.MarshalIndent(v, "", "  ")
		require.NoError(t, err)
		return string(text)
	}
	t.Run("in_a_call", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		first, second := p.startRequest(t.Context(), transport.Request{Method: "m"}), p.startRequest(t.Context(), transport.Request{Method: "m"})
		a, b := p.readMessage(), p.readMessage()
		if a.ID > b.ID {
			first, second = second, first
		}
		ids := []int64{min(a.ID, b.ID), max(a.ID, b.ID)}
		if id := ids[0]; id != jsonrpc.FirstID+1 {
			require.FailNow(t, "ids")
		}
		p.writeLine("%s", pretty(map[string]any{"jsonrpc": "2.0", "id": a.ID, "result": map[string]any{"text": "a } \" b", "list": []any{1, map[string]any{}}}}))
		p.writeLine(`{"id":%d,"result":2}`, b.ID)
		got := []outcome{<-first, <-second}
		failed, served := got[0], got[1]
		if failed.err == nil {
			failed, served = served, failed
		}
		require.ErrorContains(t, failed.err, "over several lines")
		require.Equal(t, mcpvisor.KindProtocol, failed.err.Kind)
		require.Equal(t, mcpvisor.OutcomeAnswered, failed.err.Outcome)
		require.Equal(t, outcome{result: "2"}, served)
	})
	t.Run("in_the_handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: replyServer(func(_ io.Writer, e jsonrpc.Envelope) string {
				return "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": " + string(e.ID) + ",\n  \"result\": {\n    \"capabilities\": {}\n  }\n}"
			})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			require.NoError(t, err)
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			began := time.Now()
			require.ErrorContains(t, s.Open(t.Context()), "over several lines")
			require.Less(t, time.Since(began), time.Second)
		})
	})
	t.Run("cut_short", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine("{\n  \"id\": %d,", id) // the rest is never written
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.EqualValues(t, 2, p.discarded.Counts().Malformed)
	})
	t.Run("too_long", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		p.writeLine("{\n\"id\": %d,\n\"result\": [", p.readMessage().ID)
		for range maxSplitBytes/100 + 1 {
			p.writeLine(`"%s",`, strings.Repeat("x", 100))
		}
		require.ErrorContains(t, (<-ended).err, "over several lines")
		p.writeLine("1]}")
		ended = p.startRequest(t.Context(), transport.Request{Method: "m"})
		p.writeLine(`{"id":%d,"result":1}`, p.readMessage().ID)
		require.Equal(t, outcome{result: "1"}, <-ended)
	})
}
