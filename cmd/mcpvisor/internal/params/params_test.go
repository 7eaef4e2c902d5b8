package params_test

import (
	"encoding/json"
	"fmt"
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
		"filter object / filter.kind string / filter.deep object",
		"edits object[] / edits[0].old string",
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

// nestedSchema has parts at several levels, behind references, branches and names with dots.
const nestedSchema = `{"$defs":{"Address":{"type":"object","properties":{"city":{"type":"string"},"zip":{"type":"integer"}}},"Line":{"type":"object","properties":{"sku":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},"next":{"$ref":"#/$defs/Line"}}}},
	"type":"object","properties":{
	"customer":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"vip":{"type":"boolean"},"address":{"anyOf":[{"$ref":"#/$defs/Address"},{"type":"null"}]},"a.b":{"type":"integer"}}},
	"lines":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/Line"}},{"type":"null"}]},
	"both":{"allOf":[{"properties":{"x":{"type":"integer"}}},{"properties":{"y":{"type":"integer"}}}]},
	"labels":{"type":"object","additionalProperties":{"type":"integer"}},"free":{},"text":{"type":"string"},
	"order.id":{"type":"integer"},"order":{"type":"object","properties":{"id":{"type":"string"},"by":{"type":"string"}}}}}`

func TestParse_nested_names(t *testing.T) {
	list := params.New([]byte(nestedSchema))
	for words, want := range map[string]string{
		`customer.name=Ada customer.age=36 customer.vip=true`:      `{"customer":{"name":"Ada","age":36,"vip":true}}`,
		`customer.address.zip=3 text=x customer.name=Ada`:          `{"customer":{"address":{"zip":3},"name":"Ada"},"text":"x"}`,
		`lines[1].sku:=4 lines[0].sku=3 lines[0].tags=a`:           `{"lines":[{"sku":3,"tags":["a"]},{"sku":4}]}`,
		`lines[0].tags=a lines[0].tags=b lines[0].next.next.sku=1`: `{"lines":[{"tags":["a","b"],"next":{"next":{"sku":1}}}]}`,
		`lines[0].tags[0]=3 lines[0].tags[1]=b`:                    `{"lines":[{"tags":["3","b"]}]}`,
		`lines[0]:={"sku":1} lines[1].sku=2`:                       `{"lines":[{"sku":1},{"sku":2}]}`,
		`both.y=1 both.x=2`:                                        `{"both":{"y":1,"x":2}}`,
		`customer.a.b=1`:                                           `{"customer":{"a.b":1}}`,
		`order.id=1 order.by=Ada`:                                  `{"order.id":1,"order":{"by":"Ada"}}`,
		`labels.size=3`:                                            `{"labels":{"size":3}}`,
		`free.x=3 free.y:=3`:                                       `{"free":{"x":"3","y":3}}`,
		`labels.io/size.x=3`:                                       `labels.io/size.x is not a parameter`,
		`free.x.y=3`:                                               `free.x.y is not a parameter`,
		`customer.nmae=x`:                                          `customer.nmae is not a parameter; did you mean customer.name?`,
		`customer.adress.city=x`:                                   `customer.adress is not a parameter; did you mean customer.address?`,
		`customer.address.ctiy=x`:                                  `customer.address.ctiy is not a parameter; did you mean customer.address.city?`,
		`custmer.name=x`:                                           `custmer is not a parameter; did you mean customer?`,
		`lines[0].skq=x`:                                           `lines[0].skq is not a parameter; did you mean lines[0].sku?`,
		`text.x=1`:                                                 `text.x is not a parameter`,
		`text[0]=1`:                                                `text[0] is not a parameter`,
		`customer[0]=1`:                                            `customer[0] is not a parameter`,
		`lines.sku=1`:                                              `lines.sku is not a parameter`,
		`lines[0]sku=1`:                                            `lines[0]sku is not a parameter`,
		`customer.=1`:                                              `customer. is not a parameter`,
		`zzzzz[0]=1`:                                               `zzzzz[0] is not a parameter`,
		`customer.age=x`:                                           `customer.age must be an integer, and is "x"; write for instance customer.age=3`,
		`customer.name=a customer.name=b`:                          `customer.name is given twice; leave one out`,
		`customer:={} customer.name=a`:                             `customer and customer.name contradict each other; leave one out`,
		`customer.name=a customer:={}`:                             `customer.name and customer contradict each other; leave one out`,
		`free[0]=a free.x=a`:                                       `free[0] and free.x contradict each other; leave one out`,
		`lines[0].tags[0]=a lines[0].tags=b`:                       `lines[0].tags[0] and lines[0].tags contradict each other; leave one out`,
		`lines[2].sku=1 lines[0].sku=1`:                            `the list of lines[2].sku lacks item [1]; number its items from [0]`,
		`lines[00].sku=1`:                                          `the list of lines[00].sku lacks item [0]; number its items from [0]`,
		`lines[99999999999999999999].sku=1`:                        `lacks item [0]; number`,
		`customer` + strings.Repeat(".address", 200) + `=x`:        `is not a parameter`,
		`lines[0]` + strings.Repeat(".next", 200) + `.sku=3`:       `is not a parameter`,
		strings.TrimSpace(strings.Repeat("lines[0].next.sku=3 ", 2)): `lines[0].next.sku is given twice; leave one out`,
	} {
		arguments, err := list.Parse(strings.Split(words, " "))
		if !strings.HasPrefix(want, "{") {
			require.ErrorContains(t, err, want, words)
			continue
		}
		require.NoError(t, err, words)
		require.Equal(t, want, string(arguments), words)
		require.Empty(t, list.Check(t.Context(), arguments), words)
		again, err := params.New(nil).Like(arguments).Parse(strings.Split(words, " "))
		require.NoError(t, err, words)
		require.Equal(t, want, string(again), "%s, without the schema, by what was sent before", words)
	}
}

// Each word may read as much of a schema as New does, so the last of many has its type, too.
func TestParse_many_nested_names(t *testing.T) {
	list := params.New([]byte(`{"properties":{"a":{"type":"object","properties":{"long":{"description":"` + strings.Repeat("x", 200_000) + `","properties":{"n":{"type":"integer"}}}}}}}`))
	for range 100 {
		arguments, err := list.Parse([]string{"a.long.n=1"})
		require.NoError(t, err)
		require.Equal(t, `{"a":{"long":{"n":1}}}`, string(arguments))
	}
}

// A word with many dots reads the members of an object once, however many there are.
func TestParse_many_dots(t *testing.T) {
	var members strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&members, `"p%d":{},`, i)
	}
	list := params.New([]byte(`{"properties":{"o":{"type":"object","properties":{` + members.String() + `"z":{}}}}}`))
	once := testing.AllocsPerRun(1, func() { _, _ = list.Parse([]string{"o.x=1"}) })
	many := testing.AllocsPerRun(1, func() { _, _ = list.Parse([]string{"o.x" + strings.Repeat(".x", 100) + "=1"}) })
	require.Less(t, many, 2*once)
}

