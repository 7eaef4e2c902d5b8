package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
)

// The log messages of a call reach the client whose call it is, if it has asked for their level, and no
// other.
func TestLogMessages_of_a_call(t *testing.T) {
	onEveryAskingServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t, spec)
		log := func(s raw, id float64, text, meta string) {
			s.send(id, "tools/call", `{"name":"a/log","arguments":{"level":"warning","text":"`+text+`"}`+meta+`}`)
		}
		ann, bob := openRaw(t, Transport(c)), openRaw(t, Transport(c))
		for _, s := range []raw{ann, bob} {
			require.NoError(t, s.call("logging/setLevel", `{"level":"info"}`).Error)
		}
		log(ann, 2, "of ann", "")
		m, ok := ann.read().(*jsonrpc.Request)
		require.True(t, ok, "the message comes before the answer")
		require.Equal(t, "notifications/message", m.Method)
		require.Contains(t, string(m.Params), "of ann")
		require.NoError(t, ann.read().(*jsonrpc.Response).Error)
		require.NoError(t, bob.call("logging/setLevel", `{"level":"error"}`).Error)
		require.NoError(t, ann.call("logging/setLevel", `{"level":"info"}`).Error)
		log(bob, 3, "below", "")
		require.Equal(t, int64(3), bob.read().(*jsonrpc.Response).ID.Raw())
		require.NoError(t, ann.call("ping", "").Error, "it gets nothing of another's call")

		if spec.Era != mcpvisor.EraModern {
			return
		}
		modern := func(level string) string {
			return `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"` + level + `"}`
		}
		s := openRaw(t, Transport(c))
		log(s, 4, "of today", modern("info"))
		require.Contains(t, string(s.read().(*jsonrpc.Request).Params), "of today")
		require.NoError(t, s.read().(*jsonrpc.Response).Error)
		log(s, 5, "below", modern("error"))
		require.Equal(t, int64(5), s.read().(*jsonrpc.Response).ID.Raw())
		log(s, 6, "wrong", modern("loud"))
		require.ErrorContains(t, s.read().(*jsonrpc.Response).Error, "unknown log level")
	})
}

// Log messages that a client does not read are bounded, and the newest stay.
func TestOutbox_log_messages(t *testing.T) {
	out := newOutbox(defaultLimits(), nil)
	r := newRequest(t.Context(), &jsonrpc.Request{Method: "tools/call"}, out)
	for i := range 3 * notices.MaxLogs {
		out.addLog(r, mcpvisor.LogMessage{Level: "info", Text: fmt.Sprint(i)})
	}
	require.Len(t, out.queue, notices.MaxLogs)
	for range notices.MaxLogs {
		out.addLog(r, mcpvisor.LogMessage{Level: "info", Text: strings.Repeat("x", notices.MaxLogBytes/2)})
	}
	require.LessOrEqual(t, out.logBytes, notices.MaxLogBytes+answerCost*notices.MaxLogs)
	require.Len(t, out.queue, 2)
	for range 2 {
		m, ended := out.next()
		require.NotNil(t, m)
		require.Nil(t, ended)
	}
	require.Zero(t, out.logs)
	require.Zero(t, out.logBytes)
}
