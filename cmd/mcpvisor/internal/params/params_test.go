package params_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
)

const searchSchema = `{"type":"object","$defs":{"Mode":{"enum":["fast","exact"],"type":"string","description":"of the type"}},"properties":{
	"query":{"type":"string","description":"What to look for."},
	"limit":{"type":"integer","default":10,"minimum":1,"maximum":100},
	"ratio":{"type":"number"},
	"mode":{"$ref":"#/$defs/Mode","description":"How."},
	"paths":{"type":"array","items":{"type":"string"},"minItems":1},
	"since":{"anyOf":[{"type":"string","minLength":4},{"type":"null"}],"default":null},
	"level":{"type":["integer","null"],"enum":[1,2,3]},
	"dry_run":{"type":"boolean"},
	"filter":{"type":"object","additionalProperties":false,"required":["kind"],"properties":{"kind":{"type":"string"},"deep":{"type":"object","properties":{"x":{}}}}},
	"edits":{"type":"array","items":{"type":"object","properties":{"old":{"type":"string"}}}},
	"any":{}
	},"required":["query","paths"],"additionalProperties":false}`

func TestNew(t *testing.T) {
	list := params.New([]byte(searchSchema))
	var text []string
	for _, p := range list.Params {
		line := p.Name + " " + p.Type
		if p.Required {
			line += " required"
		}
		if p.Default != nil {
			line += " default=" + string(p.Default)
		}
		if p.Enum != nil {
			line += " enum=" + params.Values(p.Enum)
		}
		if p.Description != "" {
			line += " # " + p.Description
		}
		for _, f := range p.Fields {
			line += " / " + f.Name + " " + f.Type
			require.Empty(t, f.Fields, "one level is listed")
		}
		text = append(text, line)
	}
	require.Equal(t, []string{
		"query string required # What to look for.",
		"limit integer default=10",
		"ratio number",
		"mode string enum=fast, exact # How.",
		"paths string[] required",
		"since string or null default=null",
		"level integer or null enum=1, 2, 3",
		"dry_run boolean",
		"filter object / kind string / deep object",
		"edits object[] / old string",
		"any any",
	}, text, "the order is that of the server")
	require.Equal(t, []string{"query", "paths"}, list.Required())
}

