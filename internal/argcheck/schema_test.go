package argcheck

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func compiled(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := Compile([]byte(schema))
	require.NoError(t, err, schema)
	return s
}

func TestCheck(t *testing.T) {
	const schema = `{"$schema":"http://json-schema.org/draft-04/schema#","$id":"x","type":"object","properties":{
		"path":{"type":"string","minLength":2,"maxLength":9,"pattern":"^/"},"count":{"type":"integer","minimum":1,"maximum":3},
		"mode":{"enum":["fast","slow",null]},"list":{"type":"array","items":{"$ref":"#/$defs/item"},"maxItems":3},
		"ratio":{"type":["number","null"],"exclusiveMinimum":0,"exclusiveMaximum":1,"multipleOf":0.25},
		"odd":{"pattern":"(?=never)"},"one":{"anyOf":[{"type":"string"},{"type":"object","required":["id"]}]},"fixed":{"const":"x"},
		"all":{"allOf":[{"type":"string"},{"minLength":3}]},"no":{"not":{"type":"string"}}},
		"required":["path"],"additionalProperties":false,"$defs":{"item":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	s := compiled(t, schema)
	for args, want := range map[string]Violation{
		`{"path":"/a"}`: {},
		`{"path":"/a","count":3,"mode":null,"list":[{"name":"n"}],"ratio":0.5,"odd":"anything","one":{"id":1},"fixed":"x","all":"abc","no":1}`: {},
		`{}`:                            {Path: "path", Rule: "required", Reason: "it is missing"},
		`{"pth":"/a"}`:                  {Path: "path", Rule: "required", Reason: `it is missing; "pth" is no parameter`, Similar: []string{"path"}},
		`{"path":"/a","cuont":1}`:       {Path: "cuont", Rule: "additionalProperties", Reason: "there is no such parameter", Similar: []string{"count"}},
		`{"path":"/a","zzzzzzzzzzz":1}`: {Path: "zzzzzzzzzzz", Rule: "additionalProperties", Reason: "there is no such parameter"},
		`{"path":7}`:                    {Path: "path", Rule: "type", Reason: "it must be string, and is integer"},
		`{"path":"/"}`:                  {Path: "path", Rule: "minLength", Reason: "its length must be 2 or more"},
		`{"path":"/secret-value"}`:      {Path: "path", Rule: "maxLength", Reason: "its length must be 9 or less"},
		`{"path":"secret"}`:             {Path: "path", Rule: "pattern", Reason: `it does not match "^/"`},
		`{"path":"/a","count":0}`:       {Path: "count", Rule: "minimum", Reason: "it must be 1 or more"},
		`{"path":"/a","count":9}`:       {Path: "count", Rule: "maximum", Reason: "it must be 3 or less"},
		`{"path":"/a","count":1.5}`:     {Path: "count", Rule: "type", Reason: "it must be integer, and is number"},
		`{"path":"/a","mode":"secret"}`: {Path: "mode", Rule: "enum", Reason: `it must be one of "fast", "slow", null`},
		`{"path":"/a","list":[{"name":"n"},{"name":[1]}]}`:                       {Path: "list[1].name", Rule: "type", Reason: "it must be string, and is array"},
		`{"path":"/a","list":[{}]}`:                                              {Path: "list[0].name", Rule: "required", Reason: "it is missing"},
		`{"path":"/a","list":[{"name":""},{"name":""},{"name":""},{"name":""}]}`: {Path: "list", Rule: "maxItems", Reason: "the number of its items must be 3 or less"},
		`{"path":"/a","ratio":0}`:                                                {Path: "ratio", Rule: "exclusiveMinimum", Reason: "it must be more than 0"},
		`{"path":"/a","ratio":1}`:                                                {Path: "ratio", Rule: "exclusiveMaximum", Reason: "it must be less than 1"},
		`{"path":"/a","ratio":0.3}`:                                              {Path: "ratio", Rule: "multipleOf", Reason: "it must be a multiple of 0.25"},
		`{"path":"/a","ratio":true}`:                                             {Path: "ratio", Rule: "type", Reason: "it must be number or null, and is boolean"},
		`{"path":"/a","one":{}}`:                                                 {Path: "one", Rule: "anyOf", Reason: "it matches none of the 2 alternatives"},
		`{"path":"/a","fixed":"secret"}`:                                         {Path: "fixed", Rule: "const", Reason: `it must be "x"`},
		`{"path":"/a","all":"ab"}`:                                               {Path: "all", Rule: "minLength", Reason: "its length must be 3 or more"},
		`{"path":"/a","no":"secret"}`:                                            {Rule: "schema", Reason: "they do not match the tool's input schema"},
		`{"path":null}`:                                                          {Path: "path", Rule: "type", Reason: "it must be string, and is null"},
		`{"path":{"a":"secret"}}`:                                                {Path: "path", Rule: "type", Reason: "it must be string, and is object"},
	} {
		got := s.Check([]byte(args))
		if want.Rule == "" {
			require.Nil(t, got, args)
			continue
		}
		require.NotNil(t, got, args)
		require.Equal(t, want, *got, args)
		require.NotContains(t, fmt.Sprint(*got), "secret", "no values")
	}
	long := s.Check([]byte(`{"path":"/a","` + strings.Repeat("x", 5000) + `":1}`))
	require.Less(t, len(long.Path), 200)
	many := compiled(t, `{"properties":{"e":{"enum":["`+strings.Repeat("v", 150)+`","`+strings.Repeat("w", 150)+`","x"]}}}`)
	require.Contains(t, many.Check([]byte(`{"e":1}`)).Reason, " and 2 more")
}

// A schema that does not apply to a value is not what the value breaks.
func TestCheck_blames_the_right_argument(t *testing.T) {
	for _, c := range [][3]string{ // schema, arguments, path
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}}}`, `{"a":["x","y"]}`, "a[1]"},
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}}}`, `{"a":[1,"y"]}`, "a[0]"},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}},"required":["b"]}`, `{"a":["x"]}`, "b"},
		{`{"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":{"type":"integer"}}`, `{"x-a":"s","z":"s"}`, "z"},
		{`{"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":{"type":"integer"}}`, `{"x-a":1,"z":"s"}`, "x-a"},
		{`{"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false}`, `{"x-a":"s","z":"s"}`, "z"},
		{`{"properties":{"xa":{}},"patternProperties":{"^x":{"type":"string"}}}`, `{"xa":1}`, "xa"},
	} {
		broken := compiled(t, c[0]).Check([]byte(c[1]))
		require.NotNil(t, broken, c[0])
		require.Equal(t, c[2], broken.Path, "%s %s", c[0], c[1])
	}
}

