package rules

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A rule with a bound lets each principal make so many calls at once, and then one after the other as time passes.
func TestGate_calls_a_minute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		g := NewGate(func(context.Context, Question) (Decision, error) { asked++; return Decision{Approve: true}, nil }, Options{})
		g.Set(compiled(t, false, Rule{Tool: "ask*", PerMinute: 1, Do: Ask}, Rule{Tool: "free", Do: Allow}, Rule{PerMinute: 3, Do: Allow, Source: ".mcp.json:7"}))
		check := func(principal, tool string, earlier mcpvisor.Permit) (mcpvisor.Permit, error) {
			return g.CheckCall(t.Context(), mcpvisor.GuardedCall{Principal: principal, Server: "s", Tool: tool, Earlier: earlier})
		}
		refused := func(principal, tool string, after time.Duration) {
			t.Helper()
			_, err := check(principal, tool, mcpvisor.Permit{})
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.ErrOverloaded, e.Kind)
			require.InDelta(t, after, e.RetryAfter, float64(time.Millisecond))
		}
		var permit mcpvisor.Permit
		for _, tool := range []string{"a", "b", "a"} { // its tools together
			p, err := check("ci", tool, mcpvisor.Permit{})
			require.NoError(t, err)
			permit = p
		}
		refused("ci", "c", 20*time.Second)
		_, err := check("ci", "a", permit)
		require.NoError(t, err, "a further attempt to send the same call")
		_, err = check("ci", "free", mcpvisor.Permit{})
		require.NoError(t, err)
		_, err = check("bob", "a", mcpvisor.Permit{})
		require.NoError(t, err, "another principal")
		time.Sleep(19 * time.Second)
		refused("ci", "a", time.Second)
		time.Sleep(time.Second + time.Millisecond)
		_, err = check("ci", "a", mcpvisor.Permit{})
		require.NoError(t, err)
		refused("ci", "a", 20*time.Second-time.Millisecond)

		_, err = check("ci", "ask", mcpvisor.Permit{})
		require.NoError(t, err)
		refused("ci", "ask", time.Minute)
		require.Equal(t, 1, asked, "a person is not asked about what is too much")
		g.Set(compiled(t, false, Rule{PerMinute: 1, Do: Allow}))
		counted, err := check("ci", "ask2", mcpvisor.Permit{})
		require.NoError(t, err)
		g.Set(compiled(t, false, Rule{Do: Ask}))
		_, err = check("ci", "ask2", counted)
		require.NoError(t, err)
		require.Equal(t, 2, asked, "what was counted was not approved")
	})
}

// Names of principals that have been quiet for a minute take no memory.
func TestLimit_forgets(t *testing.T) {
	l, now := &limit{perMinute: 1}, time.Now()
	for i := range 10 * minSweep {
		require.Zero(t, l.take(fmt.Sprint(i), now.Add(time.Duration(i)*time.Second)))
		require.LessOrEqual(t, len(l.of), minSweep)
	}
	require.NotZero(t, l.take(fmt.Sprint(10*minSweep-1), now.Add(10*minSweep*time.Second)))
}
