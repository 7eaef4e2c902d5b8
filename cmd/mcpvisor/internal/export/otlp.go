package export

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// OTLP exports metrics and spans to a collector of OpenTelemetry. nil: the environment names none.
type OTLP struct {
	inv     *cli.Invocation
	metrics sdkmetric.Exporter    // nil: metrics are not exported
	spans   sdktrace.SpanExporter // nil: there are no spans
	mask    *strings.Replacer     // of the credentials in the variables
	later   func(note func())     // see PrintBy
	ended   atomic.Bool           // later prints nothing from now on
	warned  rate.Sometimes        // however many exports fail, it is one warning an hour
}

// OpenOTLP makes the exporters that variables OTEL_… of the environment ask for, as the SDK reads them. It connects to
// nothing yet. An error is a variable that cannot be used; it shows no credentials.
func OpenOTLP(inv *cli.Invocation) (*OTLP, error) {
	metrics, err := exported(inv, "METRICS")
	if err != nil {
		return nil, err
	}
	spans, err := exported(inv, "TRACES")
	if err != nil || metrics == "" && spans == "" {
		return nil, err
	}
	o := &OTLP{inv: inv, mask: otlpSecrets(), warned: rate.Sometimes{Interval: time.Hour}}
	var mistakes []error // the SDK reports most of them, and continues
	mistaken := sdkErrors(func(err error) { mistakes = append(mistakes, err) })
	otel.SetLogger(logr.New(mistaken))
	otel.SetErrorHandler(mistaken)
	ctx := context.Background()
	switch metrics {
	case "":
	case "grpc":
		o.metrics, err = otlpmetricgrpc.New(ctx)
	default:
		o.metrics, err = otlpmetrichttp.New(ctx)
	}
	mistakes = append(mistakes, err)
	switch err = nil; spans {
	case "":
	case "grpc":
		o.spans, err = otlptracegrpc.New(ctx)
	default:
		o.spans, err = otlptracehttp.New(ctx)
	}
	_ = sdktrace.NewTracerProvider() // reads the sampler
	_, wrong := newResource()
	if err = errors.Join(append(mistakes, err, wrong)...); err != nil {
		return nil, cli.UsageError("a variable OTEL_… cannot be used: %s; correct it, or set OTEL_SDK_DISABLED=true", o.text(err))
	}
	later := sdkErrors(o.report)
	otel.SetLogger(logr.New(later))
	otel.SetErrorHandler(later)
	return o, nil
}

// exported returns the protocol by which the environment has METRICS or TRACES exported; empty if it does not.
func exported(inv *cli.Invocation, signal string) (protocol string, err error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	name, endpoint := otlpVariable(signal, "ENDPOINT")
	switch kind := strings.TrimSpace(os.Getenv("OTEL_" + signal + "_EXPORTER")); {
	case kind == "none", kind == "" && endpoint == "":
		return "", nil
	case kind != "" && kind != "otlp":
		inv.Warn("", "OTEL_%s_EXPORTER=%s has no effect here: otlp and none have; metrics for Prometheus are at /metrics of --http", signal, kind)
		return "", nil
	}
	variable, protocol := otlpVariable(signal, "PROTOCOL")
	if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return "", cli.UsageError("%s is no address of a collector; write one as in http://127.0.0.1:4318", name)
	}
	switch protocol {
	case "grpc":
		return protocol, nil
	case "", "http/protobuf":
		return "http", nil
	}
	return "", cli.UsageError("%s=%s is no protocol that is known here; write http/protobuf or grpc", variable, protocol) // the exporter of metrics has no http/json
}

// otlpVariable returns the variable OTEL_EXPORTER_OTLP_… that counts for a signal, and its value; empty without one.
func otlpVariable(signal, what string) (name, value string) {
	for _, name = range []string{"OTEL_EXPORTER_OTLP_" + signal + "_" + what, "OTEL_EXPORTER_OTLP_" + what} {
		if value = strings.TrimSpace(os.Getenv(name)); value != "" {
			break
		}
	}
	return name, value
}

// otlpSecrets masks what the variables OTEL_EXPORTER_OTLP_… hold of addresses and headers: a collector may repeat it.
func otlpSecrets() *strings.Replacer {
	var all secret.List
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") {
			continue
		}
		all.AddEnv([]string{variable})
		if !strings.HasSuffix(name, "HEADERS") {
			continue
		}
		for header := range strings.SplitSeq(value, ",") {
			_, value, found := strings.Cut(header, "=")
			if !found {
				value = header
			}
			all.Add(strings.TrimSpace(value))
			if plain, err := url.PathUnescape(value); err == nil {
				all.Add(strings.TrimSpace(plain))
			}
		}
	}
	return all.Replacer()
}

// newResource describes this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES add to it.
func newResource() (*resource.Resource, error) {
	return resource.New(context.Background(), resource.WithAttributes(
		attribute.String("service.name", "mcpvisor"), attribute.String("service.version", facade.Version())), resource.WithFromEnv())
}

func (o *OTLP) text(err error) string {
	return table.OneLine(o.mask.Replace(err.Error()), table.MaxText)
}

// PrintBy has warnings printed by notes that later gets, until the metrics are closed. Call it before Measure. o may be nil.
func (o *OTLP) PrintBy(later func(note func())) {
	if o != nil {
		o.later = later
	}
}

// report warns of an export that has failed. The SDK calls it from several goroutines; no call of a tool waits for it.
func (o *OTLP) report(err error) {
	o.warned.Do(func() {
		warn := func() {
			o.inv.Warn("", "telemetry is not exported, and is lost meanwhile: %s; look at the collector that OTEL_EXPORTER_OTLP_ENDPOINT names (said once an hour)", o.text(err))
		}
		if o.ended.Load() {
			warn()
		} else {
			o.later(warn)
		}
	})
}

// sdkErrors is called with what the SDK of OpenTelemetry reports as an error, and with what it logs as one: without
// the values that it logs beside it, because these can be credentials.
type sdkErrors func(error)

// Handle implements otel.ErrorHandler.
func (f sdkErrors) Handle(err error) { f(err) }

// Error implements logr.LogSink.
func (f sdkErrors) Error(err error, message string, _ ...any) {
	f(errors.Join(errors.New(message), err))
}

// Enabled implements logr.LogSink: only errors matter.
func (sdkErrors) Enabled(int) bool { return false }

// Init, Info, WithValues and WithName implement logr.LogSink.
func (sdkErrors) Init(logr.RuntimeInfo)            {}
func (sdkErrors) Info(int, string, ...any)         {}
func (f sdkErrors) WithValues(...any) logr.LogSink { return f }
func (f sdkErrors) WithName(string) logr.LogSink   { return f }
