package stdio

import (
	"context"
	"encoding/json"
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
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// wide is a text in UTF-16, little endian.
func wide(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		b.WriteByte(byte(unit))
		b.WriteByte(byte(unit >> 8))
	}
	return b.String()
}

// What a server writes instead of messages is quoted in the cause of its failed
// start, with the likely reason.
func TestStrayOutput(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, tc := range map[string]struct{ said, shown, reason string }{
		"prompt_without_line_end":  {"Need to install x@1.0.0\nOk to proceed? (y) ", "Ok to proceed? (y)", strayQuestion},
		"question":                 {"Ok to proceed? (y) ", "Ok to proceed? (y)", strayQuestion},
		"question_with_a_line_end": {"Overwrite the file? [y/N]\n", "Overwrite the file? [y/N]", strayQuestion},
		"password":                 {"Password: ", "Password:", strayQuestion},
		"banner":                   {"Welcome to the server\n", "Welcome to the server", jsonrpc.StrayLog},
		"banner_without_line_end":  {"Ready." + answer + "\n", "Ready." + answer, strayPrefixed},
		"prefix":                   {"2026-01-01 INFO " + answer + "\n", "2026-01-01 INFO " + answer, strayPrefixed},
		"docker":                   {"\x01\x00\x00\x00\x00\x00\x00\x25" + answer + "\n", "%" + answer, strayDocker},
		"UTF-16":                   {wide(answer + "\n"), answer, strayUTF16},
		"UTF-16_with_a_mark":       {"\xff\xfe" + wide(answer+"\n"), "\uFFFD" + answer, strayUTF16},
		"ANSI":                     {"\x1b[32mready\x1b[0m\n", "[32mready[0m", strayANSI},
		"Content-Length":           {"Content-Length: 37\r\n\r\n" + answer, "Content-Length: 37", strayLength},
		"secret":                   {"token is hunter2-of-the-host\n", "token is [redacted]", jsonrpc.StrayLog},
		"long":                     {strings.Repeat("long ", 1000) + "\n", "long long", jsonrpc.StrayLog},
		"several_lines":            {"{\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"x\"\n}\n", "{", strayLines},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
					go func() { _, _ = io.Copy(io.Discard, stdin) }()
					_, _ = io.WriteString(stdout, tc.said)
					<-ctx.Done()
					return nil
				}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
				require.NoError(t, err)
				d.(*pipedDialer).redactor = func(text string) string { return strings.ReplaceAll(text, "hunter2-of-the-host", "[redacted]") }
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

// What comes while a call is under way explains its timeout; what came before
// does not.
func TestStrayOutput_in_a_timeout(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		p.say("hello")
		synctest.Wait()
		ended := p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
		p.read()
		go p.read() // the cancellation
		require.NoError(t, (<-ended).err.Cause)
		synctest.Wait()
		ended = p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
		p.read()
		_, err := io.WriteString(p.out, "Continue? ")
		require.NoError(t, err)
		go p.read()
		defer synctest.Wait()
		require.ErrorContains(t, (<-ended).err, `meanwhile the server wrote to its stdout what is not JSON-RPC: "Continue?" (it asks a question`)
	})
}