// A word has the type that any of the kept values of its place has.
func TestLike_several_types(t *testing.T) {
	list := params.New(nil).Like([]byte(`{"lines":[{"n":null,"v":1,"a":null},{"n":"x","v":true,"a":{"n":2}}]}`))
	arguments, err := list.Parse([]string{"lines[0].n:=null", "lines[0].v=1", "lines[0].a:=null", "lines[1].n=x", "lines[1].v=true", "lines[1].a.n=2"})
	require.NoError(t, err)
	require.Equal(t, `{"lines":[{"n":null,"v":1,"a":null},{"n":"x","v":true,"a":{"n":2}}]}`, string(arguments))
}

// The error about a value that is not allowed names some of those that are, however many a server lists.
func TestParse_many_values(t *testing.T) {
	_, err := params.New([]byte(`{"properties":{"a":{"enum":[` + strings.Repeat(`"x",`, 100_000) + `"y"]}}}`)).Parse([]string{"a=z"})
	require.ErrorContains(t, err, "a must be one of x, x, x,")
	require.Less(t, len(err.Error()), 2000)
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
	require.Equal(t, []string{`edits:='[{"oldText":"…","newText":"…"}]'`, `ids:='[1]'`, `names:='["…"]'`, `free:='{"…": "…"}'`, `location='New York'`, `'a;id=it'\''s'`, `deep:='[[["…"]]]'`}, examples)
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
		`{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"$ref":"#/properties/a"},{"$ref":"#/properties/a"}]},"b":{"type":"array","allOf":[{"$ref":"#/properties/b"},{"$ref":"#/properties/b"}]}}}`,
		`{"properties":{"a":{"type":3,"enum":"x","required":true,"items":[1],"anyOf":{}}},"required":[1,"z"],"$defs":3}`,
		`{"properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`, `{"properties":{"a":`, `[`, `null`, `3`,
	} {
		list := params.New([]byte(schema))
		list.Check(t.Context(), []byte(`{"a":[[[[1]]]],"b":{"a":1}}`))
		_, _ = list.Parse([]string{"a=1", "b=2"})
		_, _ = list.Parse([]string{"a.x.y=1", "b[0].x=2"})
		_, _ = list.Parse([]string{"b[0].x=2", "a" + strings.Repeat("[0].a", 100) + "=1"})
	}
}

// What a server names reaches no message with characters that change a terminal.
func TestCheck_unsafe_text(t *testing.T) {
	list := params.New([]byte(`{"properties":{"a":{"enum":["x\u001b[2J"]}},"required":["n\u001b[2J"],"additionalProperties":false}`))
	text := strings.Join(list.Check(t.Context(), []byte(`{"a":"\u001b[2J","\u001b]0;":1}`)), "\n")
	require.NotEmpty(t, text)
	require.NotContains(t, text, "\x1b")
}
