// Package telemetry reports what a client does to OpenTelemetry: metrics of servers and
// calls, a span for each request, and trace context that travels to the servers.
//
// It is a module of its own, with the same version numbers as the root module. It needs only the
// OpenTelemetry API. The host chooses the SDK and the exporters:
//
//	tel, err := telemetry.Attach(client, telemetry.WithMeterProvider(provider))
//	defer tel.Close() // after the Close of the client
//
// It measures requests, and reports what the client knows about its servers: states, restarts, causes, calls in flight, catalogs. docs/metrics.md lists all metrics;
// docs/operations.md explains the alerts that deploy/ builds on them.
//
// Each request gets a span, whose trace context travels in the _meta of the request
// (traceparent and tracestate, SEP-414), over every transport: a server that traces joins
// the trace of the caller. What servers ask for is traced with the context that they send.
// See WithTracerProvider, WithoutSpans, WithoutPropagation, WithBaggage and JoinSpan.
//
// The names follow the OpenTelemetry conventions for MCP where these exist; they are not stable
// yet, so they are constants of this package. Other names begin with "mcpvisor.". No attribute
// holds arguments, results, error messages or URIs.
//
// One Telemetry reports on one client. Several clients on one provider need WithAttributes to
// tell them apart: without it, servers of the same name share their series, and a gauge shows
// that of one client only.
//
// The number of series is bounded: tools and prompts are named only if the server lists
// them, at most 1000 of all servers together, and the rest is reported as [monitor.OtherTools].
// The SDK has a bound of its own, 2,000 series for each metric by default; above about 140
// servers raise it with sdk/metric.WithCardinalityLimit.
package telemetry
