package telemetry

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The exporter of OpenTelemetry gives the metrics the names of docs/metrics.md, and their
// labels.
func TestDeploy_names_of_the_exporter(t *testing.T) {
	registry := promclient.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	require.NoError(t, err)
	f := newFixtureWith(t, []facade.Option{facade.WithRoots()}, exporter)
	f.scenario()
	families, err := registry.Gather()
	require.NoError(t, err)
	exported := map[string][]string{}
	for _, family := range families {
		if family.GetName() == "target_info" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				exported[family.GetName()] = append(exported[family.GetName()], label.GetName())
			}
		}
	}
	for _, def := range table {
		labels := exported[def.prometheusName()]
		require.NotEmpty(t, labels, "the exporter has no %s", def.prometheusName())
		delete(exported, def.prometheusName())
		for _, label := range labels {
			if !strings.HasPrefix(label, "otel_scope_") {
				_, known := metricOf(t, def.anyPrometheusName(), def.name)
				require.Contains(t, known, label, def.name)
			}
		}
	}
	require.Empty(t, exported, "the exporter has other names than docs/metrics.md")
}

// anyPrometheusName is a name that a query can use.
func (def metricDef) anyPrometheusName() string {
	if def.kind == histogram {
		return def.prometheusName() + "_count"
	}
	return def.prometheusName()
}

// alertRules are those of deploy. The name of a recorded series is replaced in them: by its expression.
func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	text, err := os.ReadFile("../deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&file))
	recorded := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			for name, expr := range recorded {
				r.Expr = strings.ReplaceAll(r.Expr, name, "("+expr+")")
			}
			if r.Record != "" {
				recorded[r.Record] = r.Expr
				continue
			}
			rules = append(rules, r)
		}
	}
	return rules
}

type alertRule struct {
	Record              string
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// dashboardQueries are the queries of the dashboard, of its annotations and of its variables.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana/mcpvisor.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID                       int
			Title, Type, Description string
			Targets                  []struct{ Expr string }
		}
		Annotations struct {
			List []struct{ Name, Expr string }
		}
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		queries = append(queries, a.Expr)
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			m := values.FindStringSubmatch(v.Query.(map[string]any)["query"].(string))
			require.Len(t, m, 3)
			queries = append(queries, "sum by ("+m[2]+") ("+m[1]+")")
		}
	}
	return queries
}

// Every query of the dashboard and of the alerts names metrics and labels that exist, and
// every metric is on the dashboard.
func TestDeploy_queries(t *testing.T) {
	var shown []string
	for _, query := range dashboardQueries(t) {
		shown = append(shown, checkQuery(t, query)...)
	}
	for _, def := range table {
		require.Contains(t, shown, def.name, "the dashboard does not show a metric")
	}
	rules := alertRules(t)
	require.Greater(t, len(rules), 10)
	for _, r := range rules {
		checkQuery(t, r.Expr)
		require.Regexp(t, "^Mcpvisor[A-Z]", r.Alert)
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
			require.Contains(t, r.Expr+" job instance mcpvisor_server_name", label[1], r.Alert)
		}
	}
}

// docs/operations.md explains each alert, and no other.
func TestDeploy_alerts_are_explained(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	var explained, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^\| .(Mcpvisor\w+). \| [^|]{20,} \| [^|]{20,} \| [^|]{20,} \|$`).FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, m[1])
	}
	for _, r := range alertRules(t) {
		alerts = append(alerts, r.Alert)
	}
	slices.Sort(explained)
	slices.Sort(alerts)
	require.Equal(t, alerts, explained)
}

// promToken matches one token of PromQL, after the variables of Grafana were replaced.
var promToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+[a-z]*(?::[0-9]+[a-z])?|=~|!~|!=|==|>=|<=|\S`)

