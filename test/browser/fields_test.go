package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// set types into a field of the form.
func (p *page) set(name, value string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(document.querySelector(%q).value = %q, true)`, `form [data-name="`+name+`"]`, value))
}

func (p *page) value(name string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.querySelector(%q).value`, `form [data-name="`+name+`"]`))
}

const orderSchema = `{"type":"object","required":["customer","lines","pay"],"$defs":{
	"Address":{"type":"object","required":["city"],"properties":{"city":{"type":"string","default":"Graz"},"geo":{"type":"object","properties":{"lat":{"type":"number"}}}}},
	"Node":{"type":"object","properties":{"name":{"type":"string"},"next":{"$ref":"#/$defs/Node"}}}},
	"properties":{
		"customer":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"vip":{"anyOf":[{"type":"boolean"},{"type":"null"}],"default":null},"address":{"$ref":"#/$defs/Address"}}},
		"lines":{"type":"array","minItems":1,"items":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},"n":{"type":"integer","default":1}}}},
		"tags":{"type":"array","items":{"type":"string"},"maxItems":2,"default":["new"]},
		"chain":{"$ref":"#/$defs/Node"},
		"pay":{"oneOf":[{"type":"object","required":["kind","iban","n","big"],"properties":{"big":{"type":"integer","default":9007199254740993},"kind":{"const":"iban"},"iban":{"type":"string"},"n":{"type":"integer","minimum":2}}},{"type":"object"}]},
		"labels":{"type":"object","additionalProperties":{"type":"string"}},
		"extra":{"type":"object","required":["a"],"additionalProperties":{"type":"string"}}}}`

// Members of objects and items of lists have fields of their own. What cannot have them is JSON text, which begins with
// what the schema requires. An optional object is left out while nothing is typed in it.
func TestToolForm_of_nested_objects(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile("["+toolJSON("order", orderSchema)+"]", nil))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("order")
	require.JSONEq(t, `{"kind":"iban","iban":"","n":2,"big":0}`, p.value("pay"))
	require.Empty(t, p.value("extra"), "an optional argument is not filled in")
	require.Contains(t, eval[string](p, `document.querySelector("form").innerText`), "customer.address.city string, required with others here\n\nDefault: Graz")
	p.click(`form [aria-label="Fill in extra with what the schema requires"]`)
	require.JSONEq(t, `{"a":null}`, p.value("extra"))
	p.set("extra", "")
	require.Equal(t, "new", p.value("tags[0]"))
	p.click(`form [aria-label="Add to lines"]`)
	p.set("customer.name", "Ann")
	p.set("chain.name", "x")
	p.set("chain.next", `{"name":"y"}`)
	p.set("lines[0].sku", "A")
	p.set("lines[1].sku", "B")
	p.set("lines[1].n", "")
	p.click(`form [aria-label="Remove lines[0]"]`)
	require.Equal(t, "Remove lines[0]", eval[string](p, `document.activeElement.getAttribute("aria-label")`))
	p.click(`form [aria-label="Add to lines"]`)
	require.Equal(t, "lines[1].sku", eval[string](p, `document.activeElement.dataset.name`))
	result := p.typed(map[string]string{"lines[1].sku": "C", "lines[1].n": "9007199254740993"})
	require.Equal(t, `{"customer":{"name":"Ann"},"lines":[{"sku":"B"},{"sku":"C","n":9007199254740993}],"pay":{ "kind": "iban", "iban": "", "n": 2, "big": 0 },"tags":["new"],"chain":{"name":"x","next":{"name":"y"}}}`,
		strings.Join(strings.Fields(result), " "))
	for _, look := range []look{{"light", "", 390}, {"dark", "", 1280}} {
		p.media(look.scheme, look.width)
		p.wait(`innerWidth === ` + fmt.Sprint(look.width) + ` && document.documentElement.scrollWidth <= innerWidth`)
		require.True(t, eval[bool](p, `[...document.querySelectorAll("form *")].every((e) => e.getBoundingClientRect().right <= innerWidth)`))
		checkAccess(p, fmt.Sprintf("nested fields, %d px", look.width))
	}
	for _, row := range []struct{ field, text, wrong, focus string }{
		{"customer.address.geo.lat", "1", "customer.address.city is required", "customer.address.city"},
		{"customer.address.geo.lat", "x", "customer.address.geo.lat: not a number", "customer.address.city"},
		{"lines[1].n", "1.5", "lines[1].n: not a whole number", "lines[1].n"},
	} {
		p.set(row.field, row.text)
		eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
		p.has("form", row.wrong)
		require.Equal(t, row.focus, eval[string](p, `document.activeElement.dataset.name`))
		p.set("customer.address.geo.lat", "")
	}
	p.set("lines[1].n", "")
	for range 2 {
		p.click(`form [aria-label="Add to tags"]`)
	}
	eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
	p.has("form", "tags: at most 2 items")
	p.has("form", "tags[2] is required")
	p.wait(`![...document.querySelectorAll("form .wrong")].some((e) => /address|geo/.test(e.innerText))`)
	for range 190 {
		eval[bool](p, `(document.querySelector('form [aria-label="Add to tags"]').click(), true)`)
	}
	p.has("form", "A form has at most 200 fields")
	require.LessOrEqual(t, eval[int](p, `document.querySelectorAll("form .field").length`), 200)
}

