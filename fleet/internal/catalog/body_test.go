package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a session that answers from a body.
type answering struct {
	transport.Session
	body *encodedlists.Body
}

func (a answering) Info() mcpvisor.SessionInfo { return a.body.Info() }
func (a answering) Cause() *supervisor.Cause   { return nil }

func (a answering) CheckInputSchema(json.RawMessage) (int, error) { return 0, nil }
func (a answering) UseTools([]mcpvisor.Tool, bool)                {}
func (a answering) ToolSettings() map[string]mcpvisor.ToolSetting { return nil }
func (a answering) Request(_ context.Context, r transport.Request) (json.RawMessage, error) {
	if result, ok := a.body.Answer(r.Method, r.Params); ok {
		return result, nil
	}
	return nil, fmt.Errorf("%s is not answered", r.Method)
}

// rich is a server with what is easily lost: members that the definitions do not know, schemas with
// white space and large numbers, characters that JSON for web pages escapes.
func rich(version string) mcptest.Script {
	return mcptest.Script{Versions: []string{version}, Instructions: "use <it> & \u2028 well", Name: "rich", Version: "3",
		Tools: append(mcptest.DefaultTools(), mcptest.ToolDef{Name: "a/job", Description: "<b>&\u00fc\U0001F600", Task: &mcptest.TaskDef{Optional: true},
			InputSchema:  json.RawMessage(`{ "type" : "object", "properties":{"n":{"maximum":12345678901234567890,"description":"<i>"}} }`),
			OutputSchema: json.RawMessage("{\"type\":\"object\",\n \"x-own\": 1.0}"), Annotations: json.RawMessage(`{"title":"T","destructiveHint":false,"x":1}`)}),
		Prompts: []mcptest.PromptDef{{Name: "a/p", Description: "<p>", Arguments: []string{"x"}, Text: "{x}"}}}
}

// TestOf_round_trip: a node that lists from a body lists what its owner lists.
func TestOf_round_trip(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			owner, err := facade.New()
			require.NoError(t, err)
			defer func() { require.NoError(t, owner.Close(context.Background())) }()
			require.NoError(t, owner.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(rich(version))}))
			body, err := Of(relay.Of(owner), "s")
			require.NoError(t, err)
			again, err := Of(relay.Of(owner), "s")
			require.NoError(t, err)
			require.Equal(t, body.Digest(), again.Digest())

			got, err := encodedlists.Decode(bytes.Clone(body.Encoded()), body.Digest())
			require.NoError(t, err)
			status, _ := owner.ServerStatus("s")
			want := *status.Session
			want.PID, want.Discarded, want.Stderr = 0, mcpvisor.Discarded{}, nil
			require.Equal(t, want, got.Info())

			limits := mcpvisor.ServerSpec{}.WithDefaults().Limits
			found, err := discovery.Discover(t.Context(), answering{body: got}, "s", limits)
			require.NoError(t, err)
			require.Empty(t, found.Warnings)
			for listed := range relay.Of(owner).Catalogs() {
				require.NotEmpty(t, listed.Tools)
				require.Equal(t, listed.Tools, found.Tools)
				require.Equal(t, listed.Resources, found.Resources)
				require.Equal(t, listed.Templates, found.Templates)
				require.Equal(t, listed.Prompts, found.Prompts)
			}
		})
	}
}

// source is a Source whose server is restarted while it is read.
type source struct {
	status  func() mcpvisor.ServerStatus
	catalog relay.Catalog
}

func (s source) ServerStatus(name string) (mcpvisor.ServerStatus, bool) {
	return s.status(), name == "s"
}
func (s source) Catalogs() iter.Seq[relay.Catalog] {
	return func(yield func(relay.Catalog) bool) { yield(s.catalog) }
}

// TestOf_restart: the session and the lists of a body are of one incarnation.
func TestOf_restart(t *testing.T) {
	ready := mcpvisor.ServerStatus{State: supervisor.StateReady, Epoch: 1, Session: &mcpvisor.SessionInfo{ProtocolVersion: "v", Era: mcpvisor.EraLegacy}}
	asked := 0
	body, err := Of(source{catalog: relay.Catalog{Server: "s"}, status: func() mcpvisor.ServerStatus {
		asked++
		s := ready
		if s.Epoch = uint64(min(asked, 2)); asked > 1 {
			s.Session = &mcpvisor.SessionInfo{ProtocolVersion: "w", Era: mcpvisor.EraLegacy}
		}
		return s
	}}, "s")
	require.NoError(t, err)
	require.Equal(t, "w", body.Info().ProtocolVersion)

	for name, change := range map[string]func(s *mcpvisor.ServerStatus, c *relay.Catalog){
		"down":             func(s *mcpvisor.ServerStatus, _ *relay.Catalog) { s.State = supervisor.StateBackoff },
		"without session":  func(s *mcpvisor.ServerStatus, _ *relay.Catalog) { s.Session = nil },
		"with last lists":  func(_ *mcpvisor.ServerStatus, c *relay.Catalog) { c.Unavailable = true },
		"of other servers": func(_ *mcpvisor.ServerStatus, c *relay.Catalog) { c.Server = "other" },
	} {
		s, c := ready, relay.Catalog{Server: "s"}
		change(&s, &c)
		_, err := Of(source{catalog: c, status: func() mcpvisor.ServerStatus { return s }}, "s")
		require.ErrorIs(t, err, ErrNotReady, name)
	}
	_, err = Of(source{status: func() mcpvisor.ServerStatus { return ready }}, "unknown")
	require.ErrorIs(t, err, ErrNotReady)
	raw := make(json.RawMessage, encodedlists.MaxBytes)
	_, err = Of(source{catalog: relay.Catalog{Server: "s", Prompts: []mcpvisor.Prompt{{Raw: raw}}}, status: func() mcpvisor.ServerStatus { return ready }}, "s")
	require.ErrorContains(t, err, "more than")
}

