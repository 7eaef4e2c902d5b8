package export

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Every server has its own series, also when there are more than the SDK allows by itself.
func TestMetrics_many_servers(t *testing.T) {
	const servers = 160
	c, err := facade.New()
	require.NoError(t, err)
	m, err := Measure(c, Source{Hosts: clients.New().Status, UsableConfig: func() float64 { return 1 }}, nil)
	require.NoError(t, err)
	var specs []mcpvisor.ServerSpec
	script := mcptest.Script{NoTools: true, NoResources: true, NoPrompts: true}
	for i := range servers {
		specs = append(specs, mcpvisor.ServerSpec{Name: fmt.Sprintf("s%03d", i), InMemory: mcptest.InMemory(script)})
	}
	require.NoError(t, c.Register(t.Context(), specs...))
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	require.NotContains(t, text, "otel_metric_overflow")
	require.Contains(t, text, `service_name="mcpvisor"`, "target_info")
	if runtime.GOOS == "linux" {
		require.Regexp(t, `(?m)^process_resident_memory_bytes [1-9]`, text)
	}
	require.NotContains(t, text, "unknown_service")
	for _, name := range []string{"s000", "s159"} {
		require.Equal(t, 16, strings.Count(text, fmt.Sprintf("server_name=%q", name))-strings.Count(withoutEnds(text), fmt.Sprintf("server_name=%q", name)))
	}
	require.NoError(t, c.Close(context.WithoutCancel(t.Context())))
	require.NoError(t, m.Close())
}

// withoutEnds returns the lines that are not about ends of sessions.
func withoutEnds(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "mcpvisor_server_ends_total") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