// The arguments of the last call of a tool are offered again, without secrets.
func TestToolForm_offers_the_last_arguments(t *testing.T) {
	c := newClient(t)
	schema := properties(`{"user":{"type":"string"},"mode":{"enum":["a","b"]},"tags":{"type":"array","items":{"type":"string"}},"password":{"type":"string","format":"password"},
		"keys":{"type":"array","items":{"type":"string","format":"password"}},"token":{"type":"object","writeOnly":true,"properties":{"value":{"type":"string"}}},"options":{"type":"array","items":{"oneOf":[{"type":"object","properties":{"key":{"type":"string","writeOnly":true}}},{"type":"string"}]}}}`)
	register(t, c, hostile("["+toolJSON("login", schema)+","+toolJSON("other", properties(`{"a":{"type":"string"}}`))+"]", nil))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("login")
	require.False(t, eval[bool](p, `document.querySelector("form").innerText.includes("last arguments")`))
	for _, name := range []string{"password", "token.value"} {
		require.Equal(t, "password", eval[string](p, fmt.Sprintf(`document.querySelector('form [data-name="%s"]').type`, name)))
	}
	for range 2 {
		p.click(`form [aria-label="Add to tags"]`)
	}
	for range 2 {
		p.click(`form [aria-label="Add to keys"]`)
	}
	p.set("keys[1]", "k1")
	p.click(`form [aria-label="Remove keys[0]"]`)
	require.Equal(t, "k1", p.value("keys[0]"), "it has only changed its place")
	all := map[string]string{"user": "ann", "mode": "1", "tags[0]": "x", "tags[1]": "y", "password": "p4", "token.value": "t4", "options": `[{"key":"k4"}]`}
	require.JSONEq(t, `{"user":"ann","mode":"b","tags":["x","y"],"password":"p4","keys":["k1"],"token":{"value":"t4"},"options":[{"key":"k4"}]}`, p.typed(all))
	eval[bool](p, `Boolean(location.hash = "#/s/evil/other")`)
	p.wait(`document.querySelector("form [data-name=a]")`)
	eval[bool](p, `Boolean(location.hash = "#/s/evil/login")`)
	p.wait(`document.querySelector("form [data-name=user]")`)
	require.Empty(t, p.value("user"))
	eval[bool](p, `([...document.querySelectorAll("form button")].find((b) => b.innerText === "Use the last arguments").click(), true)`)
	require.Equal(t, "", p.value("password")+p.value("keys[0]")+p.value("token.value")+p.value("options"))
	p.click(`form [aria-label="Remove keys[0]"]`)
	require.JSONEq(t, `{"user":"ann","mode":"b","tags":["x","y"]}`, p.typed(nil))
	require.Zero(t, eval[int](p, `localStorage.length + sessionStorage.length`))
}

