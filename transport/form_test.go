package transport

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fields is a schema with these fields.
func fields(text string) string { return `{"type":"object","properties":{` + text + `}}` }

// doubling is a small schema whose validation takes 2^60 steps.
func doubling() string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"type":"string"}},"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	b.WriteString(`"d60":{"type":"object"}}}`)
	return b.String()
}

// fatal are schemas that a validator does not survive, or does not finish.
var fatal = map[string]string{
	"reference to itself": `{"type":"object","$ref":"#","properties":{"a":{"type":"string"}}}`,
	"part of itself":      `{"type":"object","allOf":[{"$ref":"#"}],"properties":{"a":{"type":"string"}}}`,
	"field of itself":     `{"type":"object","properties":{"a":{"type":"string","default":"x","$ref":"#/properties/a"}}}`,
	"dynamic":             `{"type":"object","$dynamicRef":"#n","$dynamicAnchor":"n","properties":{"a":{"type":"string"}}}`,
	"doubling":            doubling(),
}

// A schema costs its one question, and not the host: an overflow of the stack
// cannot be recovered, nor what spins be ended. So this is in a process of its
// own, and ends with its sessions, in both eras.
func TestAFormThatNobodySurvives(t *testing.T) {
	if which := os.Getenv("MCPVISOR_TEST_FORM"); which != "" {
		for _, modern := range []bool{false, true} {
			p := newPartner(t, modern)
			s := p.open(Handlers{ElicitForm: atOnce, Sample: anySample, SampleTools: true})
			ended := make(chan error, 1)
			if modern {
				go func() { _, err := s.Request(testContext(t), toolCall); ended <- err }()
				p.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"f":{"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}}}}`,
					p.next("tools/call").ID, fatal[which])
				require.ErrorContains(t, <-ended, "requestedSchema")
			} else {
				p.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, fatal[which])
				require.Contains(t, string(p.next("").Error), "-32602")
				// Those of tools are passed on, and nobody follows them.
				p.say(`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[{"name":"t","inputSchema":%s,"outputSchema":%s}]}}`,
					fatal[which], fatal[which])
				require.NotEmpty(t, p.next("").Result)
			}
			endSession(t, s)
		}
		return
	}
	for name := range fatal {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run", "^TestAFormThatNobodySurvives$", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), "MCPVISOR_TEST_FORM="+name)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%.1500s", out)
		})
	}
}

func TestFormsThatAreTaken(t *testing.T) {
	for _, schema := range []string{
		`null`,
		`{}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$comment":"","title":"T","description":"D","type":"object",
			"properties":{},"required":["a"],"additionalProperties":false,"x-order":[["a"]]}`,
		fields(`"properties":{"type":"string","title":"T","description":"D","minLength":1,"maxLength":9,"format":"email","default":"a","examples":["b"]}`),
		fields(`"$ref":{"type":"string","pattern":"^[A-Z]{2}-\\d{4}$"}`),
		fields(`"a":{"type":"integer","minimum":1,"maximum":9,"default":3},"b":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1,"multipleOf":0.1}`),
		fields(`"a":{"type":"boolean","default":true,"readOnly":false,"deprecated":false,"x-mine":{"$ref":"#"}}`),
		fields(`"a":{"type":"string","enum":["r","g"],"enumNames":["red","green"],"default":"r"}`),
		fields(`"a":{"type":"string","oneOf":[{"const":"r","title":"red"},{"const":"g","title":"green"}],"default":"r"}`),
		fields(`"a":{"type":"array","minItems":1,"maxItems":2,"uniqueItems":true,"items":{"type":"string","enum":["r","g"]},"default":["r"]}`),
		fields(`"a":{"type":"array","items":{"anyOf":[{"const":"r","title":"red"}]}}`),
	} {
		require.NoError(t, checkForm(read(t, schema)), schema)
	}
}

func TestFormsThatAreNone(t *testing.T) {
	many := strings.Repeat(`"a",`, formEntries) + `"a"`
	long := strings.Repeat("a", formText+1)
	for _, schema := range []string{
		`[]`, `"object"`, `true`,
		`{"properties":[]}`, `{"additionalProperties":{}}`, `{"required":{}}`, `{"required":[["a"]]}`, `{"title":{}}`,
		`{"$id":"x"}`, `{"$anchor":"x"}`, `{"definitions":{}}`, `{"not":{}}`, `{"if":{}}`, `{"patternProperties":{}}`, `{"ALLOF":[]}`, `{"$Ref":"#"}`,
		`{"dependentSchemas":{}}`, `{"propertyNames":{}}`, `{"unevaluatedProperties":false}`, `{"oneOf":[]}`, `{"items":{}}`,
		fields(`"a":null`), fields(`"a":true`), fields(`"a":{"properties":{}}`), fields(`"a":{"$ref":"#"}`), fields(`"a":{"allOf":[]}`),
		fields(`"a":{"not":{}}`), fields(`"a":{"prefixItems":[]}`), fields(`"a":{"contains":{}}`), fields(`"a":{"additionalItems":{}}`),
		fields(`"a":{"default":{}}`), fields(`"a":{"default":[[]]}`), fields(`"a":{"enum":[{}]}`), fields(`"a":{"const":{}}`),
		fields(`"a":{"oneOf":[{"const":"a","$ref":"#"}]}`), fields(`"a":{"oneOf":[{"oneOf":[]}]}`), fields(`"a":{"oneOf":[true]}`), fields(`"a":{"oneOf":{}}`),
		fields(`"a":{"items":[]}`), fields(`"a":{"items":{"items":{}}}`), fields(`"a":{"items":{"anyOf":[{"anyOf":[]}]}}`), fields(`"a":{"items":{"$ref":"#"}}`),
		fields(`"a":{"minLength":"1"}`), fields(`"a":{"uniqueItems":1}`),
		fields(`"a":{"title":"` + long + `"}`), fields(`"a":{"default":"` + long[:formDefault+1] + `"}`),
		fields(`"a":{"enum":[` + many + `]}`), `{"required":[` + many + `]}`,
		fields(`"a":{"pattern":"("}`), fields(`"a":{"pattern":1}`), fields(`"a":{"pattern":"` + long[:formPattern+1] + `"}`),
		fields(`"a":{"pattern":"` + strings.Repeat(".{1000}", 6) + `"}`),
	} {
		require.Error(t, checkForm(read(t, schema)), "%.200s", schema)
	}
}

// What a form asks for at most takes a moment, whatever is filled in.
func TestTheHeaviestForm(t *testing.T) {
	p := newPartner(t, false)
	p.open(Handlers{ElicitForm: atOnce})
	heavy := fmt.Sprintf(`"a":{"type":"string","pattern":"%s$","default":"%s"}`, "(a|a?){700}", strings.Repeat("a", formDefault))
	require.NoError(t, checkForm(read(t, fields(heavy))))
	began := time.Now()
	p.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, fields(heavy))
	require.JSONEq(t, "1", string(p.next("").ID))
	require.Less(t, time.Since(began), patience)
}

func read(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// As many fields as a form may have, and not one more.
func TestFormsOfManyFields(t *testing.T) {
	fields := map[string]any{}
	for n := range formEntries {
		fields[fmt.Sprint(n)] = map[string]any{"type": "string"}
	}
	schema := map[string]any{"type": "object", "properties": fields}
	require.NoError(t, checkForm(schema))
	fields["more"] = map[string]any{"type": "string"}
	require.ErrorContains(t, checkForm(schema), "more than 4096 fields")
}
