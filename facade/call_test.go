package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// The record of a call that has failed says why, in one line of bounded length; that of another
// says nothing.
func TestRecentCalls_errors(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{})})
	call(t, c, "s/echo", map[string]any{"text": "x"})
	_, err := c.CallTool(t.Context(), "s/fail", map[string]any{"text": "no\nroom " + strings.Repeat("é", 500)})
	require.NoError(t, err)
	_, err = c.CallTool(t.Context(), "s/nothing", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	_, err = c.ReadResource(t.Context(), "s", "db://user:hush@host/x?token=hush")
	require.Error(t, err)

	calls, _ := c.History().Calls(0)
	require.Len(t, calls, 4)
	require.Empty(t, calls[0].Error)
	require.True(t, calls[1].ToolError)
	require.True(t, strings.HasPrefix(calls[1].Error, "no room é"), calls[1].Error)
	require.Len(t, calls[1].Error, retention.CallErrorBytes)
	require.Contains(t, calls[2].Error, "unknown tool")
	require.NotContains(t, calls[2].Error, "nothing was sent", "the outcome is a field")
	require.NotEmpty(t, calls[3].Error)
	require.NotContains(t, calls[3].Error, "hush")
	status, known := c.ServerStatus("s")
	require.True(t, known)
	require.EqualValues(t, 1, status.Totals.ToolErrors)
	require.False(t, status.Registered.IsZero())
	require.False(t, status.Registered.After(status.Since))
}

// What a tool says of its failure is recorded without the secrets of its server, wherever it is cut.
func TestRecentCalls_errors_without_secrets(t *testing.T) {
	secret := "hush-" + strings.Repeat("s3cr3t", 20)
	spec := mcpvisor.ServerSpec{Name: "s", Secrets: []string{secret}, Stdio: mcptest.Stdio(mcptest.Script{})}
	c := registered(t, spec)
	for _, text := range []string{"key " + secret + " refused", strings.Repeat(secret, 64<<10/len(secret)+2), strings.Repeat("x", 250) + secret} {
		_, err := c.CallTool(context.Background(), "s/fail", map[string]any{"text": text})
		require.NoError(t, err)
	}
	calls, _ := c.History().Calls(0)
	require.Len(t, calls, 3)
	for _, r := range calls {
		require.Contains(t, r.Error, "***")
		require.NotContains(t, r.Error, "hush")
		require.NotContains(t, r.Error, "s3cr3t")
	}
	require.Equal(t, "key *** refused", calls[0].Error)
}

// Calls at the same time share pooled memory for their arguments. Each gets the answer to
// its own arguments, even while other callers give up.
func TestCallTool_concurrent_calls_keep_their_arguments(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
		require.NoError(t, c.Register(t.Context(), spec))
		wrong := make(chan error, 16)
		var wg sync.WaitGroup
		for caller := range 16 {
			wg.Go(func() {
				for call := range 20 {
					ctx, cancel := context.WithCancel(t.Context())
					if caller%4 == 3 {
						go cancel()
					}
					text := strings.Repeat(string(rune('a'+caller)), 1+97*call)
					got, err := c.CallTool(ctx, "s/echo", map[string]any{"text": text})
					cancel()
					switch {
					case caller%4 == 3 && errors.Is(err, mcpvisor.ErrCanceled):
					case err != nil:
						wrong <- err
						return
					case got.Content[0].(*mcp.TextContent).Text != text:
						wrong <- fmt.Errorf("%.20q got %.200q", text, got.Content[0].(*mcp.TextContent).Text)
						return
					}
				}
			})
		}
		wg.Wait()
		close(wrong)
		require.NoError(t, <-wrong)
	})
}

// TestCallSettings: settings pass through options and back, so that a call can be made elsewhere
// as it was meant. A field that SettingsOf or WithSettings forgets fails.
func TestCallSettings(t *testing.T) {
	reported, logged := 0, 0
	opts := []facade.CallOption{
		nil, facade.WithTimeout(7 * time.Second), facade.WithWaitReady(), facade.WithoutValidation(),
		facade.WithProgress(func(mcpvisor.Progress) { reported++ }), facade.WithMeta([]byte(`{"a":1,"progressToken":3}`)),
		facade.WithCallHandlers(&facade.CallHandlers{}), facade.WithLogMessages("info", func(mcpvisor.LogMessage) { logged++ }),
		relay.WithRelay(relay.Continuation{RequestState: []byte(`"s"`)}), facade.WithKey("k"), relay.WithClientName("c"),
		relay.WithTaskRelay(&relay.TaskRelay{}), relay.WithoutTasks(), relay.WithPrincipal("p"),
	}
	first, err := relay.SettingsOf(relay.CallSettings{}, opts...)
	require.NoError(t, err)
	v := reflect.ValueOf(first)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), "%s is lost", v.Type().Field(i).Name)
	}
	require.JSONEq(t, `{"a":1}`, string(first.Meta))
	second, err := relay.SettingsOf(relay.CallSettings{}, relay.WithSettings(&first))
	require.NoError(t, err)
	second.Progress(mcpvisor.Progress{})
	second.LogMessages(mcpvisor.LogMessage{})
	require.Equal(t, []int{1, 1}, []int{reported, logged})
	first.Progress, second.Progress, first.LogMessages, second.LogMessages = nil, nil, nil, nil
	require.Equal(t, first, second)

	kept, err := relay.SettingsOf(relay.CallSettings{}, facade.WithMeta([]byte(`{"a":1,"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`)))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1,"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`, string(kept.Meta))
	_, err = relay.SettingsOf(relay.CallSettings{}, facade.WithMeta([]byte(`[]`)))
	require.Error(t, err)
}

