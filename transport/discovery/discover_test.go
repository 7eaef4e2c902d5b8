package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

func TestDiscover(t *testing.T) {
	schema := `{"type" : "object","properties":{"b":{"default":1.0},"a":{}}, "x":"\u00e9"}`
	s := &fakeSession{caps: everything(), reply: replies(map[string]string{
		"tools/list": `{"tools":[{"name":"b/c","title":"T","description":"D \"q\"","inputSchema":` + schema + `,"outputSchema":` + schema +
			`,"annotations":{"readOnlyHint":true},"_meta":{"k":1},"later":[1]},{"name":"a","inputSchema":{}}]}`,
		"resources/list":           `{"resources":[{"uri":"file:///b","name":"B","mimeType":"text/plain"},{"uri":"file:///a"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"file:///{x}","name":"X"}]}`,
		"prompts/list":             `{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}]}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.Equal(t, []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"}, s.asked)

	require.Equal(t, []string{"a", "b/c"}, toolNames(c))
	tool := c.Tools[1]
	require.Equal(t, "srv/b/c", tool.Name)
	require.Equal(t, "srv", tool.Server)
	require.Equal(t, mcpvisor.Alias("srv", "b/c"), tool.Alias)
	require.Equal(t, json.RawMessage(schema), tool.Definition.InputSchema, "byte for byte")
	require.Equal(t, json.RawMessage(schema), tool.Definition.OutputSchema)
	require.Nil(t, c.Tools[0].Definition.OutputSchema)
	require.Equal(t, "T", tool.Definition.Title)
	require.Equal(t, `D "q"`, tool.Definition.Description)
	require.True(t, tool.Definition.Annotations.ReadOnlyHint)
	require.Equal(t, mcp.Meta{"k": 1.0}, tool.Definition.Meta)
	found, ok := c.ToolByAlias(tool.Alias)
	require.True(t, ok)
	require.Equal(t, tool, found)

	require.Equal(t, "file:///a", c.Resources[0].URI)
	require.Equal(t, "text/plain", c.Resources[1].Definition.MIMEType)
	require.Equal(t, "srv", c.Resources[0].Server)
	require.Equal(t, "file:///{x}", c.Templates[0].URITemplate)
	require.Equal(t, "X", c.Templates[0].Definition.Name)
	require.Equal(t, "srv/greet", c.Prompts[0].Name)
	require.True(t, c.Prompts[0].Definition.Arguments[0].Required)
}

// Only lists that the server declares as a capability are requested.
func TestDiscover_asks_for_declared_lists(t *testing.T) {
	for name, c := range map[string]struct {
		caps *mcp.ServerCapabilities
		want []string
	}{
		"nothing":         {&mcp.ServerCapabilities{}, nil},
		"no capabilities": {nil, nil},
		"tools":           {onlyTools(), []string{"tools/list"}},
		"resources":       {&mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{}}, []string{"resources/list", "resources/templates/list"}},
		"prompts":         {&mcp.ServerCapabilities{Prompts: &mcp.PromptCapabilities{}}, []string{"prompts/list"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSession{caps: c.caps, reply: replies(nil)}
			catalog, err := discoverAll(t, s, mcpvisor.Limits{})
			require.NoError(t, err)
			require.Equal(t, c.want, s.asked)
			require.Empty(t, catalog.Tools)
			if c.want != nil {
				require.Empty(t, catalog.Warnings)
				return
			}
			require.Len(t, catalog.Warnings, 1)
			require.Contains(t, catalog.Warnings[0].Text, "declares neither tools, resources nor prompts")
		})
	}
}

// An empty cursor is a cursor.
func TestDiscover_reads_all_pages(t *testing.T) {
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{
		"tools/list?(first)": `{"tools":[{"name":"a"}],"nextCursor":""}`,
		"tools/list?":        `{"tools":[],"nextCursor":"x\"y"}`,
		`tools/list?x"y`:     `{"nextCursor":"z"}`,
		"tools/list?z":       `{"tools":[{"name":"c"},{"name":"b"}],"nextCursor":null}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, toolNames(c))
	require.Equal(t, []string{"tools/list", `tools/list {"cursor":""}`, `tools/list {"cursor":"x\"y"}`, `tools/list {"cursor":"z"}`}, s.asked)
	require.Empty(t, c.Warnings)
}

// A list without end is ended by its cursor, by the number of its pages or by that of its
// entries.
func TestDiscover_ends_an_endless_list(t *testing.T) {
	n := 0
	fresh := func(entries int) func(string, string) (string, error) {
		return func(string, string) (string, error) {
			n++
			var list []string
			for i := range entries {
				list = append(list, fmt.Sprintf(`{"name":"t%d_%d"}`, n, i))
			}
			return fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, strings.Join(list, ","), n), nil
		}
	}
	for name, c := range map[string]struct {
		reply  func(string, string) (string, error)
		limits mcpvisor.Limits
		tools  int
		asked  int
		says   string
	}{
		"one cursor": {replies(map[string]string{"tools/list": `{"tools":[{"name":"a"}],"nextCursor":"same"}`}), mcpvisor.Limits{}, 1, 2, "repeats its cursor"},
		"a circle": {replies(map[string]string{
			"tools/list?(first)": `{"tools":[{"name":"a"}],"nextCursor":"1"}`, "tools/list?1": `{"tools":[{"name":"b"}],"nextCursor":"2"}`,
			"tools/list?2": `{"tools":[{"name":"c"}],"nextCursor":"1"}`}), mcpvisor.Limits{}, 3, 3, "repeats its cursor"},
		"pages":       {fresh(1), mcpvisor.Limits{MaxPages: 7}, 7, 7, "more than 7 pages"},
		"empty pages": {fresh(0), mcpvisor.Limits{MaxPages: 50}, 0, 50, "raise Limits.MaxPages"},
		"entries":     {fresh(3), mcpvisor.Limits{MaxItems: 7}, 7, 3, "more than 7 entries"},
		"on one page": {fresh(1000), mcpvisor.Limits{MaxItems: 10}, 10, 1, "raise Limits.MaxItems"},
		"of bad ones": {func(string, string) (string, error) {
			return `{"tools":[1,2,3],"nextCursor":"` + strings.Repeat("x", n) + `"}`, nil
		}, mcpvisor.Limits{MaxItems: 2}, 0, 1, "more than 2 entries"},
		"exactly full": {replies(map[string]string{"tools/list": `{"tools":[{"name":"a"},{"name":"b"}]}`}), mcpvisor.Limits{MaxItems: 2, MaxPages: 1}, 2, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSession{caps: onlyTools(), reply: c.reply}
			catalog, err := discoverAll(t, s, c.limits)
			require.NoError(t, err)
			require.Len(t, catalog.Tools, c.tools)
			require.Len(t, s.asked, c.asked)
			if c.says == "" {
				require.Empty(t, catalog.Warnings)
				return
			}
			last := catalog.Warnings[len(catalog.Warnings)-1]
			if name == "one cursor" { // its page came twice
				last = catalog.Warnings[0]
			}
			require.Equal(t, "tools", last.List)
			require.Contains(t, last.Text, c.says)
		})
	}
}

// An entry that cannot be read is left out with a warning.
func TestDiscover_leaves_out_bad_entries(t *testing.T) {
	s := &fakeSession{caps: everything(), reply: replies(map[string]string{
		"tools/list":               `{"tools":[null,7,"x",[],{},{"name":7},{"name":""},{"name":"a","annotations":7},{"name":"good"},{"name":"b","description":[]},{"name":"good"}]}`,
		"resources/list":           `{"resources":[{"name":"no uri"},{"uri":7},{"uri":"file:///good"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{},{"uriTemplate":"good/{x}"}]}`,
		"prompts/list":             `{"prompts":[{"name":"good"},{"name":"bad","arguments":"x"}]}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"good"}, toolNames(c))
	require.Len(t, c.Resources, 1)
	require.Len(t, c.Templates, 1)
	require.Len(t, c.Prompts, 1)
	require.Len(t, c.Warnings, 9+2+1+1+1, c.Warnings)
	all := warningTexts(c)
	for _, want := range []string{"tools: entry 1 is left out", "tools: entry 10 is left out", `it has no "name"`,
		"resources: entry 1 is left out: it has no \"uri\"", "resourceTemplates: entry 1", "prompts: entry 2", "listed twice"} {
		require.Contains(t, all, want)
	}
}

// A list that the server answers badly is left out with a warning. Pages that came before
// are kept.
func TestDiscover_leaves_out_bad_lists(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		err           error
		want          []string
		warnings      int
	}{
		"an error":          {"", "", rpcError(-32603), nil, 1},
		"not found":         {"", "", rpcError(jsonrpc.CodeMethodNotFound), nil, 1},
		"a text":            {`"no tools today"`, "", nil, nil, 1},
		"no list":           {`{"tools":{"name":"a"}}`, "", nil, nil, 1},
		"null":              {`{"tools":null}`, "", nil, nil, 0},
		"second page":       {`{"tools":[{"name":"a"}],"nextCursor":"2"}`, `{"tools":7}`, nil, []string{"a"}, 1},
		"unreadable cursor": {`{"tools":[{"name":"a"}],"nextCursor":2}`, "", nil, []string{"a"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSession{caps: everything(), reply: func(method, cursor string) (string, error) {
				switch {
				case method == "prompts/list":
					return `{"prompts":[{"name":"p"}]}`, nil
				case method == "resources/templates/list": // implied by resources only
					return "", rpcError(jsonrpc.CodeMethodNotFound)
				case method != "tools/list":
					return `{}`, nil
				case cursor == "2":
					return c.second, nil
				}
				return c.first, c.err
			}}
			catalog, err := discoverAll(t, s, mcpvisor.Limits{})
			require.NoError(t, err)
			require.Equal(t, c.want, toolNames(catalog))
			require.Len(t, catalog.Prompts, 1, "the other lists are there")
			require.Len(t, catalog.Warnings, c.warnings, "%q", catalog.Warnings)
			for _, w := range catalog.Warnings {
				require.Equal(t, "tools", w.List, w)
			}
		})
	}
}

// Where another try may succeed, the discovery fails: an incomplete catalog would pass for
// the whole.
func TestDiscover_fails(t *testing.T) {
	good := func(method, _ string) (string, error) { return `{}`, nil }
	failing := func(failed string, err error) func(string, string) (string, error) {
		return func(method, cursor string) (string, error) {
			if method == failed {
				return "", err
			}
			return good(method, cursor)
		}
	}
	timeout := &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown}
	for name, c := range map[string]struct {
		reply func(string, string) (string, error)
		says  string
		is    error
	}{
		"every list":   {func(string, string) (string, error) { return "", rpcError(-32603) }, "every list failed", nil},
		"no answer":    {failing("prompts/list", timeout), "prompts/list", mcpvisor.ErrTimeout},
		"overloaded":   {failing("tools/list", &mcpvisor.Error{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent}), "tools/list", mcpvisor.ErrOverloaded},
		"deferred":     {failing("tools/list", &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeAnswered}), "tools/list", mcpvisor.ErrUnavailable},
		"by a gateway": {failing("resources/list", fmt.Errorf("x: %w", gatewayError{})), "resources/list", nil},
		"a second page": {func(method, cursor string) (string, error) {
			if cursor == "2" {
				return "", timeout
			}
			return `{"nextCursor":"2"}`, nil
		}, "timed out", mcpvisor.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, err := discoverAll(t, &fakeSession{caps: everything(), reply: c.reply}, mcpvisor.Limits{})
			require.Nil(t, catalog)
			require.Error(t, err)
			require.Contains(t, err.Error(), c.says)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

// The death of the session is the error, whatever else went wrong.
func TestDiscover_session_dies(t *testing.T) {
	died := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "server process ended"}
	s := &fakeSession{caps: everything()}
	s.reply = func(string, string) (string, error) {
		s.cause = died
		return "", &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: died}
	}
	_, err := discoverAll(t, s, mcpvisor.Limits{})
	require.Same(t, died, err)
}

