package telemetry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// promToken matches one token of PromQL, after the variables of Grafana were replaced.
var promToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+[a-z]*(?::[0-9]+[a-z])?|=~|!~|!=|==|>=|<=|\S`)

var (
	promFunctions = []string{"rate", "increase", "histogram_quantile", "max_over_time", "min_over_time", "sum_over_time", "sum", "max", "avg", "topk"}
	promWords     = []string{"by", "and", "or", "unless", "bool"}

	opening, closing = []string{"(", "[", "{"}, []string{")", "]", "}"}

	// targetLabels are set by Prometheus.
	targetLabels = []string{"job", "instance"}
)

// checkQuery returns the metrics of the table that a query uses. It fails the test if the
// query names a metric, a label or a value of a label that does not exist.
func checkQuery(t require.TestingT, query string) (used []string) {
	query = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".*", "$server", ".*").Replace(query)
	require.NotContains(t, query, "$", query)
	tokens := promToken.FindAllString(query, -1)
	var open, grouped []string
	var labels [][]string // of each metric that the query names
	for i := 0; i < len(tokens); i++ {
		token, next := tokens[i], ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case slices.Contains(opening, token):
			open = append(open, token)
		case slices.Contains(closing, token):
			require.NotEmpty(t, open, query)
			require.Equal(t, slices.Index(closing, token), slices.Index(opening, open[len(open)-1]), query)
			open = open[:len(open)-1]
		case token == "by", token == "on":
			require.Equal(t, "(", next, query)
			for i += 2; tokens[i] != ")"; i++ {
				if tokens[i] != "," {
					grouped = append(grouped, tokens[i])
				}
			}
		case !regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(token) || slices.Contains(promWords, token):
		case slices.Contains(promFunctions, token):
			require.Contains(t, []string{"(", "by"}, next, query)
		case next == "(":
			require.Fail(t, "unknown function", "%s in %s", token, query)
		default:
			def, has := metricOf(t, token, query)
			used, labels = append(used, def.name), append(labels, has)
			if next == "{" {
				i = checkSelector(t, tokens, i+2, has, query)
			}
		}
	}
	require.Empty(t, open, query)
	for _, label := range grouped {
		for _, has := range labels {
			require.Contains(t, has, label, "no such label of a metric in %s", query)
		}
	}
	require.NotEmpty(t, used, query)
	return used
}

// metricOf returns the metric that Prometheus has under a name, and its labels.
func metricOf(t require.TestingT, name, query string) (def metricDef, labels []string) {
	if slices.Contains([]string{"up", "mcpvisor_config_usable"}, name) { // of Prometheus, and of mcpvisor run
		return def, targetLabels
	}
	for _, def := range table {
		suffix, ok := strings.CutPrefix(name, def.prometheusName())
		wanted := []string{""}
		if def.kind == histogram {
			wanted = []string{"_bucket", "_sum", "_count"}
		}
		if !ok || !slices.Contains(wanted, suffix) {
			continue
		}
		for _, key := range def.attributes {
			labels = append(labels, strings.ReplaceAll(string(key), ".", "_"))
		}
		if suffix == "_bucket" {
			labels = append(labels, "le")
		}
		return def, append(labels, targetLabels...)
	}
	require.Fail(t, "unknown metric", "%s in %s", name, query)
	return def, nil
}

// checkSelector checks the matchers from tokens[i] on, and returns the index of their end.
func checkSelector(t require.TestingT, tokens []string, i int, labels []string, query string) int {
	for ; tokens[i] != "}"; i += 3 {
		if tokens[i] == "," {
			i++
		}
		require.Contains(t, labels, tokens[i], query)
		require.Contains(t, []string{"=", "!=", "=~", "!~"}, tokens[i+1], query)
		for _, value := range strings.Split(strings.Trim(tokens[i+2], `"`), "|") {
			if known := labelValues(tokens[i]); known != nil && value != "" && value != ".*" {
				require.Contains(t, known, value, query)
			}
		}
	}
	return i
}

// labelValues are all values of a label; nil if it can have others.
func labelValues(label string) (values []string) {
	switch label {
	case "mcpvisor_server_state":
		for _, s := range supervisor.States() {
			values = append(values, string(s))
		}
	case "mcpvisor_cause_kind":
		for _, c := range causeKinds {
			values = append(values, string(c))
		}
	case "error_type":
		values = []string{toolError}
		for _, k := range mcpvisor.ErrorKinds() {
			values = append(values, string(k))
		}
	case "mcp_method_name":
		values = []string{"tools/call", "resources/read", "prompts/get", "completion/complete", "tools/list"}
	}
	return values
}

// checkQuery finds what is wrong, and accepts what is not.
func TestCheckQuery(t *testing.T) {
	for query, wrong := range map[string]bool{
		`sum by (mcpvisor_server_name) (rate(mcpvisor_server_ends_total{mcpvisor_cause_kind="exit"}[5m])) > 1`: false,
		`mcpvisor_server_ends`:                                             true,
		`rate(mcpvisor_server_ends_total{kind="exit"}[5m])`:                true,
		`mcpvisor_server_ends_total{mcpvisor_cause_kind=~"exit|exits"}`:    true,
		`sum by (tool) (mcpvisor_server_ends_total)`:                       true,
		`rate(mcpvisor_server_ends_total[5m]`:                              true,
		`rates(mcpvisor_server_ends_total[5m])`:                            true,
		`rate(mcp_client_operation_duration_seconds[5m])`:                  true,
		`sum by (le) (mcp_client_operation_duration_seconds_count)`:        true,
		`mcpvisor_server_state{mcpvisor_server_state="ready", job="$job"}`: false,
	} {
		var found failure
		func() {
			defer func() { _ = recover() }() // of FailNow
			checkQuery(&found, query)
		}()
		require.Equal(t, wrong, found != "", "%s: %s", query, found)
	}
}

// failure is a test that keeps what it fails with.
type failure string

func (f *failure) Errorf(format string, args ...any) { *f = failure(fmt.Sprintf(format, args...)) }
func (f *failure) FailNow()                          { panic(*f) }
