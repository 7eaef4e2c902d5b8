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
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
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
		testutil.RunInBubble(t, name, func(t *testing.T) {
			d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
				go func() { _, _ = io.Copy(io.Discard, stdin) }()
				_, _ = io.WriteString(stdout, tc.output)
				<-ctx.Done()
				return nil
			}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			d.(*dialer).redactor = func(text string) string { return strings.ReplaceAll(text, "hunter2-of-the-host", "[redacted]") }
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cause := testutil.AsError[*supervisor.Cause](t, s.Open(ctx))
			require.Equal(t, supervisor.CauseTimeout, cause.Kind)
			out := s.Info().StrayOutput
			require.Equal(t, tc.reason, out.Reason)
			require.LessOrEqual(t, len(out.Text), jsonrpc.MaxStrayShown)
			require.Truef(t, strings.HasPrefix(out.Text, tc.shown), "%q", out.Text)
			require.Contains(t, cause.Message, fmt.Sprintf("%q (%s)", out.Text, tc.reason))
			require.NotContains(t, cause.Message, "hunter2")
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

// TestRedactor_hides_secrets: environment variables and arguments that look like secrets
// are hidden.
func TestRedactor_hides_secrets(t *testing.T) {
	const canary = "canary-0815"
	line := func(text string) string { return "server printed: " + text }
	for name, s := range map[string]mcpvisor.Stdio{
		"a name in the environment": {Env: map[string]string{"OPENAI_API_KEY": canary}},
		"a password":                {Env: map[string]string{"DB_PASSWORD": canary}},
		"a short name":              {Env: map[string]string{"GH_PAT": canary}},
		"a flag":                    {Args: []string{"--api-key", canary}},
		"a flag and a value":        {Args: []string{"--token=" + canary}},
		"a URL with a password":     {Env: map[string]string{"DATABASE_URL": "postgres://me:" + canary + "@host/db"}},
		"a URL as an argument":      {Args: []string{"postgres://me:" + canary + "@host/db"}},
		"one line of many":          {Env: map[string]string{"PRIVATE_KEY": "-----BEGIN-----\n" + canary + "\n-----END-----"}},
	} {
		v := stdioRedactor(&s)
		require.NotNil(t, v, name)
		require.NotContains(t, v.Text(line(canary)), canary, name)
		require.NotContains(t, string(v.JSON([]byte(`{"message":"bad `+canary+`","data":["`+canary+`"]}`))), canary, name)
	}
	for _, token := range []string{"sk-proj-abcdefgh12345678", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "eyJhbGciOiJIUzI1NiJ9.e30.sig",
		"0123456789abcdef0123456789abcdef", "aB3dE6gH9jK2mN5pQ8sT1vW4"} {
		v := stdioRedactor(&mcpvisor.Stdio{Args: []string{token}})
		require.NotNil(t, v, token)
		require.NotContains(t, v.Text(line(token)), token)
	}
}

// The secrets in inherited variables are those at the time of the call.
func TestRedactor_inherited_variables(t *testing.T) {
	for _, canary := range []string{"canary-first", "canary-second", "canary-first"} {
		t.Setenv("HOST_TOKEN", canary)
		v := stdioRedactor(&mcpvisor.Stdio{InheritEnv: true, Env: map[string]string{"OWN_TOKEN": "canary-own"}})
		require.Equal(t, secret.Mask+" "+secret.Mask, v.Text(canary+" canary-own"))
	}
}

// TestRedactor_secrets_of_the_specification: what the host declares as a secret is
// hidden on every transport, though neither its name nor its form shows that it is one.
func TestRedactor_secrets_of_the_specification(t *testing.T) {
	const text = "correct horse"
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"stdio":  {Stdio: &mcpvisor.Stdio{Command: "server", Args: []string{text}, Env: map[string]string{"API_KEY": transporttest.Secret}}},
		"memory": {InMemory: &mcpvisor.InMemory{}},
	} {
		spec.Secrets = []string{text}
		d := NewDialer(spec, transport.Options{})
		require.Equal(t, "no ***", d.(*dialer).redactor.Text("no "+text), name)
		if spec.Stdio != nil {
			require.Equal(t, "***", d.(*dialer).redactor.Text(transporttest.Secret), "a variable of the environment")
		}
	}
}

// TestRedactor_shows_other_text: text that explains a failure is shown.
func TestRedactor_shows_other_text(t *testing.T) {
	for _, text := range []string{"/srv/projects/some-long-name-2025", "@modelcontextprotocol/server-filesystem", "production",
		"postgres://host/db", "--root", "monkey", "en_US.UTF-8", "some-package-name-with-words", "C:\\Users\\me\\Documents\\Project1"} {
		require.Nil(t, stdioRedactor(&mcpvisor.Stdio{Args: []string{text}, Env: map[string]string{"SETTING": text}}), text)
	}
	require.Nil(t, stdioRedactor(&mcpvisor.Stdio{Env: map[string]string{"API_KEY": "short"}}), "a short secret cannot be distinguished from other words")
}
