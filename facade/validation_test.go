package facade_test

import (
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/schema"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// schemaServer is a server with one tool, x, whose input schema is what schema holds. It
// counts the calls that reach it.
type schemaServer struct {
	schema atomic.Value // string
	calls  atomic.Int64
}

func newSchemaServer(schema string) *schemaServer {
	s := &schemaServer{}
	s.schema.Store(schema)
	return s
}

func (s *schemaServer) register(t *testing.T, c *facade.Client) {
	t.Helper()
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		switch method {
		case "tools/list":
			return fmt.Sprintf(`{"tools":[{"name":"x","inputSchema":%s}]}`, s.schema.Load())
		case "tools/call":
			s.calls.Add(1)
		}
		return ""
	})}))
}

const readSchema = `{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer","maximum":10}},"required":["path"],"additionalProperties":false}`

func TestWithValidation(t *testing.T) {
	c := newClient(t, facade.WithValidation())
	server := newSchemaServer(readSchema)
	server.register(t, c)
	for _, wrong := range []struct {
		args, path, rule, hint, text string
	}{
		{`{}`, "path", "required", "", "argument path: it is missing (required)"},
		{``, "path", "required", "", "argument path: it is missing (required)"},
		{`{"path":1}`, "path", "type", "", "argument path: it must be a string, and is an integer (type)"},
		{`{"path":"p","limit":11}`, "limit", "maximum", "", "argument limit: it must be at most 10 (maximum)"},
		{`{"path":"p","limt":1}`, "limt", "additionalProperties", "did you mean limit?", "argument limt: it is not a parameter (additionalProperties)"},
	} {
		_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(wrong.args))
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e, wrong.args)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.False(t, e.Retryable())
		require.Equal(t, wrong.hint, e.Hint)
		require.Equal(t, "s", e.Server)
		var a *facade.ArgumentError
		require.ErrorAs(t, err, &a)
		require.Equal(t, wrong.path, a.Path)
		require.Equal(t, wrong.rule, a.Rule)
		require.Equal(t, wrong.text, a.Error())
		require.Contains(t, err.Error(), "call s/x: invalid; nothing was sent: "+wrong.text)

		toModel := schema.Text(c.CallToolForModel(t.Context(), "mcp__s__x", json.RawMessage(wrong.args)))
		require.Contains(t, toModel, "The arguments for mcp__s__x cannot be used: "+wrong.text)
		require.Contains(t, toModel, wrong.hint)
	}
	require.Zero(t, server.calls.Load(), "nothing was sent")

	type arguments struct {
		Path  string `json:"path"`
		Limit int    `json:"limit,omitempty"`
	}
	for i, right := range []any{json.RawMessage(`{"path":"p"}`), map[string]any{"path": "p", "limit": 10}, arguments{Path: "p"}} {
		_, err := c.CallTool(t.Context(), "s/x", right)
		require.NoError(t, err)
		require.EqualValues(t, i+1, server.calls.Load())
	}
	_, err := c.CallTool(t.Context(), "s/x", arguments{Path: "p", Limit: 11}, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = c.CallTool(t.Context(), "s/x", []int{1})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "not a JSON object")
	require.NoError(t, c.Unregister(t.Context(), "s"))
	_, err = c.CallTool(t.Context(), "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
}

func TestWithValidation_is_off_by_default(t *testing.T) {
	c := newClient(t)
	server := newSchemaServer(readSchema)
	server.register(t, c)
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, server.calls.Load())
}

// A refreshed list replaces the schema.
func TestWithValidation_follows_the_list(t *testing.T) {
	c := newClient(t, facade.WithValidation())
	server := newSchemaServer(readSchema)
	server.register(t, c)
	call := func() error { _, err := c.CallTool(t.Context(), "s/x", map[string]any{"file": "f"}); return err }
	require.ErrorIs(t, call(), mcpvisor.ErrInvalid)
	server.schema.Store(`{"type":"object","properties":{"file":{"type":"string"}},"required":["file"]}`)
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.NoError(t, call())
	server.schema.Store(readSchema)
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.ErrorIs(t, call(), mcpvisor.ErrInvalid)
}

