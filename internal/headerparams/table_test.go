package headerparams

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// tool returns a tool as discovery decodes it.
func tool(name, schema string) mcpvisor.Tool {
	return mcpvisor.Tool{OriginalName: name, Definition: &mcp.Tool{Name: name, InputSchema: json.RawMessage(schema)}}
}

// headersOf returns the headers of a call of the tool "t".
func headersOf(t *testing.T, p *Table, arguments string) http.Header {
	t.Helper()
	h := make(http.Header)
	require.NoError(t, p.AddTo(h, "t", []byte(`{"name":"t","arguments":`+arguments+`}`)))
	return h
}

// A later list replaces the earlier one as a whole.
func TestTable_replaced(t *testing.T) {
	var p Table
	require.Empty(t, headersOf(t, &p, `{"a":"x"}`))
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{"a":{"type":"string","x-mcp-header":"a"}}}`), tool("u", `{}`)})
	require.Equal(t, http.Header{"Mcp-Param-A": {"x"}}, headersOf(t, &p, `{"a":"x"}`))
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{"a":{"type":"string","x-mcp-header":"no token"}}}`)})
	require.Empty(t, headersOf(t, &p, `{"a":"x"}`))
	require.Nil(t, p.tools.Load(), "a server without marks costs nothing")
}

func TestTable_values(t *testing.T) {
	var p Table
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{
		"a":{"type":"string","x-mcp-header":"A"},
		"o":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"},"p":{"properties":{"c":{"type":"boolean","x-mcp-header":"C"}}}}},
		"s":{"type":"string","x-mcp-header":"S","properties":{"in":{"type":"string","x-mcp-header":"In"}}}}}`)})
	for arguments, want := range map[string]http.Header{
		`{}`:                       {},
		`null`:                     {},
		`[1]`:                      {},
		`{"b":1,"c":true,"x":"y"}`: {},
		`{"a":"1", "o" : { "p":{"c":true} , "b":2, "q":[{"b":3}] } }`: {"Mcp-Param-A": {"1"}, "Mcp-Param-B": {"2"}, "Mcp-Param-C": {"true"}},
		`{"\u0061":"esc\u0061ped"}`:                                   {"Mcp-Param-A": {"escaped"}},
		`{"a":{"a":"x"},"o":"text"}`:                                  {},
		`{"a":null,"o":null}`:                                         {},
		`{"a":"1","a":"2"}`:                                           {"Mcp-Param-A": {"2"}},
		`{"o":{"b":1,"p":{"c":true}},"o":{"b":2}}`:                    {"Mcp-Param-B": {"2"}},
		`{"o":{"b":1},"o":7}`:                                         {},
		`{"s":"text"}`:                                                {"Mcp-Param-S": {"text"}},
		`{"s":{"in":"text"}}`:                                         {"Mcp-Param-In": {"text"}},
		`{"a":"1",`:                                                   {}, // not JSON
	} {
		require.Equal(t, want, headersOf(t, &p, arguments), arguments)
	}
}

// Arguments that no header can hold fail the call before it is sent.
func TestTable_longArguments(t *testing.T) {
	var p Table
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"B"}}}`)})
	call := func(a, b int) error {
		return p.AddTo(make(http.Header), "t", fmt.Appendf(nil, `{"arguments":{"a":"%s","b":"%s"}}`, strings.Repeat("x", a), strings.Repeat("y", b)))
	}
	const half = maxHeaderBytes/2 - 100
	require.NoError(t, call(half, half))
	require.ErrorContains(t, call(half, half+200), "Mcp-Param-B")
	require.ErrorContains(t, call(8*maxHeaderBytes, 0), "Mcp-Param-A")
	require.NoError(t, p.AddTo(make(http.Header), "t", []byte(`{"arguments":{"a":[`+strings.Repeat("1,", 8*maxHeaderBytes)+`1]}}`)), "a list is in no header")
}