// An error without an id costs one list, as one with an id does: the server answers.
func TestDiscover_error_without_id(t *testing.T) {
	s := &fakeSession{caps: everything(), reply: func(method, _ string) (string, error) {
		if method == "prompts/list" {
			return "", &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeUnknown, Cause: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest}}
		}
		return `{"tools":[{"name":"a"}],"resources":[],"resourceTemplates":[]}`, nil
	}}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, toolNames(c))
	require.Len(t, c.Warnings, 1)
}

// What a server makes of its own text in a warning is cut.
func TestDiscover_warnings_are_short(t *testing.T) {
	s := &fakeSession{caps: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{}}, reply: replies(map[string]string{
		"resources/list":           `{"resources":[{"uri":"x:a","annotations":{"priority":` + strings.Repeat("1", 1<<18) + `}},{"uri":"x:b"}]}`,
		"resources/templates/list": `{"resourceTemplates":[]}`})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Resources, 1)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0].Text, "entry 1 is left out: json: cannot unmarshal number 111")
	require.LessOrEqual(t, len(c.Warnings[0].Text), maxWarning)
}

func TestDiscover_context_ends(t *testing.T) {
	late := errors.New("it takes too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &fakeSession{caps: everything(), reply: func(string, string) (string, error) {
		cancel(late)
		return "", &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	}}
	_, err := Discover(ctx, s, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits)
	require.ErrorIs(t, err, late)
	require.True(t, strings.HasPrefix(err.Error(), "listing what the server offers: "), err.Error())
}

