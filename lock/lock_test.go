package lock

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tool = `{"name":"read","title":"Read","description":"Reads <a> file","inputSchema":{"type":"object","properties":{"path":{"type":"string","maxLength":9007199254740993}}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"a":1}}`

func offer() mcpvisor.Offer {
	return mcpvisor.Offer{Instructions: "Be kind.",
		Tools:     []mcpvisor.OfferEntry{{Name: "read", Raw: json.RawMessage(tool)}, {Name: "same", Raw: json.RawMessage(`{"name":"same"}`)}},
		Prompts:   []mcpvisor.OfferEntry{{Name: "p", Raw: json.RawMessage(`{"name":"p","arguments":[{"name":"a"}]}`)}},
		Templates: []mcpvisor.OfferEntry{{Name: "a://{x}", Raw: json.RawMessage(`{"name":"t","uriTemplate":"a://{x}"}`)}},
	}
}

// locked is a file with what offer has, after a round through its text.
func locked(t *testing.T) *File {
	t.Helper()
	var r Recorder
	require.Nil(t, r.Check("s", offer()))
	s, known := r.Server("s")
	require.True(t, known)
	s.Start = json.RawMessage(`{"command": "npx", "args": ["-y", "${PACKAGE}"]}`)
	text, err := (&File{Servers: map[string]*Server{"s": s}}).Encode()
	require.NoError(t, err)
	f, err := Parse(text)
	require.NoError(t, err)
	again, err := f.Encode()
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	require.Contains(t, string(text), "Reads <a> file")
	return f
}

func guardOf(t *testing.T, mode Mode) *Guard {
	t.Helper()
	g := new(Guard)
	g.Set(mode, locked(t), nil, map[string]json.RawMessage{"s": json.RawMessage(`{"args":["-y","${PACKAGE}"],"command":"npx"}`)})
	return g
}

// Each value of an entry counts, and only its entry is withheld.
func TestGuard_each_change(t *testing.T) {
	g := guardOf(t, Enforce)
	require.Empty(t, g.Check("s", offer()))
	for _, change := range []struct{ from, to, in string }{
		{`"title":"Read"`, `"title":"read"`, "title"},
		{`"title":"Read",`, ``, "title"},
		{`Reads <a> file`, `Reads <a> file` + "\u200b", "description"},
		{`"maxLength":9007199254740993`, `"maxLength":9007199254740992`, "inputSchema"},
		{`"maxLength":9007199254740993`, `"maxLength":9007199254740993.0`, "inputSchema"},
		{`"outputSchema":{"type":"object"}`, `"outputSchema":{"type":"string"}`, "outputSchema"},
		{`"readOnlyHint":true`, `"readOnlyHint":false`, "annotations"},
		{`"_meta":{"a":1}`, `"_meta":{"a":2}`, "_meta"},
		{`"name":"read",`, `"name":"read","icons":[],`, "icons"},
		{`"description":"Reads <a> file"`, `"description":"evil","description":"Reads <a> file"`, "a member that stands twice"},
	} {
		o := offer()
		text := strings.Replace(tool, change.from, change.to, 1)
		require.NotEqual(t, tool, text)
		o.Tools[0].Raw = json.RawMessage(text)
		require.Equal(t, []mcpvisor.Finding{{List: "tools", Name: "read", Text: fmt.Sprintf(`"read" differs from the lock file in %s; see mcpvisor lock diff s`, change.in)}}, g.Check("s", o))
	}
	o := offer()
	o.Prompts[0].Raw, o.Templates[0].Raw, o.Instructions = json.RawMessage(`{"name":"p"}`), json.RawMessage(`{"name":"t2","uriTemplate":"a://{x}"}`), ""
	o.Tools = append(o.Tools, mcpvisor.OfferEntry{Name: "new", Raw: json.RawMessage(`{"name":"new"}`)})
	var found []string
	for _, f := range g.Check("s", o) {
		require.False(t, f.Listed)
		found = append(found, f.List+" "+f.Name)
	}
	require.Equal(t, []string{"instructions ", "tools new", "prompts p", "resourceTemplates a://{x}"}, found)
}

// A server that lists the same in another order is no change, however often it starts.
func TestGuard_other_order(t *testing.T) {
	g := guardOf(t, Enforce)
	for range 1000 {
		o := offer()
		for _, list := range [][]mcpvisor.OfferEntry{o.Tools, o.Prompts, o.Templates} {
			rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			for i := range list {
				list[i].Raw = json.RawMessage(testutil.Shuffled(string(list[i].Raw)))
			}
		}
		require.Empty(t, g.Check("s", o))
	}
}

