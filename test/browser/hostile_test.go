package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// hostile is a server that sends its tools and results as they are written here. A tool
// without a result answers with its arguments, as a text.
func hostile(tools string, results map[string]string) mcpvisor.ServerSpec {
	tools = strings.NewReplacer("\n", "", "\t", "").Replace(tools) // a message is one line
	serve := func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		stop := context.AfterFunc(ctx, func() { _ = in.Close() })
		defer stop()
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil
			}
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct {
					Name, ProtocolVersion string
					Arguments             json.RawMessage
				}
			}
			if json.Unmarshal([]byte(line), &m) != nil || m.ID == nil {
				continue
			}
			answer := `"error":{"code":-32601,"message":"no such method"}`
			switch m.Method {
			case "initialize":
				answer = `"result":{"protocolVersion":"` + m.Params.ProtocolVersion + `","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`
			case "ping":
				answer = `"result":{}`
			case "tools/list":
				answer = `"result":{"tools":` + tools + `}`
			case "tools/call":
				text, _ := json.Marshal(string(m.Params.Arguments))
				answer = `"result":{"content":[{"type":"text","text":` + string(text) + `}]}`
				if result, ok := results[m.Params.Name]; ok {
					answer = `"result":` + result
				}
			}
			if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer); err != nil {
				return err
			}
		}
	}
	return mcpvisor.ServerSpec{Name: "evil", InMemory: &mcpvisor.InMemory{Serve: serve}}
}

func toolJSON(name, schema string) string {
	return `{"name":"` + name + `","inputSchema":` + schema + `}`
}

func properties(of string) string { return `{"type":"object","properties":` + of + `}` }

// openTool opens the page of a tool of the hostile server.
func (p *page) openTool(name string) {
	p.t.Helper()
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.origin+prefix+"/#/s/evil/"+name))
	p.wait(`document.querySelector("#detail form")`)
}

// submitted sends the form, and answers the question about a tool that may change something.
func (p *page) submitted() {
	p.t.Helper()
	eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
	p.has("form .primary", "Yes, call")
	eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
}

// typed sets the fields of the form, sends it, and returns the text of the result.
func (p *page) typed(values map[string]string) string {
	p.t.Helper()
	for name, value := range values {
		eval[bool](p, fmt.Sprintf(`(document.querySelector(%q).value = %q, true)`, `form [data-name="`+name+`"]`, value))
	}
	p.submitted()
	p.wait(`/ in |·/.test(document.querySelector(".result").innerText)`)
	return eval[string](p, `document.querySelector(".result pre").innerText`)
}

// Arguments come to the tool as they were typed: a number of JavaScript would change them.
func TestToolForm_sends_what_was_typed(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile("["+toolJSON("n", properties(`{"id":{"type":"integer","minimum":0},"amount":{"type":"number"},"j":{"type":"object"},"s":{"type":"string"},"__proto__":{"type":"object"}}`))+","+
		toolJSON("whole", `{"type":"object","additionalProperties":true}`)+"]", nil))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("n")
	require.Equal(t, `{"id":9007199254740993,"amount":0.10,"j":{"id":9007199254740993},"s":" x ","__proto__":{"x":1}}`, strings.ReplaceAll(
		p.typed(map[string]string{"id": " 9007199254740993 ", "amount": "0.10", "j": `{"id":9007199254740993}`, "s": " x ", "__proto__": `{"x":1}`}), " 9", "9"))
	require.Equal(t, `{"id":1,"j":{ "a":1}}`, func() string {
		p.openTool("n")
		return strings.ReplaceAll(p.typed(map[string]string{"id": "1", "j": "{\n\"a\":1}"}), "\n", " ")
	}(), "lines in JSON are no lines of the protocol")
	for _, row := range []struct{ field, text, wrong string }{
		{"amount", "  ", "amount: not a number"}, {"amount", "0x10", "amount: not a number"}, {"amount", "1e", "amount: not a number"},
		{"id", "1.5", "id: not a whole number"}, {"id", "-9007199254740993", "id: at least 0"}, {"id", "0b1", "id: not a number"}, {"j", "[1]", "j: not a JSON object"},
	} {
		p.openTool("n")
		eval[bool](p, fmt.Sprintf(`(document.querySelector("form [data-name=%s]").value = %q, document.querySelector("#detail form").requestSubmit(), true)`, row.field, row.text))
		p.has("form", row.wrong)
	}
	p.openTool("whole")
	require.Equal(t, `{"id":9007199254740993}`, p.typed(map[string]string{"value": `{"id":9007199254740993}`}))
}