// What the table keeps is a small multiple of the schemas: marked arguments share the path
// to them. [Check] estimates it.
func TestTable_memory(t *testing.T) {
	// 60 marks below a path of 100 objects, and as many objects with a mark each.
	const depth, marks, tools = 100, 60, 100
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, `{"properties":{"level%d":`, i)
	}
	b.WriteString(`{"properties":{"end":0`)
	for i := range marks {
		fmt.Fprintf(&b, `,"a%d":{"type":"string","x-mcp-header":"A%d"}`, i, i)
	}
	schema := strings.Replace(b.String(), `"end":0,`, "", 1) + "}}" + strings.Repeat("}}", depth)
	list := make([]mcpvisor.Tool, tools)
	estimated := 0
	for i := range list {
		list[i] = tool(fmt.Sprint("t", i), schema)
		kept, err := Check([]byte(schema))
		require.NoError(t, err)
		estimated += kept
	}
	var p Table
	before := heap()
	p.Replace(list)
	kept := heap() - before
	require.Less(t, kept, 4*tools*len(schema), "the schemas have %d bytes", tools*len(schema))
	require.Less(t, kept, estimated*3/2)
	runtime.KeepAlive(&p)
	runtime.KeepAlive(list)
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The arguments are copied nowhere, however many of them are marked.
func TestTable_argumentsNotCopied(t *testing.T) {
	var p Table
	var b strings.Builder
	for i := range maxMarks {
		fmt.Fprintf(&b, `,"a%d":{"type":"string","x-mcp-header":"A%d"}`, i, i)
	}
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{`+b.String()[1:]+`}}`)})
	params := []byte(`{"arguments":{` + strings.Repeat(`"other":[1,2,3],`, 50_000) + `"a1":"x"}}`)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			_ = p.AddTo(make(http.Header), "t", params)
		}
	})
	require.Less(t, result.AllocedBytesPerOp(), int64(16<<10))
}

// A call of a tool without marks costs nothing.
func TestTable_unmarkedToolAllocatesNothing(t *testing.T) {
	var p Table
	h, params := make(http.Header), []byte(`{"arguments":{"a":"x"}}`)
	add := func() { _ = p.AddTo(h, "u", params) }
	require.Zero(t, testing.AllocsPerRun(100, add))
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{"a":{"type":"string","x-mcp-header":"a"}}}`)})
	require.Zero(t, testing.AllocsPerRun(100, add))
}