// A schema that cannot be used is an error, and nothing is opened for it.
func TestCompile_refuses(t *testing.T) {
	opened := make(chan struct{}, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			opened <- struct{}{}
		}
	}()
	// A file that does match: if it were read, the schema would be accepted.
	file := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"string"}`), 0o600))
	remote := "http://" + listener.Addr().String() + "/schema.json"
	for _, refused := range []string{
		``, `null`, `true`, `[]`, `{"type":`,
		`{"properties":{"a":{"$ref":"` + remote + `"}}}`, `{"$ref":"` + remote + `#/$defs/a"}`, `{"$id":"` + remote + `","properties":{"a":{"$ref":"other.json"}}}`,
		`{"properties":{"a":{"$ref":"file://` + filepath.ToSlash(file) + `"}}}`, `{"allOf":[{"$ref":"` + filepath.ToSlash(file) + `"}]}`,
		`{"properties":{"a":{"$ref":"#anchor"}},"$defs":{"a":{"$anchor":"anchor"}}}`, `{"properties":{"a":{"$dynamicRef":"#a"}}}`,
		`{"properties":{"a":{"$id":"` + remote + `"}}}`, `{"properties":{"a":{"$ref":"#/$defs/missing"}}}`,
		strings.Repeat(`{"not":`, 300) + `{}` + strings.Repeat(`}`, 300),
		`{"description":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		_, err := Compile([]byte(refused))
		require.Error(t, err, "%.100s", refused)
	}
	require.NoError(t, listener.Close())
	<-done
	require.Empty(t, opened, "a server chose an address, and it was opened")
}

// The validator would overflow the stack, or compare for years. Arguments pass then: the
// server decides.
func TestCheck_is_bounded(t *testing.T) {
	wide := `{"$defs":{"d0":{"type":"string"}`
	for i := range 60 {
		wide += fmt.Sprintf(`,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	wide += `},"properties":{"a":{"$ref":"#/$defs/d60"}}}`
	deep := strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000)
	for _, c := range [][2]string{
		{`{"$ref":"#"}`, `{}`},
		{`{"$schema":{},"$id":[1]}`, `{}`},
		{`{"allOf":[{"$ref":"#"}]}`, `{}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}}}`, `{}`},
		{`{"if":{"$ref":"#"},"then":{}}`, `{}`},
		{`{"dependentSchemas":{"a":{"$ref":"#"}}}`, `{"a":1}`},
		{wide, `{"a":1}`},
		{`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, deep},
		{`{"properties":{"a":{"$ref":"#"}}}`, deep},
		{`{"items":{"type":"string"},"type":"array"}`, `[` + strings.Repeat("1,", maxSteps) + `1]`},
	} {
		require.Nil(t, compiled(t, c[0]).Check([]byte(c[1])), "%.100s", c[0])
	}
	require.Nil(t, compiled(t, `{}`).Check([]byte(`not JSON`)))
	recursive := compiled(t, `{"properties":{"a":{"$ref":"#"},"n":{"type":"string"}}}`)
	require.Equal(t, "a.a.n", recursive.Check([]byte(`{"a":{"a":{"n":1}}}`)).Path)
}
