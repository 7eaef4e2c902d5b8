package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// What the caller does to its maps after Register concerns nobody.
func TestRegister_copies_the_spec(t *testing.T) {
	c := newClient(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	srv := rawHTTP(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")] = true
	}, func(http.ResponseWriter, *http.Request) {})
	headers := map[string]string{"Authorization": "Bearer one"}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: srv.URL, Headers: headers}}))
	headers["Authorization"] = "Bearer two"
	require.NoError(t, c.Restart(t.Context(), "web"))
	require.NoError(t, c.WaitReady(t.Context(), "web"))
	mu.Lock()
	require.Equal(t, map[string]bool{"Bearer one": true}, seen)
	mu.Unlock()

	program := mcptest.Stdio(mcptest.Script{})
	for i := range 500 {
		program.Env[fmt.Sprint("PAD", i)] = "x"
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Stdio: program}))
	for i := range 500 { // while it starts: the race detector watches
		program.Env[fmt.Sprint("PAD", i)] = "y"
	}
	require.NoError(t, c.WaitReady(t.Context(), "s"))
}

// A line break in deeply nested arguments must not begin a message of its own.
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

// No nil reaches whoever goes through a result.
func TestResults_with_null_entries(t *testing.T) {
	c := newClient(t)
	var answer atomic.Value
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		switch method {
		case "tools/call", "resources/read", "prompts/get":
			return answer.Load().(string)
		}
		return ""
	})}))
	for method, answers := range map[string][]string{
		"call": {`null`, `[]`, `"text"`, `{"content":[null]}`,
			`{"content":[{"type":"resource","resource":null}]}`, `{"content":[{"type":"resource"}]}`},
		"read": {`null`, `[]`, `{"contents":[null]}`},
		"prompt": {`null`, `[]`, `{"messages":[null]}`, `{"messages":[{"role":"user"}]}`,
			`{"messages":[{"role":"user","content":{"type":"resource"}}]}`},
	} {
		for _, text := range answers {
			answer.Store(text)
			var err error
			switch method {
			case "call":
				_, err = c.CallTool(t.Context(), "s/x", nil)
			case "read":
				_, err = c.ReadResource(t.Context(), "s", "x:y")
			case "prompt":
				_, err = c.GetPrompt(t.Context(), "s", "p", nil)
			}
			require.ErrorIs(t, err, mcpvisor.ErrProtocol, "%s: %s", method, text)
		}
	}
}

func TestServerStatus_is_a_copy(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(1, time.Millisecond),
		Stdio: mcptest.Stdio(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "crash"}}})}))
	_, err := c.CallTool(t.Context(), "s/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	before, _ := c.ServerStatus("s")
	want, err := json.Marshal(before)
	require.NoError(t, err)
	before.LastCause.Message = "changed"
	before.History[0].Cause.Message = "changed"
	*before.History[0].Cause.ExitCode = 99
	after, _ := c.ServerStatus("s")
	got, err := json.Marshal(after)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

func TestClose_twice_with_ended_context(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		c, err := facade.New()
		require.NoError(t, err)
		require.NoError(t, c.Close(context.Background()))
		require.NoError(t, c.Close(over), "it is closed already")
	}
}
