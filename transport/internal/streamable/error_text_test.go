package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

const (
	forgedJSON = `\u001b]0;owned\u0007\u001b[2J refused\r\nlevel=info msg=forged`
	forgedData = `{"raw":"\u001b[2J"}`
)

// requireOneLine asserts that the texts of an error, and of the errors that it wraps, are
// one line without escape sequences.
func requireOneLine(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = unwrapOne(err) {
		require.NotContains(t, err.Error(), "\x1b")
		require.NotContains(t, err.Error(), "\a")
		require.NotContains(t, err.Error(), "\r")
		require.NotContains(t, err.Error(), "\n")
	}
}

// unwrapOne returns the error that err wraps; nil if err wraps no error or several errors.
func unwrapOne(err error) error {
	u, _ := err.(interface{ Unwrap() error })
	if u == nil {
		return nil
	}
	return u.Unwrap()
}

// forgingServer serves a server whose errors contain escape sequences and line breaks.
func forgingServer(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
	refused := &rewriter{WriteCloser: stdout}
	return transporttest.LegacyServer(nil)(context.Background(), stdin, refused, stderr)
}

// rewriter replaces the text of errors with forgedJSON.
type rewriter struct{ io.WriteCloser }

func (r *rewriter) Write(p []byte) (int, error) {
	text := strings.ReplaceAll(string(p), `"message":"no such method"`, `"message":"`+forgedJSON+`","data":`+forgedData)
	_, err := io.WriteString(r.WriteCloser, text)
	return len(p), err
}

// Escape sequences and line breaks in a server's error message do not appear in the error,
// over both transports.
func TestErrorText_ofServer(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("prompts/get", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"%s","data":%s}}`, id, forgedJSON, forgedData)
	})
	for name, s := range map[string]transport.Session{"memory": openPipes(t, forgingServer), "HTTP": openSession(t, specFor(web.URL))} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Request(transporttest.Context(t), transport.Request{Method: "prompts/get"})
			requireOneLine(t, err)
			require.ErrorContains(t, err, "refused  level=info msg=forged")
			var rpc *sdkrpc.Error
			require.ErrorAs(t, err, &rpc)
			require.Equal(t, forgedData, string(rpc.Data))
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
		})
	}
	bare := jsonrpc.ServerError(json.RawMessage(`"` + forgedJSON + `"`))
	requireOneLine(t, bare)
}

// Escape sequences and line breaks do not appear in the error of a failed start either.
func TestErrorText_failedOpen(t *testing.T) {
	refusal := &sdkrpc.Error{Code: -32000, Message: "\x1b[2J no\r\nforged"}
	for _, err := range []error{refusal, fmt.Errorf("calling initialize: %w", refusal), io.EOF,
		fmt.Errorf("unsupported protocol version: %w", refusal), fmt.Errorf("odd\nend")} { //nolint:err113,perfsprint // a test
		cause := jsonrpc.OpenCause(t.Context(), err, nil)
		requireOneLine(t, &mcpvisor.Error{Kind: mcpvisor.KindStart, Cause: fmt.Errorf("%s", cause.Message)}) //nolint:err113 // a test
	}
	for _, text := range []string{"unsupported\x1b[2J", "text/plain"} {
		web := newHTTPServer(t)
		web.handle("initialize", replyStatus(400, "text/plain", "\x1b[2J"+text+"\rmore"))
		cause := requireOpenFails(t, specFor(web.URL))
		requireOneLine(t, cause)
		require.NotContains(t, cause.Message, "\x1b")
	}
}
