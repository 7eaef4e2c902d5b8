package telemetry

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	serveTracedOnStdio()
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// fixture is a client with telemetry whose metrics a test reads.
type fixture struct {
	t      *testing.T
	reader *sdkmetric.ManualReader
	tel    *Telemetry
	client *facade.Client
}

// newFixture attaches telemetry to a client. Both are closed at the end of the test.
func newFixture(t *testing.T, opts ...Option) *fixture {
	t.Helper()
	return newFixtureWith(t, []facade.Option{facade.WithRoots()}, nil, opts...)
}

// newFixtureWith is newFixture for a client with these options, and another reader of its
// metrics; nil for none.
func newFixtureWith(t *testing.T, more []facade.Option, also sdkmetric.Reader, opts ...Option) *fixture {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	// A series too many must show, so the bound of the SDK is off.
	with := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0)}
	if also != nil {
		with = append(with, sdkmetric.WithReader(also))
	}
	provider := sdkmetric.NewMeterProvider(with...)
	client, err := facade.New(more...)
	require.NoError(t, err)
	tel, err := Attach(client, append([]Option{WithMeterProvider(provider), WithGateway(clients.New().Status)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close(context.Background()))
		require.NoError(t, tel.Close())
		require.NoError(t, provider.Shutdown(context.Background()))
	})
	return &fixture{t, reader, tel, client}
}

func (f *fixture) register(spec mcpvisor.ServerSpec) {
	f.t.Helper()
	require.NoError(f.t, f.client.Register(f.t.Context(), spec))
}

// memory is a server of a script, in this process.
func memory(name string, script mcptest.Script) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(script), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
}

// metrics collects all metrics, by name.
func (f *fixture) metrics() map[string]metricdata.Metrics {
	f.t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(f.t, f.reader.Collect(context.Background(), &data))
	all := map[string]metricdata.Metrics{}
	for _, s := range data.ScopeMetrics {
		require.Equal(f.t, scope, s.Scope.Name)
		for _, m := range s.Metrics {
			require.NotContains(f.t, all, m.Name)
			all[m.Name] = m
		}
	}
	return all
}

// point is one series of a metric. Of a histogram, value is how many it has recorded;
// seconds are whole.
type point struct {
	attributes attribute.Set
	value      int64
}

// text returns an attribute as text; empty if the series does not have it.
func (p point) text(key attribute.Key) string {
	v, _ := p.attributes.Value(key)
	return v.AsString()
}

// series returns the series of a metric that have all of the attributes.
func (f *fixture) series(name string, having ...attribute.KeyValue) (found []point) {
	f.t.Helper()
	for _, p := range points(f.metrics()[name]) {
		all := true
		for _, want := range having {
			v, ok := p.attributes.Value(want.Key)
			all = all && ok && v == want.Value
		}
		if all {
			found = append(found, p)
		}
	}
	return found
}

// sum adds up the series of a metric that have all of the attributes.
func (f *fixture) sum(name string, having ...attribute.KeyValue) (total int64) {
	f.t.Helper()
	for _, p := range f.series(name, having...) {
		total += p.value
	}
	return total
}

func points(m metricdata.Metrics) (all []point) {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, int64(p.Count)})
		}
	case metricdata.Sum[int64]:
		all = numbers(data.DataPoints)
	case metricdata.Sum[float64]:
		all = numbers(data.DataPoints)
	case metricdata.Gauge[int64]:
		all = numbers(data.DataPoints)
	case metricdata.Gauge[float64]:
		all = numbers(data.DataPoints)
	}
	return all
}

func numbers[N int64 | float64](data []metricdata.DataPoint[N]) (all []point) {
	for _, p := range data {
		all = append(all, point{p.Attributes, int64(p.Value)})
	}
	return all
}

// eventually waits until a condition holds.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 2*time.Millisecond)
}