// copyAs presses a button that copies, and returns the line that it shows.
func (p *page) copyAs(word string) string {
	p.t.Helper()
	eval[bool](p, `(window.copied = null, navigator.clipboard.writeText = async (text) => { window.copied = text; }, document.querySelector("form .copied").replaceChildren(), true)`)
	eval[bool](p, fmt.Sprintf(`([...document.querySelectorAll("form button")].find((b) => b.innerText === %q).click(), true)`, "Copy as "+word))
	p.has("form .copied", "Copied.")
	line := eval[string](p, `document.querySelector("form .copied pre").textContent`)
	require.Equal(p.t, line, eval[string](p, `copied`))
	return line
}

// shell runs a line, and returns what it prints.
func shell(t *testing.T, line string, env ...string) string {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-c", line)
	sh.Env, sh.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := sh.Output()
	require.NoError(t, err, line)
	return string(out)
}

// A copied line makes the same call in a shell, whatever was typed and whatever the server calls its tool.
func TestToolForm_copies_lines_for_a_shell(t *testing.T) {
	const text = "it's $HOME `id` \"$(id)\" \\ !x\n'two' \u202e \u00a0 \x1b[201~"
	c := newClient(t)
	spec := hostile("["+toolJSON("it's $(id)", properties(`{"text":{"type":"string"},"n":{"type":"integer"},"j":{"type":"object"},"key":{"type":"string","writeOnly":true}}`))+`,{"name":"esc\u001b[201~","inputSchema":{"type":"object"}}]`, nil)
	spec.Origin = ".mcp.json:3"
	register(t, c, spec)
	s := serve(t, c, nil, web.WithControls(), web.WithToken("secret-secret"))
	p := newTab(t, s.URL)
	p.do(chromedp.Navigate(p.origin + prefix + "/?token=secret-secret"))
	p.has("#server-rows", "evil")
	p.openTool("it's%20$(id)")
	p.set("text", text)
	p.set("n", "9007199254740993")
	p.set("j", "{\n\t\"a\": 1}")
	written, err := json.Marshal(text)
	require.NoError(t, err)
	want := `{"text":` + string(written) + `,"n":9007199254740993,"j":{"a": 1}}`
	equal := func(got string) {
		t.Helper()
		require.JSONEq(t, want, got)
		require.Contains(t, got, "9007199254740993")
	}

	line := p.copyAs("command")
	require.NotRegexp(t, `[\x00-\x1f\x{a0}\x{202e}]`, line, "a terminal would act on it, or a reader would not see it")
	words := strings.Split(shell(t, `mcpvisor() { printf '%s\0' "$@"; }`+"\n"+line), "\x00")
	require.Len(t, words, 4)
	require.Equal(t, []string{"call", "evil/it's $(id)"}, words[:2])
	equal(words[2])

	if _, err := exec.LookPath("curl"); err == nil {
		line = p.copyAs("curl")
		require.NotContains(t, line, "secret-secret")
		p.has("form .copied", "TOKEN is the token of this page")
		var answer struct {
			Result struct{ Content []struct{ Text string } }
		}
		require.NoError(t, json.Unmarshal([]byte(shell(t, line, "TOKEN=secret-secret")), &answer))
		equal(answer.Result.Content[0].Text)
	}
	p.set("key", "k4")
	p.copyAs("command")
	p.has("form .copied", "It holds a secret.")
	p.set("text", strings.Repeat("ä", 60_000))
	eval[bool](p, `([...document.querySelectorAll("form button")].find((b) => b.innerText === "Copy as command").click(), true)`)
	p.has("form .copied", "too long for a command line")
	p.set("text", "")
	p.set("n", "x")
	eval[bool](p, `([...document.querySelectorAll("form button")].find((b) => b.innerText === "Copy as command").click(), true)`)
	p.has("form", "n: not a number")

	p.openTool("esc%1B[201~")
	require.NotContains(t, eval[string](p, `document.querySelector("form").innerText`), "Copy as command", "no word of a shell shows it")
	require.NotContains(t, p.copyAs("curl"), "\x1b")
}

