package records_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/records"
)

// After a disk that was full has room again, what was added meanwhile is written without a further record. The limit of the
// length of files stands in for the disk; it is one of the process, so the test is not parallel.
func TestWriter_writes_again_after_a_full_disk(t *testing.T) {
	reports := make(chan string, 100)
	w, err := records.Open(filepath.Join(t.TempDir(), "r"), records.Options{Arguments: records.ArgumentsWhole, Report: func(problem string) { reports <- problem }})
	require.NoError(t, err)
	defer func() { _ = w.Close() }()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	unlimit := func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
	defer unlimit()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 8 << 10, Max: before.Max}))
	add := func(n int) {
		for range n {
			w.Call(monitor.EndedCall{CallRecord: monitor.CallRecord{Server: "s", Method: "tools/call", Target: "x"}, Arguments: json.RawMessage(`{"a":"` + strings.Repeat("a", 3000) + `"}`)})
		}
	}
	add(5)
	require.Eventually(t, func() bool { return w.Stats().Problem != "" }, 10*time.Second, time.Millisecond)
	add(20)
	began := time.Now() // by then the writer has tried again, and its anchor is due
	require.Eventually(t, func() bool { return time.Since(began) > 2*time.Second }, 10*time.Second, 100*time.Millisecond)
	unlimit()
	require.Eventually(t, func() bool { s := w.Stats(); return s.Written == 27 && s.Problem == "" }, 30*time.Second, time.Millisecond, "1 segment, 1 start, 25 calls")
	require.Contains(t, <-reports, "write the records", "once for all records")
	require.Empty(t, <-reports)
	require.Empty(t, reports)
}