// TestWithResultRoom: a result that is not released keeps further large results out of memory.
func TestWithResultRoom(t *testing.T) {
	c := newClient(t)
	web := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(web.Close)
	const size = 200 << 10
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: web.URL},
		Limits: mcpvisor.Limits{MaxBufferBytes: 3 * size / 2}}))
	big := func(ctx context.Context, room *relay.ResultRoom) error {
		_, err := c.CallToolRaw(ctx, "s/big", json.RawMessage(fmt.Sprintf(`{"bytes":%d}`, size)), relay.WithResultRoom(room))
		return err
	}
	// The first may exceed the limit if it finds no room, so the third one waits.
	var rooms [3]relay.ResultRoom
	require.NoError(t, big(t.Context(), &rooms[0]))
	require.NoError(t, big(t.Context(), &rooms[1]))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, big(short, &rooms[2]), mcpvisor.ErrCanceled)
	rooms[2].Release()
	ended := make(chan error, 1)
	go func() { ended <- big(t.Context(), &rooms[2]) }()
	rooms[0].Release()
	rooms[0].Release()
	rooms[1].Release()
	require.NoError(t, <-ended)
	rooms[2].Release()
}

// A line break in deeply nested arguments must not begin another message.
func TestCheckArguments_keeps_a_message_on_one_line(t *testing.T) {
	c := newClient(t)
	var smuggled atomic.Bool
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(_, line string) string {
		if strings.HasPrefix(line, `{"jsonrpc":"2.0","id":7,`) {
			smuggled.Store(true)
		}
		return ""
	})}))
	for depth := 8997; depth <= 9001; depth++ {
		args := `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `,"b":[` + "\n" +
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete_all","arguments":{}}}` + "\r\n]}"
		_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(args), facade.WithTimeout(10*time.Second))
		if tooDeep := depth+1 > 9000; tooDeep { // the object around it is a level too
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		} else {
			require.NoError(t, err)
		}
	}
	require.False(t, smuggled.Load())
}

// Some servers end a line at U+2028 and U+2029, so they are escaped in all arguments.
func TestCallTool_escapes_line_separators(t *testing.T) {
	c := newClient(t)
	var got atomic.Value
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		if method == "tools/call" {
			got.Store(line)
		}
		return ""
	})}))
	for _, args := range []map[string]any{{"t": "\u2028\u2029"}, {"t": json.RawMessage("\"\u2028\u2029\"")}} {
		_, err := c.CallTool(t.Context(), "s/x", args)
		require.NoError(t, err)
		require.Contains(t, got.Load(), `{"t":"\u2028\u2029"}`)
	}
	_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage("{\"t\":\"\u2028\u2029\"}"))
	require.NoError(t, err)
	require.Contains(t, got.Load(), `{"t":"\u2028\u2029"}`)
}

// A call that neither a timeout nor its context would ever end is refused, whatever
// switched the timeouts off.
func TestCallTool_without_any_bound_is_refused(t *testing.T) {
	for name, c := range map[string]struct {
		client []facade.Option
		call   []facade.CallOption
	}{
		"by the call":   {nil, []facade.CallOption{facade.WithTimeout(-1)}},
		"by the client": {[]facade.Option{facade.WithDefaultCallTimeout(-1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, c.client...)
			silent := rawServer(func(method, _ string) string {
				if method == "tools/call" || method == "resources/read" {
					return silence
				}
				return ""
			})
			require.NoError(t, client.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Timeouts: mcpvisor.Timeouts{CallTotal: -1}}))
			endless, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(10*time.Second, cancel) // ends the test of a client that accepts the call
			_, err := client.CallTool(endless, "s/x", nil, c.call...)
			requireRefused(t, err)
			_, err = client.CallTool(endless, "s/x", nil, append(c.call, facade.WithWaitReady())...)
			requireRefused(t, err)
			_, err = client.ReadResource(endless, "s", "file:///x", c.call...)
			requireRefused(t, err)
			result := client.CallToolForModel(endless, "s/x", nil, c.call...)
			require.True(t, result.IsError)
			require.Contains(t, result.StructuredContent.(facade.ModelError).Message, "Internal Error: ", "the arguments are not at fault")

			bounded, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer end()
			_, err = client.CallTool(bounded, "s/x", nil, c.call...)
			require.ErrorIs(t, err, mcpvisor.ErrCanceled, "its deadline ends it")
		})
	}
}

