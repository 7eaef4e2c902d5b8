//go:build !linux

package transport

// Elsewhere a process that leaves its group is out of reach; see
// docs/rough-edges.md.
func newLineage() string { return "" }

func lineageEntry(string) string { return "" }

func markDescendants(int, string) {}

func endLineage(string) error { return nil }

// isExiting is not known here.
func isExiting(int) bool { return false }

// isDead is not known here before the exit is.
func isDead(int) bool { return false }
