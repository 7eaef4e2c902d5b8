package monitor

// ServerStderr holds what the latest incarnation of a server wrote to its stderr. Blank
// lines are left out, and secrets are replaced by ***.
type ServerStderr struct {
	// Epoch numbers the incarnation; 0 if none was started. PID is its process id; 0 if the
	// server is not a process.
	Epoch uint64 `json:"epoch"`
	PID   int    `json:"pid,omitempty"`
	// Ended: the incarnation has ended, and writes no more.
	Ended bool `json:"ended,omitempty"`
	// Total counts the lines that the incarnation has written.
	Total int64 `json:"total"`
	// First holds the first lines if lines after them were dropped. Otherwise it is empty, and
	// Lines holds every line. First and Lines together hold at most Limits.MaxStderrLines.
	First []string `json:"first,omitempty"`
	// Lines are the last lines, oldest first and without a gap; the last one has the number
	// Total. A line is listed once its line break was read or the incarnation has ended.
	Lines []string `json:"lines,omitempty"`
}

// After returns the lines that follow line number seen, and how many of those were
// dropped. A follower prints them and passes Total the next time. It begins with 0, and
// again with 0 when Epoch changes.
func (s ServerStderr) After(seen int64) (lines []string, dropped int64) {
	fresh := max(s.Total-max(seen, 0), 0)
	dropped = max(fresh-int64(len(s.Lines)), 0)
	return s.Lines[int64(len(s.Lines))-(fresh-dropped):], dropped
}
