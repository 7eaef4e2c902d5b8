package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

// oddNotifications is every notification that the go-sdk's client handles, and
// one that it does not, with parameters that are missing or no object.
func oddNotifications() (lines []string, missing int) {
	for _, method := range []string{"cancelled", "progress", "message", "resources/updated", "elicitation/complete",
		"subscriptions/acknowledged", "tools/list_changed", "prompts/list_changed", "resources/list_changed", "of/our/own"} {
		for _, params := range []string{``, `,"params":null`, `,"params":[]`, `,"params":["x"]`, `,"params":"x"`, `,"params":7`, `,"params":true`} {
			lines = append(lines, `{"jsonrpc":"2.0","method":"notifications/`+method+`"`+params+`}`)
		}
	}
	// The last four may come without parameters.
	return lines, 4 * 2
}

// sayer is a legacy server that says all lines before it answers the first
// call, and then asks for a sign of life.
func sayer(lines []string, answered chan<- struct{}) serveFunc {
	return func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		in := bufio.NewScanner(stdin)
		for in.Scan() {
			e, _ := ScanEnvelope(in.Bytes())
			switch string(e.Method) {
			case `"initialize"`:
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n", e.ID)
			case `"server/discover"`:
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", e.ID)
			case `"tools/call"`:
				for _, line := range lines {
					fmt.Fprintln(stdout, line)
				}
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":"alive","method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.ID)
			case "":
				if string(e.ID) == `"alive"` {
					close(answered)
				}
			}
		}
		return in.Err()
	}
}

// TestNotificationsMustBeWellFormed: the go-sdk takes the parameters of a
// notification for granted, in a goroutine of its own. What it would not
// survive, it does not get.
func TestNotificationsMustBeWellFormed(t *testing.T) {
	lines, missing := oddNotifications()
	t.Run("memory", func(t *testing.T) {
		answered := make(chan struct{})
		s := openMemory(t, sayer(lines, answered))
		_, err := s.Request(t.Context(), tinyCall("a"))
		require.NoError(t, err)
		requireClosed(t, answered, "the go-sdk answers a ping behind them")
		require.EqualValues(t, len(lines)-missing, s.Info().Discarded.Malformed)
		require.Nil(t, s.Cause())
	})
	t.Run("HTTP", func(t *testing.T) {
		web := newScripted(t)
		answered := make(chan struct{})
		web.handle("", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			close(answered)
		})
		web.handle("tools/call", oneTime(func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			say := sayEvents(w)
			for _, line := range append(lines, `{"jsonrpc":"2.0","id":"alive","method":"ping"}`) {
				say("data: %s\n\n", line)
			}
			say("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, hello)
		}))
		s := openHTTP(t, httpSpec(web.URL))
		requireServing(t, s)
		requireClosed(t, answered, "the go-sdk answers a ping behind them")
		require.EqualValues(t, len(lines)-missing, s.Info().Discarded.Malformed)
		require.Nil(t, s.Cause())
	})
}

// TestNotificationsPassWithParameters: what the protocol allows reaches the
// go-sdk.
func TestNotificationsPassWithParameters(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for _, said := range []string{
		`"notifications/elicitation/complete","params":{"elicitationId":"e"}`,
		`"notifications/of/others"`, `"notifications/of/others","params":null`, `"notifications/of/our/own"`,
	} {
		p.say(`{"jsonrpc":"2.0","method":%s}`, said)
		m, err := p.control.Read(t.Context())
		require.NoError(t, err)
		require.False(t, m.(*sdkrpc.Request).IsCall())
	}
	p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params": {} }`)
	p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"of nothing"}}`)
	p.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.EqualValues(t, 1, p.read().ID)
	require.Zero(t, p.noise.Counts())
}