func TestCheck(t *testing.T) {
	for schema, wrong := range map[string]string{
		`{}`:                                     "",
		`{"properties":{"a":{"type":"string"}}}`: "",
		`{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"integer","x-mcp-header":"N"},"c":{"type":"boolean","x-mcp-header":"F"}}}`: "",
		`{"properties":{"o":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}}`:                                                     "",
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                                                                           `of "a" is not a valid header name`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"two words"}}}`:                                                                                  `of "a" is not a valid header name`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`:                                                                                            `of "a" is not a valid header name`,
		`{"properties":{"a":{"type":"number","x-mcp-header":"N"}}}`:                                                                                          `of "a" marks a value`,
		`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"N"}}}`:                                                                                 `of "a" marks a value`,
		`{"properties":{"a":{"type":"object","x-mcp-header":"N"}}}`:                                                                                          `of "a" marks a value`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"N"},"o":{"properties":{"b":{"type":"string","x-mcp-header":"n"}}}}}`:                            `"n" marks two values`,
		`{"properties":["x-mcp-header"]}`:                                                                                                                    "cannot be read",
		`{"properties":{"x-mcp-header":[]}}`:                                                                                                                 "cannot be read",
		`{"properties":[{"x-mcp-header":"N"}]}`:                                                                                                              "cannot be read",
	} {
		_, err := Check(json.RawMessage(schema))
		if wrong == "" {
			require.NoError(t, err, schema)
			continue
		}
		require.ErrorContains(t, err, wrong, schema)
	}
}

// Marks beyond what fits into headers make a tool that cannot be called.
func TestCheck_tooMuchForHeaders(t *testing.T) {
	marks := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"a%d":{"type":"string","x-mcp-header":"A%d"}`, i, i)
		}
		return `{"properties":{` + b.String()[1:] + `}}`
	}
	kept, err := Check([]byte(marks(maxMarks)))
	require.NoError(t, err)
	require.Positive(t, kept)
	_, err = Check([]byte(marks(maxMarks + 1)))
	require.ErrorContains(t, err, "marks more than 64 arguments")
	_, err = Check([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"` + strings.Repeat("N", maxHeaderName+1) + `"}}}`))
	require.ErrorContains(t, err, "longer than 128 bytes")
	_, err = Check([]byte(`{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}` + strings.Repeat(`,"y":{}`, 10_000) + `}}`))
	require.ErrorContains(t, err, "more than 10000 values")
	kept, err = Check([]byte(`{"properties":{"a":{}}}`))
	require.NoError(t, err)
	require.Zero(t, kept)
}

func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"list_directory":   "list_directory",
		"file:///a b":      "file:///a b",
		" outer":           "=?base64?IG91dGVy?=",
		"line\nbreak":      "=?base64?bGluZQpicmVhaw==?=",
		"grüß":             "=?base64?Z3LDvMOf?=",
		"=?base64?YQ==?=":  "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
		"=?base64?no end ": "=?base64?PT9iYXNlNjQ/bm8gZW5kIA==?=",
	} {
		require.Equal(t, want, Value(text))
	}
}

func TestParamValue(t *testing.T) {
	for raw, want := range map[string]string{`"a"`: "a", `true`: "true", `42`: "42", `-7`: "-7", `1e3`: "1000", `9007199254740991`: "9007199254740991"} {
		got, ok := paramValue([]byte(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, got)
	}
	for _, raw := range []string{``, `null`, `1.5`, `9007199254740993`, `{}`, `[1]`} {
		_, ok := paramValue([]byte(raw))
		require.False(t, ok, raw)
	}
}

// A request is refused unless each header repeats its argument.
func TestTable_Mismatch(t *testing.T) {
	var p Table
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"n":{"type":"integer","x-mcp-header":"N"}}}`)})
	for what, try := range map[string]struct {
		arguments string
		headers   []string
		want      string
	}{
		"both":                 {`{"a":"x","n":42}`, []string{"Mcp-Param-A", "x", "Mcp-Param-N", "42"}, ""},
		"encoded":              {`{"a":"zürich"}`, []string{"Mcp-Param-A", Value("zürich")}, ""},
		"encoded needlessly":   {`{"a":"Hello"}`, []string{"Mcp-Param-A", "=?base64?SGVsbG8=?="}, ""},
		"number in other form": {`{"n":42}`, []string{"Mcp-Param-N", "42.0"}, ""},
		"none":                 {`{}`, nil, ""},
		"null":                 {`{"a":null}`, nil, ""},
		"list":                 {`{"a":[1]}`, nil, ""},
		"missing":              {`{"a":"x"}`, nil, "Mcp-Param-A"},
		"other":                {`{"a":"x"}`, []string{"Mcp-Param-A", "y"}, "Mcp-Param-A"},
		"too much":             {`{}`, []string{"Mcp-Param-A", "y"}, "Mcp-Param-A"},
		"of null":              {`{"a":null}`, []string{"Mcp-Param-A", "null"}, "Mcp-Param-A"},
		"of a list":            {`{"a":[1]}`, []string{"Mcp-Param-A", "1"}, "Mcp-Param-A"},
		"other number":         {`{"n":42}`, []string{"Mcp-Param-N", "43"}, "Mcp-Param-N"},
		"bad padding":          {`{"a":"Hello"}`, []string{"Mcp-Param-A", "=?base64?SGVsbG8?="}, "Mcp-Param-A"},
		"bad characters":       {`{"a":"Hello"}`, []string{"Mcp-Param-A", "=?base64?SGVs!!!bG8=?="}, "Mcp-Param-A"},
	} {
		h := make(http.Header)
		for i := 0; i+1 < len(try.headers); i += 2 {
			h.Set(try.headers[i], try.headers[i+1])
		}
		params := []byte(`{"name":"t","arguments":` + try.arguments + `}`)
		require.Equal(t, try.want, p.Mismatch(h, "t", params), what)
		if what == "too much" || what == "missing" {
			try.want = "" // no header is there, or no argument of its name
		}
		require.Equal(t, try.want, p.Mismatch(h, "other", params), "a tool without marks: %s", what)
	}
	// A mark says which argument a header repeats, and not the name.
	p.Replace([]mcpvisor.Tool{tool("t", `{"properties":{"a":{"type":"string","x-mcp-header":"b"},"b":{"type":"string"}}}`)})
	h := http.Header{"Mcp-Param-B": {"x"}}
	require.Empty(t, p.Mismatch(h, "t", []byte(`{"arguments":{"a":"x","b":"y"}}`)))
	h.Set("Mcp-Param-A", "y")
	require.Equal(t, "Mcp-Param-A", p.Mismatch(h, "t", []byte(`{"arguments":{"a":"x","b":"y"}}`)))
}
