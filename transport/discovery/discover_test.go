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
	timeout := &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: mcpvisor.OutcomeUnknown}
	for name, c := range map[string]struct {
		reply func(string, string) (string, error)
		says  string
		is    error
	}{
		"every list":   {func(string, string) (string, error) { return "", rpcError(-32603) }, "every list failed", nil},
		"no answer":    {failing("prompts/list", timeout), "prompts/list", mcpvisor.ErrTimeout},
		"overloaded":   {failing("tools/list", &mcpvisor.Error{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeNotSent}), "tools/list", mcpvisor.ErrOverloaded},
		"deferred":     {failing("tools/list", &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeAnswered}), "tools/list", mcpvisor.ErrUnavailable},
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
		return "", &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: died}
	}
	_, err := discoverAll(t, s, mcpvisor.Limits{})
	require.Same(t, died, err)
}

// An error without an id costs one list, as one with an id does: the server answers.
func TestDiscover_error_without_id(t *testing.T) {
	s := &fakeSession{caps: everything(), reply: func(method, _ string) (string, error) {
		if method == "prompts/list" {
			return "", &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeUnknown, Cause: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest}}
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
		return "", &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	}}
	_, err := Discover(ctx, s, "srv", mcpvisor.ServerSpec{}.WithDefaults().Limits, false)
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