// Every status holds all warnings, so beyond the first ones bad entries are counted.
func TestDiscover_counts_bad_entries(t *testing.T) {
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{
		"tools/list": `{"tools":[` + strings.Repeat(`{},`, 5000) + `{"name":"good"}]}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"good"}, toolNames(c))
	require.Len(t, c.Warnings, catalog.WarningExamples+1)
	require.Equal(t, mcpvisor.Warning{List: "tools", Text: "4990 more entries are left out"}, c.Warnings[catalog.WarningExamples])
}

// gatewayError is an error of a transport that says that a gateway has answered.
type gatewayError struct{}

func (gatewayError) Error() string { return "HTTP 502" }

func (gatewayError) Outage() bool { return true }

// An entry with too long a name is left out. Text that is too long is cut. Warnings say
// both.
func TestDiscover_bounds_text(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	page := func(member string, entries ...map[string]any) string {
		raw, err := json.Marshal(map[string]any{member: entries})
		require.NoError(t, err)
		return string(raw)
	}
	texts := map[string]any{"title": long(maxTitle + 1), "description": long(maxDescription + 1)}
	entry := func(members map[string]any) map[string]any {
		for k, v := range texts {
			members[k] = v
		}
		return members
	}
	s := &fakeSession{caps: everything(), reply: replies(map[string]string{
		"tools/list": page("tools", entry(map[string]any{"name": long(maxName)}), map[string]any{"name": long(maxName + 1)}),
		"resources/list": page("resources", entry(map[string]any{"uri": "x:" + long(maxURI-2), "name": long(maxName + 1)}),
			map[string]any{"uri": "x:" + long(maxURI-1), "name": "n"}),
		"resources/templates/list": page("resourceTemplates", entry(map[string]any{"uriTemplate": "x:" + long(maxURI-2), "name": long(maxName + 1)}),
			map[string]any{"uriTemplate": "x:" + long(maxURI-1), "name": "n"}),
		"prompts/list": page("prompts", entry(map[string]any{"name": long(maxName), "arguments": []any{entry(map[string]any{"name": "a"})}}),
			map[string]any{"name": long(maxName + 1)}),
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Tools, 1)
	require.Len(t, c.Resources, 1)
	require.Len(t, c.Templates, 1)
	require.Len(t, c.Prompts, 1)
	for _, text := range []string{c.Tools[0].Definition.Title, c.Resources[0].Definition.Title, c.Templates[0].Definition.Title,
		c.Prompts[0].Definition.Title, c.Prompts[0].Definition.Arguments[0].Title} {
		require.Len(t, text, maxTitle)
	}
	for _, text := range []string{c.Tools[0].Definition.Description, c.Resources[0].Definition.Description,
		c.Templates[0].Definition.Description, c.Prompts[0].Definition.Description, c.Prompts[0].Definition.Arguments[0].Description} {
		require.LessOrEqual(t, len(text), maxDescription)
		require.Contains(t, text, "(cut)")
	}
	require.Len(t, c.Resources[0].Definition.Name, maxName)
	warnings := warningTexts(c)
	require.Equal(t, 4, strings.Count(warnings, "bytes long"), warnings)
	for _, want := range []string{"tools: 2 titles or descriptions were too long and are cut", "resources: 3 titles or descriptions were too long and are cut",
		"resourceTemplates: 3 titles or descriptions were too long and are cut", "prompts: 4 titles or descriptions were too long and are cut"} {
		require.Contains(t, warnings, want)
	}
	require.Less(t, len(warnings), 1000)
}

// An argument may be null.
func TestBounds_prompt_without_argument(t *testing.T) {
	require.NoError(t, new(bounds).prompt(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{nil}}))
}

// broad is an object of n small objects: 8 bytes each as text, 400 as a map.
func broad(n int) string { return `{"m":[` + strings.Repeat(`{"a":0},`, n) + `0]}` }

// An open member that is too large is left out. An entry that is too large without its open
// members is left out as a whole.
func TestDiscover_leaves_out_large_members(t *testing.T) {
	many := broad(10_000)
	s := &fakeSession{caps: everything(), reply: replies(map[string]string{
		"tools/list": `{"tools":[{"name":"a","_meta":` + many + `},{"name":"b","icons":[{"src":"x"}` + strings.Repeat(`,{}`, 10_000) + `]},
			{"name":"c","annotations":{"title":"t","x":` + many + `}},{"name":"d","_meta":{"k":"v"},"icons":[{"src":"x"}]}]}`,
		"resources/list":           `{"resources":[{"uri":"x:a","_META":` + many + `},{"uri":"x:b","name":"n","other":` + many + `},{"uri":"x:c","_meta":{"k":"v"}}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:a","icons":[` + many + `]}]}`,
		"prompts/list":             `{"prompts":[{"name":"a","_meta":` + many + `},{"name":"b","arguments":[{"name":"x"}` + strings.Repeat(`,{}`, 10_000) + `]}]}`,
	})}
	c, err := discoverAll(t, s, mcpvisor.Limits{})
	require.NoError(t, err)
	require.Len(t, c.Tools, 4)
	for _, tool := range c.Tools[:3] {
		require.Nil(t, tool.Definition.Meta)
		require.Nil(t, tool.Definition.Icons)
		require.Nil(t, tool.Definition.Annotations)
	}
	require.Equal(t, "v", c.Tools[3].Definition.Meta["k"])
	require.Len(t, c.Tools[3].Definition.Icons, 1)
	require.Len(t, c.Resources, 2)
	require.Nil(t, c.Resources[0].Definition.Meta)
	require.Equal(t, "v", c.Resources[1].Definition.Meta["k"])
	require.Len(t, c.Templates, 1)
	require.Empty(t, c.Templates[0].Definition.Icons)
	require.Len(t, c.Prompts, 1)
	texts := warningTexts(c)
	require.Contains(t, texts, "3 members of entries were too large and are left out")
	require.Contains(t, texts, "resources: entry 2 is left out: it holds more than 10000 values")
	require.Contains(t, texts, "prompts: entry 2 is left out: it holds more than 10000 values")
}

