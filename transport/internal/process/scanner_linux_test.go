package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A search skips the servers that live. After a server is reaped its id may be that of
// a descendant, so later searches read that id.
func TestScan_skips_living_servers(t *testing.T) {
	c := startShell(t, "echo ready; cat")
	pid := c.PID()
	require.True(t, procTable.isServer(pid))
	require.NotEmpty(t, mustReadTag(t, pid), "the server has no tag")
	found, err := procTable.scan(nil)
	require.NoError(t, err)
	for _, pids := range found {
		require.NotContains(t, pids, pid)
	}
	c.Terminate(time.Second)
	require.NoError(t, c.Release())
	require.False(t, procTable.isServer(pid))
	require.False(t, procTable.isUnreaped(pid))
}

// searches returns how many searches there were.
func searches() int {
	procTable.scanning.Lock()
	defer procTable.scanning.Unlock()
	return procTable.scans
}

// An orderly end takes one search: the wait for the group and the search for descendants
// share it. A search allocates little, as it is done for each end.
func TestScan_once_for_an_orderly_end(t *testing.T) {
	for name, keep := range map[string]bool{"with_tag": false, "without_tag": true} {
		t.Run(name, func(t *testing.T) {
			c, cause := Start(&mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", "cat"}, KeepDaemons: keep}, Options{})
			require.Nil(t, cause)
			before := searches()
			c.Terminate(time.Minute)
			require.NoError(t, c.Release())
			if keep {
				require.Equal(t, before, searches())
			} else {
				require.Equal(t, before+1, searches())
			}
		})
	}
}

// A search that every server waits for begins at once, whatever the rest after the one
// before it: also when the last server that does not wait is reaped.
func TestScan_that_all_servers_wait_for(t *testing.T) {
	const noPID = 1 << 30 // no process has it
	for name, others := range map[string]int{"all_wait": 0, "the_others_are_reaped": 2} {
		t.Run(name, func(t *testing.T) {
			s := &procScanner{rest: time.Now().Add(time.Hour)}
			for i := range 3 + others {
				s.addServer(noPID + i)
			}
			done := make(chan error, 3)
			for range 3 {
				go func() {
					_, err := s.scan(nil)
					done <- err
				}()
			}
			if others > 0 {
				require.Eventually(t, func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.next != nil && s.next.callers == 3
				}, waitLimit, checkInterval)
			}
			for i := range others {
				s.afterReap(noPID + i)
			}
			for range 3 {
				select {
				case err := <-done:
					require.NoError(t, err)
				case <-time.After(waitLimit):
					require.Fail(t, "the search waits for servers that cannot come")
				}
			}
			require.Equal(t, 1, s.scans)
		})
	}
}

// BenchmarkScan is one search of the process table of this machine.
func BenchmarkScan(b *testing.B) {
	for b.Loop() {
		if _, err := new(procScanner).scanOnce(nil); err != nil {
			b.Fatal(err)
		}
	}
}
