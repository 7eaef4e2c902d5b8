package supervisor

import "slices"

// lastWords recognises a server that cannot start as it is configured: a
// process that ends before the handshake, with the same exit status and the
// same words on stderr as the time before. Wrong arguments, a missing key and a
// broken installation look like this; so may a database that is not up yet, so
// it is asked of servers only that were never ready, and only where the policy
// would give up for good: who tries without limit, or parks, wants to wait.
type lastWords struct {
	code   int
	stderr []string
}

// repeated remembers the end that c tells of, and reports whether it is the
// same as the one before.
func (w *lastWords) repeated(c *Cause) bool {
	if c.Kind != CauseExit || c.ExitCode == nil || len(c.Stderr) == 0 {
		*w = lastWords{}
		return false
	}
	same := w.code == *c.ExitCode && slices.Equal(w.stderr, c.Stderr)
	*w = lastWords{*c.ExitCode, slices.Clone(c.Stderr)}
	return same
}

// inVain is the cause of an end that trying again will only repeat.
func (l *Lifecycle) inVain(c *Cause) *Cause {
	if l.policy.ParkEvery > 0 || l.policy.MaxAttempts == Unlimited {
		return c
	}
	d := c.Clone()
	d.Permanent = true
	d.Message += ", for the second time with the same words on stderr; correct its command, arguments or environment"
	return d
}
