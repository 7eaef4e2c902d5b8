package supervisor

import "slices"

// lastExit recognises a server that cannot start as it is configured: a process that
// exits before the handshake, with the same status and the same lines on stderr as the
// time before. Wrong arguments, a missing key and a broken installation look like this.
//
// So may a database that is not up yet. Therefore it applies only to servers that were
// never ready, and only under a policy that would give up for good: a policy that
// parks, or has no limit, asks to wait.
type lastExit struct {
	code   int
	stderr []string
}

// repeatedBy remembers the end that c explains, and reports whether it is the same as
// the one before.
func (e *lastExit) repeatedBy(c *Cause) bool {
	if c.Kind != CauseExit || c.ExitCode == nil || len(c.Stderr) == 0 {
		*e = lastExit{}
		return false
	}
	same := e.code == *c.ExitCode && slices.Equal(e.stderr, c.Stderr)
	*e = lastExit{*c.ExitCode, slices.Clone(c.Stderr)}
	return same
}

// permanentExit is the cause of an exit that a retry would only repeat.
func (l *Lifecycle) permanentExit(c *Cause) *Cause {
	if l.policy.ParkEvery > 0 || l.policy.MaxAttempts == Unlimited {
		return c
	}
	d := c.Clone()
	d.Permanent = true
	d.Message += ", twice in a row with the same lines on stderr; correct its command, arguments or environment"
	return d
}