// What _meta takes once decoded counts towards Limits.MaxCatalogBytes.
func TestDiscover_counts_decoded_members(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":"tool-` + strings.Repeat("x", i%7) + strings.Repeat("y", i/7) + `","_meta":` + broad(100) + `}`)
	}
	s := &fakeSession{caps: onlyTools(), reply: replies(map[string]string{"tools/list": `{"tools":[` + b.String() + `]}`})}
	c, err := discoverAll(t, s, mcpvisor.Limits{MaxCatalogBytes: 4 << 20})
	require.NoError(t, err)
	require.Less(t, len(c.Tools), 150)
	require.Greater(t, len(c.Tools), 30)
	require.Contains(t, warningTexts(c), "Limits.MaxCatalogBytes")
}

// fakeSession answers list requests as a test says. It has only the methods that
// discovery calls.
type fakeSession struct {
	transport.Session
	caps  *mcp.ServerCapabilities
	reply func(method, cursor string) (string, error)
	asked []string // method and parameters of each request
	cause *supervisor.Cause
}

func (s *fakeSession) Info() mcpvisor.SessionInfo { return mcpvisor.SessionInfo{Capabilities: s.caps} }

func (s *fakeSession) Cause() *supervisor.Cause { return s.cause }

func (s *fakeSession) CheckInputSchema(json.RawMessage) (int, error) { return 0, nil }

