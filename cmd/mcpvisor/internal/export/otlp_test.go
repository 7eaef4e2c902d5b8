package export

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
)

// The environment says what is exported. Without an address nothing is.
func TestOTLP_variables(t *testing.T) {
	const here = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for variables, want := range map[string]string{
		"":                                  "",
		here:                                "metrics spans",
		here + " OTEL_SDK_DISABLED=true":    "",
		here + " OTEL_TRACES_EXPORTER=none": "metrics",
		here + " OTEL_METRICS_EXPORTER=prometheus":                                       "spans",
		here + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                       "metrics spans",
		here + " OTEL_EXPORTER_OTLP_PROTOCOL=x OTEL_SDK_DISABLED=TRUE":                   "",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/x":                     "spans",
		"OTEL_METRICS_EXPORTER=otlp":                                                     "metrics",
		"OTEL_SERVICE_NAME=x OTEL_TRACES_SAMPLER=always_off":                             "",
		here + " OTEL_EXPORTER_OTLP_PROTOCOL=carrier-pigeon":                             "error: OTEL_EXPORTER_OTLP_PROTOCOL=carrier-pigeon is no protocol that is known here; write http/protobuf or grpc",
		here + " OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json":                          "error: OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=planted-4711:4318 OTEL_EXPORTER_OTLP_PROTOCOL=grpc": "error: OTEL_EXPORTER_OTLP_ENDPOINT is no address",
		"OTEL_EXPORTER_OTLP_ENDPOINT=planted-4711:4318":                                  "error: OTEL_EXPORTER_OTLP_ENDPOINT is no address",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://u:planted-4711@h:x":                   "error: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no address",
		here + " OTEL_TRACES_SAMPLER=sometimes":                                          "error: a variable OTEL_… cannot be used: unsupported sampler: sometimes",
		here + " OTEL_EXPORTER_OTLP_HEADERS=planted-4711":                                "error: a variable OTEL_… cannot be used: parse headers",
		here + " OTEL_EXPORTER_OTLP_HEADERS=x-api-key=planted-4711%zz":                   "error: a variable OTEL_… cannot be used: escape header value",
		here + " OTEL_EXPORTER_OTLP_HEADERS=planted-4711:x=y":                            "error: a variable OTEL_… cannot be used: parse headers",
		here + " OTEL_EXPORTER_OTLP_TIMEOUT=1s":                                          "error: a variable OTEL_… cannot be used: parse duration",
		here + " OTEL_EXPORTER_OTLP_CERTIFICATE=/nonexistent/ca.pem":                     "error: a variable OTEL_… cannot be used: read tls ca cert file",
		here + " OTEL_RESOURCE_ATTRIBUTES=x":                                             "error: a variable OTEL_… cannot be used",
	} {
		t.Run(variables, func(t *testing.T) {
			for variable := range strings.FieldsSeq(variables) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			inv, warned := new(cli.Invocation), new(strings.Builder)
			inv.Err = warned
			o, err := OpenOTLP(inv)
			var got []string
			if o != nil && o.metrics != nil {
				got = append(got, "metrics")
				require.NoError(t, o.metrics.Shutdown(t.Context()))
			}
			if o != nil && o.spans != nil {
				got = append(got, "spans")
				require.NoError(t, o.spans.Shutdown(t.Context()))
			}
			if failed, ok := strings.CutPrefix(want, "error: "); ok {
				require.ErrorContains(t, err, failed)
				require.NotContains(t, err.Error(), "planted")
				require.Nil(t, o)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, strings.Join(got, " "))
			require.Equal(t, strings.Contains(variables, "prometheus"), warned.Len() > 0, "%s", warned)
		})
	}
}