// Plain arguments are copied as words, and those that words cannot say as JSON.
func TestToolForm_copies_words(t *testing.T) {
	c := newClient(t)
	spec := hostile("["+toolJSON("order", properties(`{"customer":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}},
		"lines":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},"more":{}}}},"mode":{"enum":["a","b"]},"level":{"enum":[1,2]},"a:b":{"type":"string"}}`))+"]", nil)
	spec.Origin = ".mcp.json:3"
	register(t, c, spec)
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("order")
	require.Equal(t, `mcpvisor call evil/order '{}'`, p.copyAs("command"))
	p.click(`form [aria-label="Add to lines"]`)
	for name, value := range map[string]string{"customer.name": "Ada  Lovelace", "customer.age": "9007199254740993", "lines[0].sku": "7", "lines[0].more": "[1,\n2]", "mode": "1", "level": "0"} {
		p.set(name, value)
	}
	require.Equal(t, `mcpvisor call evil/order 'customer.name=Ada  Lovelace' customer.age:=9007199254740993 'lines[0].sku=7' 'lines[0].more:=[1, 2]' mode=b level:=1`, p.copyAs("command"))
	for _, row := range [][2]string{{"customer.name", "@file"}, {"customer.name", `""`}, {"customer.name", `a\\b`}, {"lines[0].more", "{}"}, {"a:b", "x"}} {
		before := p.value(row[0])
		p.set(row[0], row[1])
		require.Contains(t, p.copyAs("command"), `mcpvisor call evil/order '{"customer":{`, row)
		p.set(row[0], before)
	}
}

// A name that the command line reads as a flag, or as a part of another parameter, is copied within JSON.
func TestToolForm_copies_no_other_arguments(t *testing.T) {
	c := newClient(t)
	spec := hostile("["+toolJSON("flag", properties(`{"--config":{"type":"string","default":"evil.json"}}`))+","+
		toolJSON("dot", properties(`{"a":{"type":"object","properties":{"b":{"type":"string"}}},"a.b":{"type":"string"}}`))+"]", nil)
	spec.Origin = ".mcp.json:3"
	register(t, c, spec)
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("flag")
	p.set("--config", "evil.json")
	require.Equal(t, `mcpvisor call evil/flag '{"--config":"evil.json"}'`, p.copyAs("command"))
	p.openTool("dot")
	p.set("a.b", "x") // the first field of that name: that of a
	require.Equal(t, `mcpvisor call evil/dot '{"a":{"b":"x"}}'`, p.copyAs("command"))
}

// Tools carry what their server claims about them.
func TestTools_show_claims(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile(`[{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true,"idempotentHint":true,"openWorldHint":true}},
		{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":true,"openWorldHint":false}},{"name":"plain","inputSchema":{"type":"object"}}]`, nil))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("wipe")
	for where, want := range map[string]string{"#detail .card": "destructive idempotent open world", "#detail tr[data-key='evil/wipe']": "destructive idempotent open world", "#detail tr[data-key='evil/look']": "read-only", "#detail tr[data-key='evil/plain']": ""} {
		require.Equal(t, want, eval[string](p, fmt.Sprintf(`[...document.querySelector(%q).querySelectorAll(".tag")].map((e) => e.innerText).join(" ")`, where)), where)
	}
	require.Equal(t, "The server claims that this tool may delete or overwrite something. mcpvisor does not check it.", eval[string](p, `document.querySelector("#detail .card .tag").title`))
	p.has("#detail .card", "as the server claims")
	eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
	p.has("form .result", "This may change or delete something. Call it?")
	eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
	p.has("form .result", "ok in")
	p.openTool("look")
	eval[bool](p, `(document.querySelector("#detail form").requestSubmit(), true)`)
	p.has("form .result", "ok in")
}

// A call that runs can be canceled after a look at another tool.
func TestToolForm_keeps_a_call_that_runs(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "hang"}, {Name: "echo"}}}))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/fs/hang")
	p.wait(`document.querySelector("form .primary")`)
	p.submitted()
	p.has("#detail [data-key=flight]", "hang")
	eval[bool](p, `Boolean(location.hash = "#/s/fs/echo")`)
	p.has("form .primary", "Call echo")
	eval[bool](p, `Boolean(location.hash = "#/s/fs/hang")`)
	p.has("form .primary", "Call hang")
	eval[bool](p, `([...document.querySelectorAll("form button")].find((b) => b.innerText === "Cancel").click(), true)`)
	p.has("form .result", "you canceled the call")
	p.has("#detail [data-key=calls]", "canceled")
}
