package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// A limit of the host spends neither attempts nor the intensity: the server is parked, and tried again soon,
// however often. NoRetry evicts.
func TestRetry_limit_of_the_host(t *testing.T) {
	host := &supervisor.Cause{Kind: supervisor.CauseSpawn, Host: true}
	policy := supervisor.Retry(2, time.Second, supervisor.WithIntensity(2, time.Hour))
	l := starts(policy, exit(2), host, host, host, host)
	require.Equal(t, supervisor.StateParked, l.State())
	require.Equal(t, 1, l.Attempt())
	now := l.RetryAt()
	l.Step(now, Input{Kind: InputTimer, Token: l.armed})
	l.Step(now, Input{Kind: InputFailed, Epoch: l.Epoch(), Cause: host})
	l.Step(now, Input{Kind: InputReleased, Epoch: l.Epoch()})
	require.Equal(t, now.Add(HostPause), l.RetryAt())
	require.Equal(t, supervisor.StateBackoff, starts(policy, exit(2), host, host, exit(2)).State())
	require.Equal(t, supervisor.StateEvicted, starts(supervisor.NoRetry(), host).State())
}

// It costs a standby no attempt, either.
func TestStandby_limit_of_the_host(t *testing.T) {
	epoch, now := uint64(1), time.Unix(0, 0)
	s := NewStandby(supervisor.Retry(1, time.Second), func() uint64 { epoch++; return epoch }, nil)
	for kind := InputServing; ; kind = InputReleased {
		armed := s.Step(now, Input{Kind: kind, Epoch: epoch})
		if epoch > 9 {
			require.Equal(t, HostPause, armed[0].Delay)
			return
		}
		require.Len(t, armed, 1, "it is started again")
		s.Step(now, Input{Kind: InputTimer, Token: armed[0].Token})
		s.Step(now, Input{Kind: InputFailed, Epoch: epoch, Cause: &supervisor.Cause{Kind: supervisor.CauseSpawn, Host: true}})
	}
}

// The window remembers a bounded number of ends, and gives the same result as counting
// them all.
func TestWindowIsBoundedAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		in := supervisor.Intensity{Restarts: rapid.IntRange(0, 4).Draw(t, "restarts"), Window: 10 * time.Second}
		now, all := time.Unix(1000, 0), []time.Time(nil)
		for range rapid.IntRange(1, 40).Draw(t, "ends") {
			now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "gap")) * time.Second)
			all = append(all, now)
			inside := 0
			for _, e := range all {
				if e.After(now.Add(-in.Window)) {
					inside++
				}
			}
			require.Equal(t, inside > in.Restarts, w.full(now, in), "full and exceeded agree")
			require.Equal(t, inside > in.Restarts, w.Exceeded(now, in))
			require.LessOrEqual(t, len(w.ends), in.Restarts+1)
		}
	})
}

// Transitions returns a copy of the lifecycle as data, in the order in which
// rows are tried.
func Transitions() []Transition {
	rows := slices.Clone(table)
	for i := range rows {
		rows[i].Do = slices.Clone(rows[i].Do)
	}
	return rows
}

// StandbyStates lists every state of a standby, in the order in which a life
// usually passes through them.
func StandbyStates() []StandbyState {
	return []StandbyState{StandbyIdle, StandbyWaiting, StandbyDraining, StandbyConnecting, StandbyDiscovering,
		StandbyReady, StandbyClosing, StandbyStopping, StandbyGivenUp}
}

// StandbyTransitions returns a copy of the standby's table as data, in the order
// in which rows are tried.
func StandbyTransitions() []StandbyTransition {
	rows := slices.Clone(standbyTable)
	for i := range rows {
		rows[i].Do = slices.Clone(rows[i].Do)
	}
	return rows
}