// The call is refused before it waits for a server that may never be ready.
func TestWithWaitReady_without_any_bound_is_refused(t *testing.T) {
	client := newClient(t)
	starting := &mcpvisor.InMemory{Serve: func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		<-ctx.Done()
		return nil
	}}
	require.NoError(t, client.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: starting, StartSupervised: true,
		Timeouts: mcpvisor.Timeouts{Start: -1, CallTotal: -1, Shutdown: 100 * time.Millisecond}}))
	endless, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(10*time.Second, cancel) // ends the test of a client that waits
	_, err := client.CallTool(endless, "s/x", nil, facade.WithWaitReady(), facade.WithTimeout(-1))
	requireRefused(t, err)
}

func requireRefused(t *testing.T, err error) {
	t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.ErrInvalid, e.Kind, err)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	require.ErrorContains(t, err, "Timeouts.CallTotal")
}

// The end of the caller's context reaches the server, for each kind of request: as a notification
// or, over HTTP since 2026-07-28, as the end of the connection.
func TestCancel_reaches_the_server(t *testing.T) {
	for name, era := range map[string]mcpvisor.Era{"legacy": mcpvisor.EraLegacy, "modern": mcpvisor.EraModern} {
		for _, over := range []string{"memory", "custom", "HTTP"} {
			t.Run(over+" "+name, func(t *testing.T) {
				begun, cancelled := make(chan string, 10), make(chan string, 10)
				spec := mcpvisor.ServerSpec{Name: "s", Era: era}
				switch server := hanging(begun, cancelled); over {
				case "memory":
					spec.InMemory = inMemory(server)
				case "custom":
					spec.Transport = overTransport(inMemory(server))
				default:
					spec.HTTP = overHTTP(t, server)
				}
				c := registered(t, spec)
				for what, send := range map[string]func(ctx context.Context) error{
					"call":   func(ctx context.Context) error { _, err := c.CallToolRaw(ctx, "s/x", nil); return err },
					"read":   func(ctx context.Context) error { _, err := relay.Of(c).ReadResourceRaw(ctx, "s", "x:y"); return err },
					"prompt": func(ctx context.Context) error { _, err := relay.Of(c).GetPromptRaw(ctx, "s/p", nil); return err },
					"complete": func(ctx context.Context) error {
						_, err := relay.Of(c).CompleteRaw(ctx, "s", facade.CompletionRequest{Prompt: "p", Argument: "a"})
						return err
					},
				} {
					ctx, cancel := context.WithCancel(t.Context())
					failed := make(chan error, 1)
					go func() { failed <- send(ctx) }()
					id := <-begun
					cancel()
					require.ErrorIs(t, <-failed, mcpvisor.ErrCanceled, what)
					require.Equal(t, id, <-cancelled, what)
				}
			})
		}
	}
}

// hanging reports the ids of requests that it does not answer, and of those that are cancelled. Over
// HTTP in the modern era the end of a connection is a cancellation.
func hanging(begun, cancelled chan<- string) *raw.Server {
	return &raw.Server{Answer: func(m *raw.Message) string {
		switch m.Method {
		case "notifications/cancelled":
			var p struct{ RequestID json.RawMessage }
			_ = json.Unmarshal(m.Params, &p)
			cancelled <- string(p.RequestID)
		case "tools/call", "resources/read", "prompts/get", "completion/complete":
			begun <- string(m.ID)
			if m.R != nil {
				<-m.R.Context().Done()
				if m.R.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
					cancelled <- string(m.ID)
				}
			}
			return raw.None
		case "server/discover":
			return `"result":` + rawDiscover
		}
		return rawMembers(m)
	}}
}

// An operation whose context has ended before begins nothing.
func TestContext_that_ended_before(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newClient(t)
	dir := t.TempDir()
	err := c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir})})
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}), "the name is free")
	require.Zero(t, mcptest.Starts(dir))

	for name, run := range map[string]func(context.Context) error{
		"Subscribe":       func(ctx context.Context) error { return c.Subscribe(ctx, "s", "mcptest://text") },
		"SetLoggingLevel": func(ctx context.Context) error { return c.SetLoggingLevel(ctx, "s", "debug") },
	} {
		var e *mcpvisor.Error
		require.ErrorAs(t, run(ctx), &e, name)
		require.Equal(t, mcpvisor.ErrCanceled, e.Kind, name)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome, name)
		require.NoError(t, run(t.Context()), name)
	}
}

// A nil context panics in the goroutine of the caller, which can recover.
func TestContext_nil(t *testing.T) {
	c := newClient(t)
	for name, run := range map[string]func(context.Context){
		"Register":  func(ctx context.Context) { _ = c.Register(ctx, mcpvisor.ServerSpec{Name: "s"}) },
		"Watch":     func(ctx context.Context) { c.Watch(ctx) },
		"WatchFrom": func(ctx context.Context) { relay.Of(c).WatchFrom(ctx, 0) },
	} {
		require.Panics(t, func() { run(nil) }, name)
	}
}
