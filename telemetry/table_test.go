package telemetry

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

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