// What is not approved as a whole: another command, a server that is not in the file, a file that cannot be used.
func TestGuard_whole_server(t *testing.T) {
	g := guardOf(t, Enforce)
	require.Len(t, g.Check("other", offer()), 4)
	for _, start := range []string{`{"command":"npx","args":["-y","evil"]}`, `{"command":"npx","args":["-y","${PACKAGE}"],"url":"http://x"}`, `{}`} {
		g.Set(Enforce, locked(t), nil, map[string]json.RawMessage{"s": json.RawMessage(start)})
		found := g.Check("s", offer())
		require.Len(t, found, 4)
		require.Contains(t, found[0].Text, "another command or address")
		require.Empty(t, found[0].Name)
	}
	g.Set(Enforce, locked(t), nil, nil) // it is not known what is started
	require.Empty(t, g.Check("s", offer()))
	g.Set(Enforce, nil, fmt.Errorf("it is damaged"), nil)
	require.Len(t, g.Check("s", offer()), 4)
	require.Contains(t, g.Check("s", offer())[0].Text, "it is damaged")
	g.Set(Enforce, nil, nil, nil)
	require.Len(t, g.Check("s", mcpvisor.Offer{Tools: []mcpvisor.OfferEntry{}}), 2, "the tools and the instructions: nothing else was read")
	g.Set(Warn, nil, nil, nil)
	for _, f := range g.Check("s", offer()) {
		require.True(t, f.Listed)
	}
	g.Set(Off, nil, nil, nil)
	require.Empty(t, g.Check("s", offer()))
	require.Empty(t, new(Guard).Check("s", offer()))
}

// A file that was changed in any place is not used.
func TestParse_damaged(t *testing.T) {
	text, err := locked(t).Encode()
	require.NoError(t, err)
	for from, to := range map[string]string{
		"Be kind.": "Be evil.", `"version": 1`: `"version": 2`, "sha256:": "sha256:0", `"servers"`: `"server"`, "${PACKAGE}": "evil", `"a": 1`: `"a": 2`,
		"Reads <a> file": "Reads <a> filE", "a://{x}\": {": "b://{x}\": {",
	} {
		changed := strings.Replace(string(text), from, to, 1)
		require.NotEqual(t, string(text), changed, from)
		_, err := Parse([]byte(changed))
		require.Error(t, err, from)
	}
	for _, bad := range []string{"", "{", "[]", string(text) + "{}", string(text[:len(text)/2])} {
		_, err := Parse([]byte(bad))
		require.Error(t, err)
	}
	indented, err := Parse([]byte(strings.ReplaceAll(string(text), "\n", "\n\t")))
	require.NoError(t, err, "white space does not count")
	require.Equal(t, locked(t), indented)
}

// A difference names each value, and shows characters that are not seen, and what differs behind a long beginning.
func TestCompare(t *testing.T) {
	was := locked(t).Servers["s"]
	require.Empty(t, Compare(was, was))
	is := was.clone()
	is.Instructions = ""
	delete(is.Prompts, "p")
	is.Tools["new"] = json.RawMessage(`{"name":"new","inputSchema":{"type":"object"}}`)
	is.Tools["read"] = json.RawMessage(strings.Replace(strings.Replace(tool, "Reads <a> file", "Reads <a> file\u200b"+"\U000e0041", 1), `"type":"string",`, "", 1))
	is.normalize()
	all := Compare(was, is)
	require.Equal(t, []Difference{
		{List: "instructions", Change: "removed"},
		{List: "tools", Name: "new", Change: "added", Values: []ValueChange{{Path: "inputSchema.type", Is: `"object"`}, {Path: "name", Is: `"new"`}}},
		{List: "tools", Name: "read", Change: "changed", Values: []ValueChange{
			{Path: "description", Was: `"Reads <a> file"`, Is: `"Reads <a> file\u{200b}\u{e0041}"`},
			{Path: "inputSchema.properties.path.type", Was: `"string"`}}},
		{List: "prompts", Name: "p", Change: "removed"},
	}, all)
	require.Equal(t, "~ tools read\n    description\n      - \"Reads <a> file\"\n      + \"Reads <a> file\\u{200b}\\u{e0041}\"\n    inputSchema.properties.path.type\n      - \"string\"", all[2].String())

	long := strings.Repeat("word ", 2000)
	is = was.clone()
	is.Tools["read"] = json.RawMessage(strings.Replace(tool, "Reads <a> file", long+"evil", 1))
	was.Tools["read"] = json.RawMessage(strings.Replace(tool, "Reads <a> file", long+"good", 1))
	value := Compare(was, is)[0].Values[0]
	require.Contains(t, value.Was, "good")
	require.Contains(t, value.Is, "evil")
	require.Less(t, len(value.Is), 200)

	twice := was.clone()
	twice.Tools["read"] = json.RawMessage(`{"a":1,"a":2}`)
	was.Tools["read"] = json.RawMessage(`{"a":2}`)
	require.Len(t, Compare(was, twice)[0].Values, 1, "JSON readers disagree, and it is told")

	many := map[string]int{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = i
	}
	text, err := json.Marshal(many)
	require.NoError(t, err)
	is.Tools["read"] = text
	d := Compare(was, is)[0]
	require.Len(t, d.Values, MaxValues)
	require.Equal(t, 1001-MaxValues, d.More)
}
