package stdio

import (
	"fmt"
	"os"
	"os/exec"
	"regexp/syntax"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// doublingSchema is a small schema whose validation takes 2^60 steps.
func doublingSchema() string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"type":"string"}},"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	b.WriteString(`"d60":{"type":"object"}}}`)
	return b.String()
}

// fatalSchemas are schemas that exhaust the stack or the time of a validator.
var fatalSchemas = map[string]string{
	"reference to itself": `{"type":"object","$ref":"#","properties":{"a":{"type":"string"}}}`,
	"part of itself":      `{"type":"object","allOf":[{"$ref":"#"}],"properties":{"a":{"type":"string"}}}`,
	"field of itself":     `{"type":"object","properties":{"a":{"type":"string","default":"x","$ref":"#/properties/a"}}}`,
	"dynamic":             `{"type":"object","$dynamicRef":"#n","$dynamicAnchor":"n","properties":{"a":{"type":"string"}}}`,
	"doubling":            doublingSchema(),
}

// TestForm_fatal_schema: a hostile schema fails its own request and leaves the host
// alive, in both eras. A stack overflow cannot be recovered and an endless validation
// cannot be stopped, so each schema is tried in a process of its own.
func TestForm_fatal_schema(t *testing.T) {
	if which := os.Getenv("MCPVISOR_TEST_FORM"); which != "" {
		for _, modern := range []bool{false, true} {
			p := newPartner(t, modern)
			s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce, Sample: transporttest.AnySample, SampleTools: true})
			ended := make(chan error, 1)
			if modern {
				go func() { _, err := s.Request(transporttest.Context(t), transporttest.ToolCall); ended <- err }()
				p.Send(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"f":{"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}}}}`,
					p.Next("tools/call").ID, fatalSchemas[which])
				require.ErrorContains(t, <-ended, "requestedSchema")
			} else {
				p.Send(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, fatalSchemas[which])
				require.Contains(t, string(p.Next("").Error), "-32602")
				// The schemas of tools are passed to the handler, and never validated.
				p.Send(`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[{"name":"t","inputSchema":%s,"outputSchema":%s}]}}`,
					fatalSchemas[which], fatalSchemas[which])
				require.NotEmpty(t, p.Next("").Result)
			}
			transporttest.EndSession(t, s)
		}
		return
	}
	for name := range fatalSchemas {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run", "^TestForm_fatal_schema$", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), "MCPVISOR_TEST_FORM="+name)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%.1500s", out)
			require.NotContains(t, string(out), "no tests to run")
		})
	}
}

// maxFormSteps bounds what validating one form costs, in steps of a regular expression: an
// instruction of its program for each byte of the default. A step takes some 10 ns.
const maxFormSteps = 1 << 24

// TestForm_largest_pattern: validating the largest pattern that is accepted takes a bounded
// number of steps, and the form is answered.
func TestForm_largest_pattern(t *testing.T) {
	form := func(n int) (schema string, steps int) {
		pattern := fmt.Sprintf("(a|a?){%d}$", n)
		expr, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		program, err := syntax.Compile(expr.Simplify())
		require.NoError(t, err)
		return transporttest.FormWith(fmt.Sprintf(`"a":{"type":"string","pattern":"%s","default":"%s"}`, pattern, strings.Repeat("a", inbound.MaxFormDefault))),
			len(program.Inst) * inbound.MaxFormDefault
	}
	refused := sort.Search(1000, func(n int) bool { // repetitions beyond 1000 are no valid pattern
		schema, _ := form(n)
		return inbound.CheckForm(transporttest.DecodeJSON(t, schema)) != nil
	})
	require.Less(t, refused, 1000, "no pattern is too large")
	heavy, steps := form(refused - 1)
	require.LessOrEqual(t, steps, maxFormSteps)
	// What a pattern costs is counted on its parse tree, before it is compiled, so the
	// count is above what the program has.
	require.Greater(t, steps, maxFormSteps/3, "the largest pattern is far below the bound")

	p := newPartner(t, false)
	p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
	p.Send(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, heavy)
	require.JSONEq(t, "1", string(p.Next("").ID))
}
