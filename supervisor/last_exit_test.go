package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exit is the cause of a process that ended by itself.
func exit(code int, stderr ...string) *Cause {
	return &Cause{Kind: CauseExit, ExitCode: &code, Message: "server process ended", Stderr: stderr}
}

// starts feeds a supervised lifecycle with starts that end with the given causes, and
// returns it after the last.
func starts(p Policy, ends ...*Cause) *Lifecycle {
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
	limited := Retry(5, time.Second)
	usage := "usage: server --root DIR"
	for name, c := range map[string]struct {
		policy Policy
		ends   []*Cause
		want   State
	}{
		"once":                          {limited, []*Cause{exit(2, usage)}, StateBackoff},
		"twice":                         {limited, []*Cause{exit(2, usage), exit(2, usage)}, StateEvicted},
		"status 0":                      {limited, []*Cause{exit(0, usage), exit(0, usage)}, StateEvicted},
		"other lines":                   {limited, []*Cause{exit(2, usage), exit(2, "out of memory")}, StateBackoff},
		"another status":                {limited, []*Cause{exit(2, usage), exit(3, usage)}, StateBackoff},
		"no lines":                      {limited, []*Cause{exit(2), exit(2)}, StateBackoff},
		"something else in between":     {limited, []*Cause{exit(2, usage), {Kind: CauseTimeout}, exit(2, usage)}, StateBackoff},
		"a signal":                      {limited, []*Cause{{Kind: CauseSignal, Stderr: []string{usage}}, {Kind: CauseSignal, Stderr: []string{usage}}}, StateBackoff},
		"a policy without limit":        {Retry(Unlimited, time.Second), []*Cause{exit(2, usage), exit(2, usage), exit(2, usage)}, StateBackoff},
		"a policy that parks":           {Retry(2, time.Second, WithParking(time.Hour)), []*Cause{exit(2, usage), exit(2, usage)}, StateBackoff},
		"a policy that parks, and then": {Retry(2, time.Second, WithParking(time.Hour)), []*Cause{exit(2, usage), exit(2, usage), exit(2, usage)}, StateParked},
	} {
		t.Run(name, func(t *testing.T) {
			l := starts(c.policy, c.ends...)
			require.Equal(t, c.want, l.State())
			switch c.want {
			case StateEvicted:
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
	l := NewLifecycle(Retry(5, time.Second), true, nil)
	now := time.Unix(0, 0)
	l.Step(now, Input{Kind: InputRegister})
	for range 3 {
		l.Step(now, Input{Kind: InputOpened, Epoch: l.Epoch()})
		l.Step(now, Input{Kind: InputDied, Epoch: l.Epoch(), Cause: exit(2, "x")})
		l.Step(now, Input{Kind: InputReleased, Epoch: l.Epoch()})
		require.Equal(t, StateBackoff, l.State())
		now = l.RetryAt()
		l.Step(now, Input{Kind: InputTimer, Token: l.armed})
	}
}

// A server that was ready once is configured well enough: it is retried as often as the
// policy allows.
func TestRepeatedExitAfterReadyIsRetried(t *testing.T) {
	l := NewLifecycle(Retry(5, time.Second), true, nil)
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
		require.Equal(t, StateBackoff, l.State())
	}
}

// A restart forgets the last exit: the user may have corrected its reason.
func TestRestartResetsRepeatedExit(t *testing.T) {
	l := starts(Retry(5, time.Second), exit(2, "x"))
	l.Step(time.Unix(9, 0), Input{Kind: InputRestart})
	l.Step(time.Unix(9, 0), Input{Kind: InputFailed, Epoch: l.Epoch(), Cause: exit(2, "x")})
	l.Step(time.Unix(9, 0), Input{Kind: InputReleased, Epoch: l.Epoch()})
	require.Equal(t, StateBackoff, l.State())
}

// The delay is the longer of the policy's and the server's Retry-After.
func TestRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: time.Second, time.Millisecond: time.Second, time.Minute: time.Minute} {
		l := starts(Retry(5, time.Second), &Cause{Kind: CauseSpawn, RetryAfter: asked})
		require.Equal(t, time.Unix(0, 0).Add(want), l.RetryAt(), "asked for %v", asked)
		l = starts(Retry(1, time.Second, WithParking(2*time.Second)), &Cause{Kind: CauseSpawn}, &Cause{Kind: CauseSpawn, RetryAfter: asked})
		require.Equal(t, StateParked, l.State())
		require.Equal(t, time.Unix(1, 0).Add(max(2*time.Second, asked)), l.RetryAt(), "asked for %v", asked)
	}
}