func TestParse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(file, []byte("a\n\"b\"\n"), 0o600))
	list := params.New([]byte(searchSchema))
	for words, want := range map[string]string{
		`query=3`:                                `{"query":"3"}`,
		`query=a=b`:                              `{"query":"a=b"}`,
		`query=`:                                 `{"query":""}`,
		`query=<&>`:                              `{"query":"\u003c\u0026\u003e"}`,
		`query=http://x/?a:=1`:                   `{"query":"http://x/?a:=1"}`,
		`limit=3 query=x`:                        `{"limit":3,"query":"x"}`,
		`limit:=3.0`:                             `{"limit":3.0}`,
		`ratio=1e3`:                              `{"ratio":1e3}`,
		`mode=exact`:                             `{"mode":"exact"}`,
		`level=2`:                                `{"level":2}`,
		`dry_run=true`:                           `{"dry_run":true}`,
		`since=null`:                             `{"since":"null"}`,
		`since:=null`:                            `{"since":null}`,
		`paths=a paths=b`:                        `{"paths":["a","b"]}`,
		`paths=["a"] paths=b`:                    `{"paths":["a","b"]}`,
		`paths=[] paths=b`:                       `{"paths":["b"]}`,
		`filter={"kind":"x"}`:                    `{"filter":{"kind":"x"}}`,
		`any=3`:                                  `{"any":"3"}`,
		`any:=3`:                                 `{"any":3}`,
		`query=@` + file:                         `{"query":"a\n\"b\"\n"}`,
		`query:="@x"`:                            `{"query":"@x"}`,
		`limit=3 query=1 query=2`:                `query is given twice; leave one out`,
		`limit=three`:                            `limit must be an integer, and is "three"; write for instance limit=3`,
		`limit=3.5`:                              `limit must be an integer, and is "3.5"; write for instance limit=3`,
		`limit=0x10`:                             `limit must be an integer, and is "0x10"; write for instance limit=3`,
		`limit=NaN`:                              `limit must be an integer, and is "NaN"; write for instance limit=3`,
		`mode=slow`:                              `mode must be one of fast, exact, and is "slow"; write for instance mode=fast`,
		`dry_run=yes`:                            `dry_run must be a boolean, and is "yes"; write for instance dry_run=true`,
		`filter=x`:                               `filter must be an object, and is "x"; write for instance filter:='{"kind":"…"}'`,
		`limit:=three`:                           `the value of limit is not valid JSON: three; write limit=… for plain text`,
		`qurey=x`:                                `qurey is not a parameter; did you mean query?`,
		`zzzzzzzz=x`:                             `zzzzzzzz is not a parameter`,
		`query`:                                  `argument "query" is not key=value; write for instance path=/tmp or limit:=3`,
		`query=@` + filepath.Join(dir, "absent"): `the value of query cannot be read: `,
	} {
		t.Run(words, func(t *testing.T) {
			arguments, err := list.Parse(strings.Split(words, " "))
			if strings.HasPrefix(want, "{") {
				require.NoError(t, err)
				require.Equal(t, want, string(arguments))
				require.True(t, json.Valid(arguments))
				again, err := params.New(nil).Like(arguments).Parse(strings.Split(words, " "))
				require.NoError(t, err)
				require.Equal(t, want, string(again), "without the schema, by what was sent before")
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

// A value that was kept without its secret does not say its type: a number may be a text then.
func TestLike_secret(t *testing.T) {
	list := params.New([]byte(searchSchema)).Like([]byte(`{"limit":"***","query":"of ***","mode":3,"any":"***"}`))
	arguments, err := list.Parse([]string{"limit=3", "query=of me", "mode=4", "any=5"})
	require.NoError(t, err)
	require.Equal(t, `{"limit":3,"query":"of me","mode":4,"any":"5"}`, string(arguments))
}

// An example of a list or an object has the types of the schema.
func TestExample(t *testing.T) {
	list := params.New([]byte(`{"properties":{
		"edits":{"type":"array","items":{"type":"object","required":["oldText","newText"],"properties":{"oldText":{"type":"string"},"newText":{"type":"string"},"more":{}}}},
		"ids":{"type":"array","items":{"type":"integer"}},"names":{"type":"array","items":{"type":"string"}},
		"free":{"type":"object"},"location":{"enum":["New York"]},"a;id":{"enum":["it's"]},"deep":{"type":"array","items":{"$ref":"#/properties/deep"}}}}`))
	var examples []string
	for _, p := range list.Params {
		examples = append(examples, p.Example())
	}
	require.Equal(t, []string{`edits:='[{"oldText":"…","newText":"…"}]'`, `ids:='[1]'`, `names:='["…"]'`, `free:='{"…": "…"}'`, `location='New York'`, `'a;id='` + `'it'\''s'`, `deep:='[[["…"]]]'`}, examples)
}

// JSON holds only UTF-8. Other bytes are refused, because the tool would get other ones.
func TestParse_not_UTF8(t *testing.T) {
	file := filepath.Join(t.TempDir(), "img.bin")
	require.NoError(t, os.WriteFile(file, []byte("\x89PNG\r\n\xff"), 0o600))
	for _, word := range []string{"query=@" + file, "any=@" + file, `any:="` + "\xff\"", "query=\xff"} {
		_, err := params.New([]byte(searchSchema)).Parse([]string{word})
		require.ErrorContains(t, err, "is not UTF-8", "%q", word)
	}
}

// Without a schema every name and every text is accepted.
func TestParse_no_schema(t *testing.T) {
	for _, schema := range []string{``, `true`, `[]`, `{"type":"object"}`, `{"properties":3}`, `{"properties":{"a":{"type":"string"}},"additionalProperties":{}}`} {
		arguments, err := params.New([]byte(schema)).Parse([]string{"b=1", "c:=1"})
		require.NoError(t, err, schema)
		require.Equal(t, `{"b":"1","c":1}`, string(arguments))
	}
}

func TestCheck(t *testing.T) {
	list := params.New([]byte(searchSchema))
	good := `"query":"x","paths":["a"]`
	for arguments, want := range map[string][]string{
		`{` + good + `}`: nil,
		`{` + good + `,"since":null,"level":null}`: {"level must be one of 1, 2, 3, and is null"},
		`{` + good + `,"limit":3.0,"mode":"fast"}`: nil,
		`{}`:                                  {"query is missing", "paths is missing"},
		`null`:                                {"query is missing", "paths is missing"},
		``:                                    {"query is missing", "paths is missing"},
		`{"query":3,"paths":[]}`:              {"query must be a string, and is 3", "paths must have at least 1 item, and has 0"},
		`{` + good + `,"limt":3}`:             {"limt is not a parameter; did you mean limit?"},
		`{` + good + `,"limit":1.5}`:          {"limit must be an integer, and is 1.5"},
		`{` + good + `,"limit":101}`:          {"limit must be at most 100, and is 101"},
		`{` + good + `,"mode":"slow"}`:        {`mode must be one of "fast", "exact", and is "slow"`},
		`{` + good + `,"since":3}`:            {"since must be a string or null, and is 3"},
		`{` + good + `,"since":"abc"}`:        {"since must have at least 4 characters, and has 3"},
		`{"query":"x","paths":["a",1]}`:       {"paths[1] must be a string, and is 1"},
		`{` + good + `,"filter":{"knd":"x"}}`: {"filter.kind is missing", "filter.knd is not a parameter; did you mean filter.kind?"},
		`{` + good + `,"edits":[{"old":1}]}`:  {"edits[0].old must be a string, and is 1"},
		`{` + good + `,"dry_run":"true"}`:     {`dry_run must be a boolean, and is "true"`},
	} {
		require.Equal(t, want, orNil(list.Check(t.Context(), []byte(arguments))), arguments)
	}
	require.Len(t, list.Check(t.Context(), []byte(`{`+good+`,"a1":1,"a2":1,"a3":1,"a4":1,"a5":1,"a6":1,"a7":1,"a8":1,"a9":1,"b1":1,"b2":1,"b3":1}`)), 10)
}

// The parts of allOf declare names together, and an alternative that fits best is named.
func TestCheck_combined_schemas(t *testing.T) {
	list := params.New([]byte(`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"anyOf":[{"type":"array","minItems":2},{"type":"null"}]}}}]}`))
	require.Empty(t, list.Check(t.Context(), []byte(`{"a":"x","b":null}`)))
	require.Equal(t, []string{"a must be a string, and is 1", "b must have at least 2 items, and has 1"}, list.Check(t.Context(), []byte(`{"a":1,"b":[1]}`)))
}

func orNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Schemas that refer to themselves, or that are not schemas, end.
func TestNew_hostile_schemas(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}`, `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		`{"properties":{"a":{"$ref":"#/properties/a"},"b":{"anyOf":[{"$ref":"#/properties/b"},{"$ref":"#/properties/b"}]}}}`,
		`{"properties":{"a":{"type":"array","items":{"$ref":"#/properties/a"}}}}`,
		`{"properties":{"a":{"type":3,"enum":"x","required":true,"items":[1],"anyOf":{}}},"required":[1,"z"],"$defs":3}`,
		`{"properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`, `{"properties":{"a":`, `[`, `null`, `3`,
	} {
		list := params.New([]byte(schema))
		list.Check(t.Context(), []byte(`{"a":[[[[1]]]],"b":{"a":1}}`))
		_, _ = list.Parse([]string{"a=1", "b=2"})
	}
}

// What a server names reaches no message with characters that change a terminal.
func TestCheck_unsafe_text(t *testing.T) {
	list := params.New([]byte(`{"properties":{"a":{"enum":["x\u001b[2J"]}},"required":["n\u001b[2J"],"additionalProperties":false}`))
	text := strings.Join(list.Check(t.Context(), []byte(`{"a":"\u001b[2J","\u001b]0;":1}`)), "\n")
	require.NotEmpty(t, text)
	require.NotContains(t, text, "\x1b")
}