var (
	promFunctions = []string{"rate", "increase", "histogram_quantile", "max_over_time", "min_over_time", "sum_over_time", "sum", "max", "min", "avg", "topk"}
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

// ofTheProgram are metrics of Prometheus and of mcpvisor run, with their labels. docs/metrics.md has them in a table of their own.
var ofTheProgram = map[string][]string{"up": nil, "mcpvisor_config_usable": nil, "mcpvisor_config_reloads_total": {"mcpvisor_reload_result"},
	"process_resident_memory_bytes": nil, "process_open_fds": nil, "process_max_fds": nil}

// metricOf returns the metric that Prometheus has under a name, and its labels.
func metricOf(t require.TestingT, name, query string) (def metricDef, labels []string) {
	if labels, ok := ofTheProgram[name]; ok {
		return def, append(labels, targetLabels...)
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

var update = flag.Bool("update", false, "rewrite docs/metrics.md from the table of metrics")

// What is emitted is in the table, and what is in the table is emitted: names, units,
// kinds, buckets, attributes.
func TestTable_is_what_is_emitted(t *testing.T) {
	f := newFixture(t)
	f.scenario()
	emitted := f.metrics()
	for _, def := range table {
		m, ok := emitted[def.name]
		if !ok && runtime.GOOS != "linux" && (def.name == nameMemory || def.name == nameCPU) {
			continue
		}
		require.True(t, ok, "%s is in the table and not emitted", def.name)
		delete(emitted, def.name)
		require.Equal(t, def.unit, m.Unit, def.name)
		require.Equal(t, def.description, m.Description, def.name)
		requireKind(t, def, m.Data)
		var keys []attribute.Key
		for _, p := range points(m) {
			for _, kv := range p.attributes.ToSlice() {
				require.Contains(t, def.attributes, kv.Key, "%s has an attribute that is not in the table", def.name)
				require.Equal(t, attribute.STRING, kv.Value.Type())
				keys = append(keys, kv.Key)
			}
		}
		slices.Sort(keys)
		require.ElementsMatch(t, def.attributes, slices.Compact(keys), "%s: each attribute of the table occurs", def.name)
	}
	require.Empty(t, emitted, "metrics that are not in the table")
}

func requireKind(t *testing.T, def metricDef, data metricdata.Aggregation) {
	t.Helper()
	sum := func(monotonic bool, temporality metricdata.Temporality) {
		require.Equal(t, def.kind == counter, monotonic, def.name)
		require.Contains(t, []kind{counter, upDownCounter}, def.kind, def.name)
		require.Equal(t, metricdata.CumulativeTemporality, temporality, def.name)
	}
	switch d := data.(type) {
	case metricdata.Histogram[float64]:
		require.Equal(t, histogram, def.kind, def.name)
		for _, p := range d.DataPoints {
			require.Equal(t, def.buckets, p.Bounds, def.name)
		}
	case metricdata.Sum[int64]:
		sum(d.IsMonotonic, d.Temporality)
	case metricdata.Sum[float64]:
		sum(d.IsMonotonic, d.Temporality)
		require.Equal(t, "s", def.unit, def.name)
	case metricdata.Gauge[int64], metricdata.Gauge[float64]:
		require.Equal(t, gauge, def.kind, def.name)
	default:
		require.Fail(t, "unknown kind of data", "%s: %T", def.name, data)
	}
}

func TestTable_descriptions_are_sentences(t *testing.T) {
	seen := map[string]bool{}
	for _, def := range table {
		require.False(t, seen[def.name], "%s has two rows", def.name)
		seen[def.name] = true
		require.Regexp(t, `^[A-Z1].*[.)]$`, def.description, def.name)
		require.Equal(t, def.kind == histogram, len(def.buckets) > 0, def.name)
	}
}

// docs/metrics.md holds the table of metrics, between marks.
func TestTable_documented(t *testing.T) {
	const path, begin, end = "../docs/metrics.md", "<!-- BEGIN METRICS -->\n", "<!-- END METRICS -->\n"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, begins := strings.Cut(strings.ReplaceAll(string(page), "\r\n", "\n"), begin)
	_, tail, ends := strings.Cut(rest, end)
	require.True(t, begins && ends, "%s has the marks %s and %s", path, begin, end)
	text := head + begin + tableText() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return
	}
	require.Equal(t, text, strings.ReplaceAll(string(page), "\r\n", "\n"), "%s is out of date; run: go test ./telemetry -run TestTable -update", path)
}

// tableText is the table as a page shows it.
func tableText() string {
	var b strings.Builder
	b.WriteString("| metric | Prometheus | kind, unit | attributes | series | meaning |\n|---|---|---|---|---|---|\n")
	for _, def := range table {
		attributes := make([]string, 0, len(def.attributes))
		for _, key := range def.attributes {
			attributes = append(attributes, "`"+string(key)+"`")
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s, %s | %s | %s | %s |\n", def.name, def.prometheusName(), def.kind, def.unit,
			strings.Join(attributes, ", "), def.series, def.description)
	}
	b.WriteString("\nThe buckets of all histograms, in seconds: ")
	for i, bound := range seconds {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, bound)
	}
	b.WriteString(".\n")
	return b.String()
}

// prometheusName is the name that the Prometheus exporter of OpenTelemetry gives a metric.
// TestDeploy compares it with what the exporter does.
func (def metricDef) prometheusName() string {
	name := strings.ReplaceAll(def.name, ".", "_")
	switch def.unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if def.kind == counter {
		name += "_total"
	}
	return name
}
