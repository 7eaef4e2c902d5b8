package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/mcpvisor/mcpvisor/facade"
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

// dashboardQueries are the queries of the dashboard, and those of its variables.
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