// encoded is a body with parts that a test replaces.
func encoded(session, tools string) string {
	return `{"v":1,"session":` + session + `,"results":{"tools/list":` + tools +
		`,"resources/list":{"resources":[]},"resources/templates/list":{"resourceTemplates":[]},"prompts/list":{"prompts":[]}}}`
}

const someSession = `{"protocolVersion":"2025-11-25","era":"legacy"}`

// TestDecode_hostile: what is not a catalog, or too much of one, is refused before it is decoded.
func TestDecode_hostile(t *testing.T) {
	good := encoded(someSession, `{"tools":[{"name":"x"}]}`)
	_, err := encodedlists.Decode([]byte(good), "")
	require.NoError(t, err)
	_, err = encodedlists.Decode([]byte(strings.Replace(good, `"v":1`, `"v":2,"later":{}`, 1)), "")
	require.NoError(t, err, "a later version")
	for name, row := range map[string]struct{ text, why string }{
		"nothing":              {"", "not JSON"},
		"no JSON":              {good[:len(good)-1], "not JSON"},
		"another value":        {"[]", "cannot be read"},
		"deep":                 {encoded(someSession, `{"tools":[`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+`]}`), "levels of nesting"},
		"no version":           {strings.Replace(good, `"v"`, `"w"`, 1), "no version"},
		"version zero":         {strings.Replace(good, `"v":1`, `"v":0`, 1), "no version"},
		"no session":           {strings.Replace(good, `"session"`, `"sitting"`, 1), "0 bytes"},
		"session of one value": {encoded("3", `{"tools":[]}`), "cannot be read"},
		"session of nothing":   {encoded("{}", `{"tools":[]}`), "without a version"},
		"session of values":    {encoded(`{"x":[`+strings.Repeat("{},", 20_000)+`{}]}`, `{"tools":[]}`), "a session with more than"},
		"long session":         {encoded(`{"instructions":"`+strings.Repeat("x", 4<<20)+`"}`, `{"tools":[]}`), "describes its session in"},
		"no results":           {strings.Replace(good, `"results"`, `"outcome"`, 1), "the lists of the catalog"},
		"a list twice":         {strings.Replace(good, "resources/list", "tools/list", 1), "there twice"},
		"a list that is not":   {strings.Replace(good, "resources/list", "others/list", 1), "a list is missing"},
		"a list of no array":   {encoded(someSession, `{"tools":{}}`), "must be"},
		"a list with a cursor": {encoded(someSession, `{"tools":[],"nextCursor":"x"}`), "must be"},
		"a list of two":        {encoded(someSession, `{"tools":[],"tools":[]}`), "must be"},
		"an empty result":      {encoded(someSession, `{}`), `no "tools"`},
		"many entries":         {encoded(someSession, `{"tools":[`+strings.Repeat("0,", 100_000)+`0]}`), "more than 100000 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := encodedlists.Decode([]byte(row.text), "")
			require.ErrorContains(t, err, row.why)
			require.Nil(t, b)
		})
	}
	_, err = encodedlists.Decode(make([]byte, encodedlists.MaxBytes+1), "")
	require.ErrorContains(t, err, "at most are accepted")
	_, err = encodedlists.Decode([]byte(good), encodedlists.Digest([]byte("other")))
	require.ErrorIs(t, err, encodedlists.ErrDigest)
}

func TestBody_Answer(t *testing.T) {
	b, err := encodedlists.Decode([]byte(encoded(`{"protocolVersion":"2025-11-25","era":"legacy","serverName":"n","serverVersion":"1","instructions":"i","capabilities":{"tools":{}}}`, `{"tools":[1]}`)), "")
	require.NoError(t, err)
	for _, row := range []struct{ method, params, want string }{
		{"tools/list", "", `{"tools":[1]}`},
		{"tools/list", `{"cursor":null,"_meta":{}}`, `{"tools":[1]}`},
		{"resources/templates/list", `{}`, `{"resourceTemplates":[]}`},
		{"initialize", "", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"},"instructions":"i"}`},
		{"server/discover", "", `{"supportedVersions":["2025-11-25"],"capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"},"instructions":"i"}`},
	} {
		result, ok := b.Answer(row.method, json.RawMessage(row.params))
		require.True(t, ok, row)
		require.JSONEq(t, row.want, string(result))
	}
	_, ok := b.Answer("tools/list", json.RawMessage(`{"cursor":"2"}`))
	require.False(t, ok)
	_, ok = b.Answer("tools/call", nil)
	require.False(t, ok)
}

// FuzzDecode: no bytes make Decode panic, and what it accepts it answers.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(encoded(someSession, `{"tools":[{}]}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := encodedlists.Decode(text, "")
		if err != nil {
			return
		}
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			if result, ok := b.Answer(method, nil); !ok || !json.Valid(result) {
				t.Fatal(method)
			}
		}
	})
}

// bodyOf is a body with n tools of about 300 bytes.
func bodyOf(t testing.TB, n int, seed string) *encodedlists.Body {
	t.Helper()
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%s_%d","description":%q,"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`, seed, i, strings.Repeat("d", 200)))
	}
	b, err := encodedlists.Decode([]byte(encoded(someSession, `{"tools":[`+strings.Join(tools, ",")+`]}`)), "")
	require.NoError(t, err)
	return b
}

var errFetch = errors.New("the node cannot be reached")

const patience = 20 * time.Second