func (s *fakeSession) UseTools([]mcpvisor.Tool, bool) {}

func (s *fakeSession) ToolSettings() map[string]mcpvisor.ToolSetting { return nil }

// firstPage is the cursor that reply gets for a request without one.
const firstPage = "(first)"

func (s *fakeSession) Request(_ context.Context, r transport.Request) (json.RawMessage, error) {
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+string(r.Params)))
	var params struct{ Cursor *string }
	cursor := firstPage
	if len(r.Params) > 0 {
		if err := json.Unmarshal(r.Params, &params); err != nil || params.Cursor == nil {
			return nil, fmt.Errorf("unexpected parameters %s", r.Params)
		}
		cursor = *params.Cursor
	}
	text, err := s.reply(r.Method, cursor)
	return json.RawMessage(text), err
}

func everything() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}, Prompts: &mcp.PromptCapabilities{}}
}

func onlyTools() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
}

// replies answers with pages, by "method?cursor" or by "method" for all of its pages. Other
// requests get an empty object.
func replies(pages map[string]string) func(method, cursor string) (string, error) {
	return func(method, cursor string) (string, error) {
		for _, key := range []string{method + "?" + cursor, method} {
			if text, ok := pages[key]; ok {
				return text, nil
			}
		}
		return `{}`, nil
	}
}

func rpcError(code int64) error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &jsonrpc.Error{Code: code, Message: "refused"}}
}

func discoverAll(t *testing.T, s *fakeSession, limits mcpvisor.Limits) (*catalog.Catalog, error) {
	t.Helper()
	limits = mcpvisor.ServerSpec{Limits: limits}.WithDefaults().Limits
	return Discover(t.Context(), s, "srv", limits)
}

func toolNames(c *catalog.Catalog) (names []string) {
	for _, tool := range c.Tools {
		names = append(names, tool.OriginalName)
	}
	return names
}

// warningTexts returns the warnings of a catalog, one on each line.
func warningTexts(c *catalog.Catalog) string {
	var lines []string
	for _, w := range c.Warnings {
		lines = append(lines, w.String())
	}
	return strings.Join(lines, "\n")
}
