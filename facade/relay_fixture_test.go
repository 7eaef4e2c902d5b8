package facade_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
)

// onEveryRawServer runs f with a server whose results are the texts that answer returns, as
// rawServer, over each transport and in each era. It gives answers byte for byte.
func onEveryRawServer(t *testing.T, answer func(method, line string) string, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	modern := func(method, line string) string {
		text := answer(method, line)
		if text == "" && method == "server/discover" {
			return rawDiscover
		}
		return text
	}
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"memory legacy": {Era: mcpvisor.EraLegacy, InMemory: rawServer(answer)},
		"memory modern": {Era: mcpvisor.EraModern, InMemory: rawServer(modern)},
		"custom legacy": {Era: mcpvisor.EraLegacy, Transport: overTransport(rawServer(answer))},
		"custom modern": {Era: mcpvisor.EraModern, Transport: overTransport(rawServer(modern))},
		"HTTP legacy":   {Era: mcpvisor.EraLegacy, HTTP: overHTTP(t, rawOf(answer))},
		"HTTP modern":   {Era: mcpvisor.EraModern, HTTP: overHTTP(t, rawOf(modern))},
	} {
		spec.Name = "s"
		t.Run(name, func(t *testing.T) { f(t, spec) })
	}
}

// textsOfJSON are values of which a client that decodes and encodes them makes other bytes.
var textsOfJSON = rapid.SampledFrom([]string{"1.0", "9223372036854775808", "-0", "1e400", "0.10", "1E+2", `"<&>"`, `"\u0041\/"`, `"é"`, `"\ud83d\ude00"`,

	"null", "true", `{"b":1,"a":2}`, `{"a":1,"a":2}`, `[ 1 ,2.50 ]`, `{}`, `""`, `{"io.modelcontextprotocol/ui":{"resourceUri":"ui://x"}}`})

// drawMembers draws the text of members of a JSON object, without braces.
func drawMembers(t *rapid.T, label string) string {
	names := rapid.SampledFrom([]string{"a", "com.example/x", "traceparent", `\u0061b`, "annotations", "é", "x y"})
	space := rapid.SampledFrom([]string{"", " ", "\t"})
	text := ""
	for i := range rapid.IntRange(1, 6).Draw(t, label) {
		if i > 0 {
			text += "," + space.Draw(t, "space")
		}
		text += `"` + names.Draw(t, "name") + fmt.Sprint(i) + `"` + space.Draw(t, "space") + ":" + textsOfJSON.Draw(t, "value")
	}
	return text
}

// passed returns what becomes of params on the way to the server: a transport of the go-sdk encodes
// them itself, without white space between values. Elsewhere they stay, and results always do.
func passed(spec mcpvisor.ServerSpec, text string) string {
	var compact bytes.Buffer
	if spec.Transport == nil || json.Compact(&compact, []byte(text)) != nil {
		return text
	}
	return compact.String()
}
