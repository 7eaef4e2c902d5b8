package actors

import (
	"math"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestRandomNumber(t *testing.T) {
	for name, c := range map[string]struct {
		random func() float64
		wait   time.Duration
	}{
		"that_is_NaN":        {math.NaN, 10 * time.Second},
		"that_is_infinite":   {func() float64 { return math.Inf(1) }, 15 * time.Second},
		"that_is_negative":   {func() float64 { return -7 }, 5 * time.Second},
		"that_is_within_one": {func() float64 { return 0.75 }, 12500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				require.NoError(t, h.rt.Close(t.Context()))
				h.rt = New(Options{NewDialer: h.newDialer, Logger: zerolog.New(h.log), Random: c.random})
				h.script("fs", script{tools: []string{"ls"}})
				h.register(mcpvisor.ServerSpec{Name: "fs", Policy: supervisor.Retry(3, 10*time.Second, supervisor.WithJitter(0.5))})
				h.session("fs").Abort(errScripted)
				require.Equal(t, supervisor.StateBackoff, h.state("fs"))
				time.Sleep(c.wait - time.Millisecond)
				require.Equal(t, supervisor.StateBackoff, h.state("fs"))
				time.Sleep(time.Millisecond)
				require.Equal(t, supervisor.StateReady, h.state("fs"))
			})
		})
	}
}
