package telemetry

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Two clients on one provider, with servers of the same name, have series of their own.
// Every metric has the attributes.
func TestWithAttributes(t *testing.T) {
	ctx := t.Context()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	const keyClient = attribute.Key("client")
	open := func(name string, policy supervisor.Policy) (*facade.Client, *Telemetry) {
		tel, err := newTelemetry(WithMeterProvider(provider), WithAttributes(keyClient.String(name)), WithAttributes(keyServer.String("not the server"), attribute.Int("shard", 7)))
		require.NoError(t, err)
		c, err := facade.New(facade.WithRoots(), facade.WithObserver(tel.observer(nil)))
		require.NoError(t, err)
		require.NoError(t, tel.attach(c))
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: policy}))
		return c, tel
	}
	one, telOne := open("one", supervisor.NoRetry())
	two, telTwo := open("two", supervisor.Retry(supervisor.Unlimited, time.Millisecond))
	events := one.Watch(ctx, mcpvisor.EventEvicted)
	for _, c := range []*facade.Client{one, two} {
		for _, call := range []struct{ tool, args string }{{"s/echo", `{}`}, {"s/ask", `{"method":"roots/list"}`}, {"s/add_tool", `{"name":"x"}`}, {"s/crash", `{}`}, {"none/x", `{}`}} {
			_, _ = c.CallToolRaw(ctx, call.tool, []byte(call.args))
		}
	}
	<-events
	require.NoError(t, two.WaitReady(ctx, "s"))
	f := &fixture{t: t, reader: reader}
	require.Equal(t, string(supervisor.StateEvicted), stateOf(t, f, keyClient.String("one")))
	require.Equal(t, string(supervisor.StateReady), stateOf(t, f, keyClient.String("two")))
	requireAttributes := func() {
		t.Helper()
		for name, metric := range f.metrics() {
			for _, p := range points(metric) {
				require.Contains(t, []string{"one", "two"}, p.text(keyClient), "%s %v", name, p.attributes)
				shard, _ := p.attributes.Value("shard")
				require.EqualValues(t, 7, shard.AsInt64(), name)
			}
		}
	}
	requireAttributes()
	for _, c := range []*facade.Client{one, two} {
		require.NoError(t, c.Close(ctx))
	}
	require.NoError(t, telOne.Close())
	require.NoError(t, telTwo.Close())
	requireAttributes() // and what is recorded at the end
	for name, ends := range map[string]int{"one": 1, "two": 2} {
		require.EqualValues(t, 1, f.sum(nameClientOperation, keyClient.String(name), keyTool.String("echo"), keyServer.String("s")))
		require.EqualValues(t, 1, f.sum(nameServerOperation, keyClient.String(name)))
		require.EqualValues(t, ends, f.sum(nameEnds, keyClient.String(name)))
	}
}

// stateOf returns the state of the only server with an attribute.
func stateOf(t *testing.T, f *fixture, of attribute.KeyValue) (state string) {
	t.Helper()
	for _, p := range f.series(nameState, of) {
		if p.value == 1 {
			require.Empty(t, state)
			state = p.text(keyState)
		}
	}
	return state
}
