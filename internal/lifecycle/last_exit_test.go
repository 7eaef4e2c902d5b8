package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// exit is the cause of a process that ended by itself.
func exit(code int, stderr ...string) *supervisor.Cause {
	return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code, Message: "server process ended", Stderr: stderr}
}

// starts feeds a supervised lifecycle with starts that end with the given causes, and
// returns it after the last.
func starts(p supervisor.Policy, ends ...*supervisor.Cause) *Lifecycle {
	l := NewLifecycle(p, true, nil)
	now := time.Unix(0, 0)
	l.Step(now, Input{Kind: InputRegister})
	for _, cause := range ends {
		if !l.RetryAt().IsZero() {
			now = l.RetryAt()
			l.Step(now, Input{Kind: InputTimer, Token: l.armed})
		}
		l.Step(now, Input{Kind: InputFailed, Epoch: l.Epoch(), Cause: cause})
		l.Step(now, Input{Kind: InputReleased, Epoch: l.Epoch()})
	}
	return l
}

func TestRepeatedExitIsPermanent(t *testing.T) {
	limited := supervisor.Retry(5, time.Second)
	usage := "usage: server --root DIR"
	for name, c := range map[string]struct {
		policy supervisor.Policy
		ends   []*supervisor.Cause
		want   supervisor.State
	}{
		"once":                          {limited, []*supervisor.Cause{exit(2, usage)}, supervisor.StateBackoff},
		"twice":                         {limited, []*supervisor.Cause{exit(2, usage), exit(2, usage)}, supervisor.StateEvicted},
		"status 0":                      {limited, []*supervisor.Cause{exit(0, usage), exit(0, usage)}, supervisor.StateEvicted},
		"other lines":                   {limited, []*supervisor.Cause{exit(2, usage), exit(2, "out of memory")}, supervisor.StateBackoff},
		"another status":                {limited, []*supervisor.Cause{exit(2, usage), exit(3, usage)}, supervisor.StateBackoff},
		"no lines":                      {limited, []*supervisor.Cause{exit(2), exit(2)}, supervisor.StateBackoff},
		"something else in between":     {limited, []*supervisor.Cause{exit(2, usage), {Kind: supervisor.CauseTimeout}, exit(2, usage)}, supervisor.StateBackoff},
		"a signal":                      {limited, []*supervisor.Cause{{Kind: supervisor.CauseSignal, Stderr: []string{usage}}, {Kind: supervisor.CauseSignal, Stderr: []string{usage}}}, supervisor.StateBackoff},
		"a policy without limit":        {supervisor.Retry(supervisor.Unlimited, time.Second), []*supervisor.Cause{exit(2, usage), exit(2, usage), exit(2, usage)}, supervisor.StateBackoff},
		"a policy that parks":           {supervisor.Retry(2, time.Second, supervisor.WithParking(time.Hour)), []*supervisor.Cause{exit(2, usage), exit(2, usage)}, supervisor.StateBackoff},
		"a policy that parks, and then": {supervisor.Retry(2, time.Second, supervisor.WithParking(time.Hour)), []*supervisor.Cause{exit(2, usage), exit(2, usage), exit(2, usage)}, supervisor.StateParked},
	} {
		t.Run(name, func(t *testing.T) {
			l := starts(c.policy, c.ends...)
			require.Equal(t, c.want, l.State())
			switch c.want {
			case supervisor.StateEvicted:
				require.True(t, l.Cause().Permanent)
				require.Contains(t, l.Cause().Message, "same lines")
				require.False(t, c.ends[len(c.ends)-1].Permanent, "the given cause is not changed")
			default:
				require.False(t, l.Cause().Permanent)
			}
		})
	}
}

// A server that got past the handshake is configured well enough for retries: what ends
// it during discovery may be a database that is not up yet.
func TestRepeatedExitWhileDiscoveringIsRetried(t *testing.T) {
	l := NewLifecycle(supervisor.Retry(5, time.Second), true, nil)
	now := time.Unix(0, 0)
	l.Step(now, Input{Kind: InputRegister})
	for range 3 {
		l.Step(now, Input{Kind: InputOpened, Epoch: l.Epoch()})
		l.Step(now, Input{Kind: InputDied, Epoch: l.Epoch(), Cause: exit(2, "x")})
		l.Step(now, Input{Kind: InputReleased, Epoch: l.Epoch()})
		require.Equal(t, supervisor.StateBackoff, l.State())
		now = l.RetryAt()
		l.Step(now, Input{Kind: InputTimer, Token: l.armed})
	}
}

// A server that was ready once is configured well enough: it is retried as often as the
// policy allows.
func TestRepeatedExitAfterReadyIsRetried(t *testing.T) {
	l := NewLifecycle(supervisor.Retry(5, time.Second), true, nil)
	now := time.Unix(0, 0)
	l.Step(now, Input{Kind: InputRegister})
	l.Step(now, Input{Kind: InputOpened, Epoch: 1})
	l.Step(now, Input{Kind: InputDiscovered, Epoch: 1})
	l.Step(now, Input{Kind: InputDied, Epoch: 1, Cause: exit(2, "x")})
	l.Step(now, Input{Kind: InputReleased, Epoch: 1})
	for range 3 {
		now = l.RetryAt()
		l.Step(now, Input{Kind: InputTimer, Token: l.armed})
		l.Step(now, Input{Kind: InputFailed, Epoch: l.Epoch(), Cause: exit(2, "x")})
		l.Step(now, Input{Kind: InputReleased, Epoch: l.Epoch()})
		require.Equal(t, supervisor.StateBackoff, l.State())
	}
}

// A restart forgets the last exit: the user may have corrected its reason.
func TestRestartResetsRepeatedExit(t *testing.T) {
	l := starts(supervisor.Retry(5, time.Second), exit(2, "x"))
	l.Step(time.Unix(9, 0), Input{Kind: InputRestart})
	l.Step(time.Unix(9, 0), Input{Kind: InputFailed, Epoch: l.Epoch(), Cause: exit(2, "x")})
	l.Step(time.Unix(9, 0), Input{Kind: InputReleased, Epoch: l.Epoch()})
	require.Equal(t, supervisor.StateBackoff, l.State())
}

// The delay is the longer of the policy's and the server's supervisor.Retry-After.
func TestRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: time.Second, time.Millisecond: time.Second, time.Minute: time.Minute} {
		l := starts(supervisor.Retry(5, time.Second), &supervisor.Cause{Kind: supervisor.CauseSpawn, RetryAfter: asked})
		require.Equal(t, time.Unix(0, 0).Add(want), l.RetryAt(), "asked for %v", asked)
		l = starts(supervisor.Retry(1, time.Second, supervisor.WithParking(2*time.Second)), &supervisor.Cause{Kind: supervisor.CauseSpawn}, &supervisor.Cause{Kind: supervisor.CauseSpawn, RetryAfter: asked})
		require.Equal(t, supervisor.StateParked, l.State())
		require.Equal(t, time.Unix(1, 0).Add(max(2*time.Second, asked)), l.RetryAt(), "asked for %v", asked)
	}
}
