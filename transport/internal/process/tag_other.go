//go:build !linux

package process

// Other systems have no process tags: a process that leaves its group is out of
// reach there. docs/rough-edges.md says so to users.

func newTag() string { return "" }

func tagEntry(string) string { return "" }

func tagDescendants(int, string) {}

func (*processGroup) killDescendants(string) error { return nil }

func keepShared() {} // servers share nothing here

func releaseShared() {}

// isExiting returns false: other systems do not show it.
func isExiting(int) bool { return false }

// isDead returns false: other systems do not show it before the exit status is known.
func isDead(int) bool { return false }