// A schema that cannot be used blocks no call, is logged once and is a warning of the
// status, and opens nothing.
func TestWithValidation_schema_that_cannot_be_used(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	opened := make(chan bool)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_ = conn.Close()
		}
		opened <- err == nil
	}()
	log := new(testutil.LockedBuffer)
	c := newClient(t, facade.WithValidation(), facade.WithLogger(zerolog.New(log)))
	server := newSchemaServer(`{"type":"object","properties":{"a":{"$ref":"http://` + listener.Addr().String() + `/s.json"}},"required":["b"]}`)
	server.register(t, c)
	warnings := func() []mcpvisor.Warning { st, _ := c.ServerStatus("s"); return st.Catalog.Warnings }
	require.Empty(t, warnings())
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := c.CallTool(t.Context(), "s/x", map[string]any{"a": 1, "b": 1}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	require.EqualValues(t, 20, server.calls.Load())
	require.NoError(t, listener.Close())
	require.False(t, <-opened, "a server chose an address, and it was opened")
	require.Equal(t, 1, strings.Count(log.String(), "not validated"), log.String())
	require.Len(t, warnings(), 1)
	require.Equal(t, "tools", warnings()[0].List)
	require.Contains(t, warnings()[0].Text, `arguments of "x" are not validated, or not in all: $ref "http://127.0.0.1:`)
	require.Equal(t, warnings(), c.Status()[0].Catalog.Warnings)

	_, err = c.CallTool(t.Context(), "s/x", map[string]any{"a": 1})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid, "the rest of the schema is compared")
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.Empty(t, warnings(), "they are about the list of before")
}

// The warnings of a server name a few tools, and count the rest as one.
func TestWithValidation_warnings_are_bounded(t *testing.T) {
	c := newClient(t, facade.WithValidation())
	var tools []string
	for i := range 30 {
		tools = append(tools, fmt.Sprintf(`{"name":"x%d","inputSchema":{"$ref":"#"}}`, i))
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawAnswer("tools/list", `{"tools":[`+strings.Join(tools, ",")+`]}`)}))
	for i := range 30 {
		_, err := c.CallTool(t.Context(), fmt.Sprintf("s/x%d", i), nil)
		require.NoError(t, err)
	}
	st, _ := c.ServerStatus("s")
	require.Len(t, st.Catalog.Warnings, 11)
	require.Contains(t, st.Catalog.Warnings[10].Text, "more tools")
}

// What a server declares costs a call little memory, and nothing is kept of it.
func TestWithValidation_hostile_schemas(t *testing.T) {
	names := make([]string, 40_000)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprintf("n%05d", i))
	}
	patterns := func(n int, one func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(`{"pattern":%q}`, one(i))
		}
		return `{"type":"object","properties":{"a":{"anyOf":[` + strings.Join(parts, ",") + `]}}}`
	}
	for about, hostile := range map[string]string{
		"names behind references": `{"type":"object","allOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/r"},`, 9000), ",") +
			`],"$defs":{"r":{"anyOf":[{},{"required":[` + strings.Join(names, ",") + `]}],"required":[` + strings.Join(names, ",") + `]}}}`,
		"60 large patterns":     patterns(60, func(i int) string { return fmt.Sprintf("%d", i) + strings.Repeat("(?:x?y{9}){0,9}", 60) }),
		"60 folded patterns":    patterns(60, func(i int) string { return fmt.Sprintf("(?i)%d[", i) + strings.Repeat("B-𞤀", 150) + "]" }),
		"20,000 short patterns": patterns(20_000, func(i int) string { return fmt.Sprintf("x%d", i) }),
		"a mebibyte of objects": `{"enum":[` + strings.Repeat("{},", 349_000) + `{}]}`,
		"references to itself":  `{"type":"object","allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
	} {
		t.Run(about, func(t *testing.T) {
			c := newClient(t, facade.WithValidation())
			server := newSchemaServer(hostile)
			server.register(t, c)
			call := func() {
				_, err := c.CallTool(t.Context(), "s/x", map[string]any{"a": "a"})
				require.NoError(t, err)
			}
			var before, after, kept runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			call()
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), "bytes allocated")
			call()
			runtime.GC()
			runtime.ReadMemStats(&kept)
			require.Less(t, int64(kept.HeapAlloc)-int64(before.HeapAlloc), int64(8<<20), "bytes kept")
			st, _ := c.ServerStatus("s")
			require.Len(t, st.Catalog.Warnings, 1)
			require.Contains(t, st.Catalog.Warnings[0].Text, "not validated")
		})
	}
}