// An answer over several lines fails its call at once, and no other.
func TestSeveralLines(t *testing.T) {
	pretty := func(v any) string {
		text, err := json.MarshalIndent(v, "", "  ")
		require.NoError(t, err)
		return string(text)
	}
	t.Run("in_a_call", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		first, second := p.ask(t.Context(), transport.Request{Method: "m"}), p.ask(t.Context(), transport.Request{Method: "m"})
		a, b := p.read(), p.read()
		if a.ID > b.ID {
			first, second = second, first
		}
		ids := []int64{min(a.ID, b.ID), max(a.ID, b.ID)}
		if id := ids[0]; id != jsonrpc.FirstID+1 {
			require.FailNow(t, "ids")
		}
		p.say("%s", pretty(map[string]any{"jsonrpc": "2.0", "id": a.ID, "result": map[string]any{"text": "a } \" b", "list": []any{1, map[string]any{}}}}))
		p.say(`{"id":%d,"result":2}`, b.ID)
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
		transporttest.InBubble(t, func(t *testing.T) {
			d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: answering(func(_ io.Writer, e jsonrpc.Envelope) string {
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
		ended := p.ask(t.Context(), transport.Request{Method: "m"})
		id := p.read().ID
		p.say("{\n  \"id\": %d,", id) // the rest never comes
		p.say(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.EqualValues(t, 2, p.noise.Counts().Malformed)
	})
	t.Run("too_long", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.ask(t.Context(), transport.Request{Method: "m"})
		p.say("{\n\"id\": %d,\n\"result\": [", p.read().ID)
		for range severalMax/100 + 1 {
			p.say(`"%s",`, strings.Repeat("x", 100))
		}
		require.ErrorContains(t, (<-ended).err, "over several lines")
		p.say("1]}")
		ended = p.ask(t.Context(), transport.Request{Method: "m"})
		p.say(`{"id":%d,"result":1}`, p.read().ID)
		require.Equal(t, outcome{result: "1"}, <-ended)
	})
}

// An error without an id is that of the one request in flight.
func TestErrorWithoutID(t *testing.T) {
	const parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	for name, line := range map[string]string{
		"null":    parseError,
		"missing": `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ended := p.ask(t.Context(), transport.Request{Method: "m"})
			p.read()
			p.say("%s", line)
			got := <-ended
			require.Equal(t, mcpvisor.KindRPC, got.err.Kind)
			require.ErrorContains(t, got.err, "Parse error")
			require.Zero(t, p.noise.Counts())
		})
	}
	t.Run("several_in_flight", func(t *testing.T) {
		transporttest.InBubble(t, func(t *testing.T) {
			p := newPeer(t, memoryPipe, 1<<20)
			var log strings.Builder
			p.asked.Handler = inbound.NewHandlerPool("s", transport.Options{Logger: zerolog.New(&log)}).NewHandler(jsonrpc.NewLifetime())
			first := p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
			p.read()
			second := p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
			p.read()
			for range 10 {
				p.say(parseError)
			}
			go func() { p.read(); p.read() }()
			defer synctest.Wait()
			for _, ended := range []<-chan outcome{first, second} {
				got := <-ended
				require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
				require.ErrorContains(t, got.err, "an error that names no request: Parse error")
			}
			require.Equal(t, mcpvisor.Discarded{Unmatched: 10}, p.noise.Counts())
			require.Equal(t, 1, strings.Count(log.String(), "Parse error"))
		})
	})
	t.Run("beside_an_open_stream", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		stream := p.ask(t.Context(), transport.Request{Method: "subscriptions/listen", Stream: &transport.Stream{}})
		id := p.read().ID
		ended := p.ask(t.Context(), transport.Request{Method: "m"})
		p.read()
		p.say(parseError)
		require.ErrorContains(t, (<-ended).err, "Parse error")
		p.say(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-stream)
	})
	t.Run("about_a_notification", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.ask(t.Context(), transport.Request{Method: "m"})
		id := p.read().ID
		p.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}`)
		p.say(`{"error":{"code":-32700,"message":"a line of a log"}}`)
		p.say(`{"jsonrpc":"2.0","error":"a line of a log"}`)
		p.say(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 1, Malformed: 2}, p.noise.Counts())
	})
	t.Run("in_the_handshake", func(t *testing.T) {
		transporttest.InBubble(t, func(t *testing.T) {
			d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: answering(func(io.Writer, jsonrpc.Envelope) string {
				return parseError
			})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			require.NoError(t, err)
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			began := time.Now()
			require.ErrorContains(t, s.Open(t.Context()), "Parse error")
			require.Less(t, time.Since(began), time.Second)
		})
	})
}
