package stdio

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// encodeUTF16 encodes a text in UTF-16, little endian.
func encodeUTF16(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		b.WriteByte(byte(unit))
		b.WriteByte(byte(unit >> 8))
	}
	return b.String()
}

// TestStrayOutput: the cause of a failed start quotes what the server wrote in place of
// messages, with the likely reason.
func TestStrayOutput(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, tc := range map[string]struct{ output, shown, reason string }{
		"prompt_without_line_end":  {"Need to install x@1.0.0\nOk to proceed? (y) ", "Ok to proceed? (y)", reasonQuestion},
		"question":                 {"Ok to proceed? (y) ", "Ok to proceed? (y)", reasonQuestion},
		"question_with_a_line_end": {"Overwrite the file? [y/N]\n", "Overwrite the file? [y/N]", reasonQuestion},
		"password":                 {"Password: ", "Password:", reasonQuestion},
		"banner":                   {"Welcome to the server\n", "Welcome to the server", jsonrpc.StrayLog},
		"banner_without_line_end":  {"Ready." + answer + "\n", "Ready." + answer, reasonPrefixed},
		"prefix":                   {"2026-01-01 INFO " + answer + "\n", "2026-01-01 INFO " + answer, reasonPrefixed},
		"docker":                   {"\x01\x00\x00\x00\x00\x00\x00\x25" + answer + "\n", "%" + answer, reasonDocker},
		"UTF-16":                   {encodeUTF16(answer + "\n"), answer, reasonUTF16},
		"UTF-16_with_a_mark":       {"\xff\xfe" + encodeUTF16(answer+"\n"), "\uFFFD" + answer, reasonUTF16},
		"ANSI":                     {"\x1b[32mready\x1b[0m\n", "[32mready[0m", reasonANSI},
		"Content-Length":           {"Content-Length: 37\r\n\r\n" + answer, "Content-Length: 37", reasonContentLength},
		"secret":                   {"token is hunter2-of-the-host\n", "token is [redacted]", jsonrpc.StrayLog},
		"long":                     {strings.Repeat("long ", 1000) + "\n", "long long", jsonrpc.StrayLog},
		"several_lines":            {"{\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"x\"\n}\n", "{", reasonSplit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
					go func() { _, _ = io.Copy(io.Discard, stdin) }()
					_, _ = io.WriteString(stdout, tc.output)
					<-ctx.Done()
					return nil
				}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
				require.NoError(t, err)
				d.(*dialer).redactor = func(text string) string { return strings.ReplaceAll(text, "hunter2-of-the-host", "[redacted]") }
				s := d.NewSession()
				transporttest.ReleaseAtEnd(t, s)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var cause *supervisor.Cause
				require.ErrorAs(t, s.Open(ctx), &cause)
				require.Equal(t, supervisor.CauseTimeout, cause.Kind)
				out := s.Info().StrayOutput
				require.Equal(t, tc.reason, out.Reason)
				require.LessOrEqual(t, len(out.Text), jsonrpc.MaxStrayShown)
				require.Truef(t, strings.HasPrefix(out.Text, tc.shown), "%q", out.Text)
				require.Contains(t, cause.Message, fmt.Sprintf("%q (%s)", out.Text, tc.reason))
				require.NotContains(t, cause.Message, "hunter2")
			})
		})
	}
}

// TestStrayOutput_in_a_timeout: the error of a timeout quotes what the server wrote
// during the call, and not what it wrote before.
func TestStrayOutput_in_a_timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		p.writeLine("hello")
		synctest.Wait()
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
		p.readMessage()
		go p.readMessage() // reads the cancellation
		require.NoError(t, (<-ended).err.Cause)
		synctest.Wait()
		ended = p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
		p.readMessage()
		_, err := io.WriteString(p.out, "Continue? ")
		require.NoError(t, err)
		go p.readMessage()
		defer synctest.Wait()
		require.ErrorContains(t, (<-ended).err, `meanwhile the server wrote to its stdout what is not JSON-RPC: "Continue?" (it asks a question`)
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
		p.readMessage()
		_, err := io.WriteString(p.out, `{"jsonrpc":"2.0"`)
		require.NoError(t, err)
		go p.readMessage()
		defer synctest.Wait()
		require.ErrorContains(t, (<-ended).err, `meanwhile the server wrote 16 bytes without a line end to its stdout: "{\"jsonrpc\":\"2.0\""`)
	})
}
