package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	spans "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// collector stands in for a collector of OpenTelemetry, over HTTP and gRPC.
type collector struct {
	spans.UnimplementedTraceServiceServer
	mu      sync.Mutex
	spans   []*spans.ExportTraceServiceRequest
	metrics []*metrics.ExportMetricsServiceRequest
	keys    map[string]bool // values of the header x-api-key
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[r.Header.Get("X-Api-Key")] = true
	switch r.URL.Path {
	case "/v1/traces":
		c.spans = append(c.spans, new(spans.ExportTraceServiceRequest))
		err = proto.Unmarshal(body, c.spans[len(c.spans)-1])
	case "/v1/metrics":
		c.metrics = append(c.metrics, new(metrics.ExportMetricsServiceRequest))
		err = proto.Unmarshal(body, c.metrics[len(c.metrics)-1])
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Export implements spans.TraceServiceServer.
func (c *collector) Export(ctx context.Context, r *spans.ExportTraceServiceRequest) (*spans.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[strings.Join(md.Get("x-api-key"), "")] = true
	c.spans = append(c.spans, r)
	return new(spans.ExportTraceServiceResponse), nil
}

// metricsCollector is a collector as a server of metrics over gRPC.
type metricsCollector struct {
	metrics.UnimplementedMetricsServiceServer
	*collector
}

func (c metricsCollector) Export(_ context.Context, r *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics = append(c.metrics, r)
	return new(metrics.ExportMetricsServiceResponse), nil
}

// serveOnce serves each request on a connection of its own, which is gone when the test looks for goroutines.
func serveOnce(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.SetKeepAlivesEnabled(false)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func attributesOf(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, kv := range all {
		texts[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return texts
}

const plantedKey = "planted-4711/0815"

// The variables of OpenTelemetry have a run export the spans and metrics of its calls. The page is not needed for that.
func TestRun_exports_by_OTLP(t *testing.T) {
	for _, protocol := range []string{"", "grpc"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			c := &collector{keys: map[string]bool{}}
			var address string
			if protocol == "grpc" {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				s := grpc.NewServer()
				spans.RegisterTraceServiceServer(s, c)
				metrics.RegisterMetricsServiceServer(s, metricsCollector{collector: c})
				go func() { _ = s.Serve(l) }()
				t.Cleanup(s.Stop)
				address = "http://" + l.Addr().String()
			} else {
				address = serveOnce(t, c)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=planted-4711%2F0815")
			t.Setenv("OTEL_SERVICE_NAME", "tools of the team")
			t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
			b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
			b.exits(cli.ExitOK, "call", "one/echo", "text=x")
			b.exits(cli.ExitFailed, "call", "one/fail")
			require.NotContains(t, b.stop()+b.errs.String(), "planted")
			require.NotContains(t, b.errs.String(), "telemetry")

			c.mu.Lock()
			defer c.mu.Unlock()
			require.Equal(t, map[string]bool{plantedKey: true}, c.keys)
			called := map[string]map[string]string{}
			for _, r := range c.spans {
				for _, rs := range r.GetResourceSpans() {
					require.Equal(t, "tools of the team", attributesOf(rs.GetResource().GetAttributes())["service.name"])
					for _, ss := range rs.GetScopeSpans() {
						for _, s := range ss.GetSpans() {
							called[s.GetName()] = attributesOf(s.GetAttributes())
						}
					}
				}
			}
			require.Equal(t, "one", called["tools/call echo"]["mcpvisor.server.name"])
			require.Equal(t, "echo", called["tools/call echo"]["gen_ai.tool.name"])
			require.Equal(t, "tool_error", called["tools/call fail"]["error.type"])
			measured, observed := map[string]uint64{}, false
			for _, r := range c.metrics {
				for _, rm := range r.GetResourceMetrics() {
					for _, sm := range rm.GetScopeMetrics() {
						for _, m := range sm.GetMetrics() {
							observed = observed || m.GetName() == "mcpvisor.server.restarts"
							for _, p := range m.GetHistogram().GetDataPoints() {
								a := attributesOf(p.GetAttributes())
								measured[fmt.Sprint(m.GetName(), " ", a["mcpvisor.server.name"], " ", a["gen_ai.tool.name"], " ", a["network.transport"])] = p.GetCount()
							}
						}
					}
				}
			}
			require.True(t, observed, "what is observed is exported at the end, too")
			require.EqualValues(t, 1, measured["mcp.client.operation.duration one echo pipe"], "%v", measured)
		})
	}
}

// A collector that is down, or refuses, fails no call, and is one warning, which shows no credentials.
func TestRun_collector_is_down(t *testing.T) {
	refusing := serveOnce(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such key: "+r.Header.Get("X-Api-Key"), http.StatusForbidden)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	down := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	for address, want := range map[string]string{refusing: "403 Forbidden (body: no such key: ***)", down: "connection refused"} {
		t.Run(want, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=planted-4711%2F0815")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
			b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
			for range 5 {
				b.exits(cli.ExitOK, "call", "one/echo", "text=x")
			}
			out := b.stop()
			require.Equal(t, 1, strings.Count(out+b.errs.String(), "telemetry is not exported"), "%s", b.errs.String())
			require.Contains(t, b.errs.String(), want)
			require.NotContains(t, out+b.errs.String(), "planted")
		})
	}
}