// A result that cannot be shown is that of a call that was executed: it is not a failure.
func TestResult_that_cannot_be_shown(t *testing.T) {
	deep := strings.Repeat(`[`, 9000) + "1" + strings.Repeat("]", 9000)
	results := map[string]string{
		"null":     `{"content":[null]}`,
		"object":   `{"content":{}}`,
		"text":     `{"content":[{"type":"text","text":{"toString":1}}]}`,
		"resource": `{"content":[{"type":"resource","resource":{"text":5}}]}`,
		"deep":     `{"content":[],"structuredContent":{"a":` + deep + `}}`,
		"many":     `{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a"},`, 200_000), ",") + `]}`,
		"long":     `{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"`+strings.Repeat("a", 150_000)+`"},`, 100), ",") + `]}`,
	}
	var tools []string
	for name := range results {
		tools = append(tools, toolJSON(name, `{"type":"object"}`))
	}
	c := newClient(t)
	register(t, c, hostile("["+strings.Join(tools, ",")+"]", results))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	for name := range results {
		p.openTool(name)
		p.typed(nil)
		require.Equal(t, "ok", eval[string](p, `document.querySelector(".result .state").lastChild.data`), name)
		require.Less(t, eval[int](p, `document.querySelectorAll(".result *").length`), 150, name)
		require.Less(t, eval[int](p, `document.querySelector(".result").textContent.length`), 320_000, name)
		switch name {
		case "deep":
			p.has(".result", "The result cannot be shown: ")
			p.has(".result pre", "[[[[")
		case "many":
			p.has(".result", " parts more")
		}
	}
}

// A schema that is wrong, or whose names are those of members of an element, gets a form
// that works, and the result stays when the page is brought up to date.
func TestToolForm_of_hostile_schemas(t *testing.T) {
	many := make([]string, 3000)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d":{"type":"string"}`, i)
	}
	cases := map[string]string{
		"append":     properties(`{"path":{"type":"string"},"append":{"type":"boolean"}}`),
		"nodename":   properties(`{"nodeName":{"type":"string"}}`),
		"attributes": properties(`{"dataset":{"type":"string"},"attributes":{"type":"string"},"children":{"type":"string"},"onsubmit":{"type":"string"}}`),
		"required5":  `{"type":"object","required":5,"properties":{"a":{"type":"string"}}}`,
		"type":       properties(`{"a":{"type":{"toString":1}}}`),
		"text":       properties(`{"a":{"type":"string","description":{"toString":1,"valueOf":1},"format":{"toString":1},"default":{"toString":1}}}`),
		"bounds":     properties(`{"a":{"type":"string","minimum":{"toString":1},"minLength":{"toString":1},"maxLength":{"toString":1}},"n":{"type":"number","maximum":{"toString":1}}}`),
		"proto":      properties(`{"__proto__":{"type":"object"},"b":{"type":"constructor"},"constructor":{"type":"string"}}`),
		"list":       `{"type":"object","properties":["x"]}`,
		"many":       properties("{" + strings.Join(many, ",") + "}"),
		"inner":      properties(`{"o":` + properties("{"+strings.Join(many, ",")+"}") + `,"l":{"type":"array","minItems":900,"items":` + properties("{"+strings.Join(many[:150], ",")+"}") + `}}`),
		"circle":     `{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#/properties/b"},"c":{"$ref":"#/properties/__proto__"},"d":{"$ref":"#/$defs/x"},"e":{"type":"array","items":{"$ref":"#"}}},"$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"}]}}}`,
		"tree":       `{"type":"object","$defs":{"t":` + properties(`{"a":{"$ref":"#/$defs/u"},"b":{"$ref":"#/$defs/u"},"c":{"$ref":"#/$defs/u"},"d":{"$ref":"#/$defs/u"}}`) + `,"u":` + properties(`{"a":{"$ref":"#/$defs/v"},"b":{"$ref":"#/$defs/v"},"c":{"$ref":"#/$defs/v"},"d":{"$ref":"#/$defs/v"}}`) + `,"v":` + properties(`{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"},"e":{"type":"string"}}`) + `},"properties":{"a":{"$ref":"#/$defs/t"},"b":{"$ref":"#/$defs/t"},"c":{"$ref":"#/$defs/t"}}}`,
		"choices":    properties(`{"a":{"enum":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 5000), ",") + `]},"b":{"type":"array","items":{"enum":"x"}},"c":{"const":{"toString":1}}}`),
		"pattern":    properties(`{"a":{"type":"string","pattern":"^(a+)+$","default":"` + strings.Repeat("a", 60) + `"}}`),
		"deep":       properties(`{"a":{"default":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `},"b":` + strings.Repeat(`{"type":"array","items":`, 400) + "{}" + strings.Repeat("}", 400) + `}`),
		"deepest":    properties(`{"b":` + strings.Repeat(`{"type":"array","items":`, 9000) + "{}" + strings.Repeat("}", 9000) + `}`),
	}
	var tools []string
	for name, schema := range cases {
		tools = append(tools, toolJSON(name, schema))
	}
	c := newClient(t)
	register(t, c, hostile("["+strings.Join(tools, ",")+"]", nil))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	for name := range cases {
		t.Log(name)
		p.openTool(name)
		require.LessOrEqual(t, eval[int](p, `document.querySelectorAll("#detail form .field").length`), 200)
		require.LessOrEqual(t, eval[int](p, `document.querySelectorAll("#detail form option").length`), 1000)
		eval[bool](p, `Boolean(window.kept = document.querySelector("#detail form"))`)
		p.typed(nil)
		p.wait(`document.querySelector("#detail tr.chosen td:nth-child(3)")?.innerText === "1"`) // the statistics are there: the page was brought up to date
		require.True(t, eval[bool](p, `kept.isConnected && document.querySelector(".result").innerText.includes("ok")`))
	}
}
