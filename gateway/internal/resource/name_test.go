package resource

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// The literal parts of a template occur in the URI, in their order.
func TestMatchTemplate(t *testing.T) {
	for _, c := range []struct {
		template, uri string
		literal       int // -1: it does not match
	}{
		{"file:///x", "file:///x", 9}, {"file:///x", "file:///xy", -1},
		{"file:///{path}", "file:///a", 8}, {"file:///{path}", "http://a", -1}, {"file:///{+path}", "file:///a/b", 8},
		{"note://{id}/text", "note://7/text", 7}, {"note://{id}/text", "note://7/image", -1},
		{"a{x}b{y}c", "a1b2c", 1}, {"a{x}b{y}c", "a1c", -1}, {"{x}", "anything", 0}, {"{x", "x", -1}, {"", "", 0}, {"", "x", -1},
		{"a{?q}", "a", 1}, {"a{x}b{y}b", "a1b", -1},
	} {
		steps := MaxSteps
		require.Equal(t, c.literal >= 0, Matches([]mcpvisor.ResourceTemplate{{URITemplate: c.template}}, c.uri, &steps), "%q %q", c.template, c.uri)
	}
}

// Templates cost a bounded number of steps at a lookup, and one server's do not count
// against another's.
func TestMatchTemplate_steps(t *testing.T) {
	uri := strings.Repeat("a", 64<<10)
	var templates []mcpvisor.ResourceTemplate
	for i := range 10_000 {
		templates = append(templates, mcpvisor.ResourceTemplate{URITemplate: strings.Repeat("{x}", 1+i%100) + "b{y}"})
	}
	steps, matched := MaxSteps, 0
	for _, template := range append(templates, mcpvisor.ResourceTemplate{URITemplate: "{+uri}"}) {
		before := steps
		if matchTemplate(template.URITemplate, uri, &steps) {
			matched++
		}
		require.LessOrEqual(t, before-steps, len(uri)+2*len(template.URITemplate))
		if before < 0 {
			require.LessOrEqual(t, before-steps, 2, "nothing is searched any more")
		}
	}
	require.Negative(t, steps)
	require.Zero(t, matched)
	steps = MaxSteps
	require.False(t, Matches(templates, uri, &steps))
}

// Only the configuration says which of several servers has a URI.
func TestFirst(t *testing.T) {
	require.Equal(t, "a", First([]string{"a"}, []string{"b"}))
	require.Equal(t, "b", First([]string{"a", "b", "c"}, []string{"x", "b", "a"}))
	require.Empty(t, First([]string{"a", "b"}, nil))
	require.Empty(t, First([]string{"a", "b"}, []string{"c"}))
	require.Empty(t, First(nil, []string{"c"}))
}
