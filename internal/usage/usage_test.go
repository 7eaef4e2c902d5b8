package usage

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestRecorder_counts_descendants_and_groups(t *testing.T) {
	r := &Recorder{read: func() []process {
		return []process{
			{pid: 1, cpu: time.Hour, memory: 1 << 40},
			{pid: 10, parent: 1, group: 10, start: 5, cpu: time.Second, memory: 100},
			{pid: 11, parent: 10, group: 11, cpu: time.Second, memory: 20},
			{pid: 12, parent: 1, group: 10, cpu: time.Second, memory: 3}, // lost its parent
			{pid: 20, parent: 10, group: 20, start: 6, memory: 1000},     // a server that another one started
			{pid: 30, parent: 31, group: 31}, {pid: 31, parent: 30, group: 30},
		}
	}}
	samples, seq := r.Read(start, 0, func() []Target {
		return []Target{{Name: "a", PIDs: []int{10}}, {Name: "b", PIDs: []int{20}}, {Name: "gone", PIDs: []int{99}}, {Name: "http"}}
	})
	require.EqualValues(t, 1, seq)
	require.Equal(t, map[string][]Sample{
		"a":    {{Seq: 1, At: start, Known: true, Memory: 123, Processes: 3}},
		"b":    {{Seq: 1, At: start, Known: true, Memory: 1000, Processes: 1}},
		"gone": {{Seq: 1, At: start}},
		"http": {{Seq: 1, At: start}},
	}, samples)
}

func TestRecorder_measures_what_happened_since_the_sample_before(t *testing.T) {
	processes := []process{{pid: 10, start: 5, cpu: 3 * time.Second}}
	server := Target{Name: "a", Gen: 1, PIDs: []int{10}, Calls: 100, Failed: 7}
	r := &Recorder{read: func() []process { return processes }}
	read := func(at time.Duration) Sample {
		t.Helper()
		samples, seq := r.Read(start.Add(at), 0, func() []Target { return []Target{server} })
		last := samples["a"][len(samples["a"])-1]
		require.Equal(t, seq, last.Seq)
		return last
	}
	first := read(0)
	require.Zero(t, first.CPU, "nothing to compare with")
	require.Zero(t, first.Calls)

	processes[0].cpu += 5 * time.Second
	server.Calls, server.Failed = 130, 10
	last := read(10 * time.Second)
	require.InDelta(t, 0.5, last.CPU, 1e-9)
	require.EqualValues(t, 30, last.Calls)
	require.EqualValues(t, 3, last.Failed)
	require.Equal(t, 10*time.Second, last.Over)

	// The server was started again, and its process has the same id.
	processes[0] = process{pid: 10, start: 9, cpu: time.Second}
	require.InDelta(t, 0.1, read(20*time.Second).CPU, 1e-9)
	// Less than before is no negative time.
	processes[0].cpu = 0
	require.Zero(t, read(30*time.Second).CPU)
	// Another registration of the name begins again.
	server.Gen, server.Calls = 2, 1000
	require.Zero(t, read(40*time.Second).Calls)
}

func TestRecorder_bounds(t *testing.T) {
	reads := 0
	r := &Recorder{read: func() []process { reads++; return nil }}
	list := func() []Target { return []Target{{Name: "a", PIDs: []int{10}}} }
	for range 100 { // many readers share a sample
		r.Read(start, 0, list)
	}
	require.Equal(t, 1, reads)
	at := start
	for range Kept + 10 {
		at = at.Add(time.Minute / 2)
		r.Read(at, 0, list)
	}
	samples, seq := r.Read(at, 0, list)
	require.Len(t, samples["a"], int(window/(time.Minute/2)), "only the last minutes are kept")
	require.EqualValues(t, Kept+11, seq)
	newer, _ := r.Read(at, seq-2, list)
	require.Len(t, newer["a"], 2)
	nothing, _ := r.Read(at, seq, list)
	require.Empty(t, nothing)
	r.Read(at.Add(2*window), 0, func() []Target { return nil })
	require.Empty(t, r.servers, "a server that is gone is forgotten")
	// After a long pause the difference to the sample before it says little.
	r.Read(at.Add(3*window), 0, list)
	samples, _ = r.Read(at.Add(5*window), 0, list)
	require.Len(t, samples["a"], 1)
	require.Zero(t, samples["a"][0].Over)
}

func TestRecorder_reads_real_processes(t *testing.T) {
	if runtime.GOOS != "linux" {
		samples, _ := new(Recorder).Read(start, 0, func() []Target { return []Target{{Name: "a", PIDs: []int{os.Getpid()}}} })
		require.False(t, samples["a"][0].Known)
		return
	}
	child := exec.Command("cat")
	input, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	samples, _ := new(Recorder).Read(start, 0, func() []Target { return []Target{{Name: "a", PIDs: []int{os.Getpid()}}} })
	require.NoError(t, input.Close())
	require.NoError(t, child.Wait())
	require.True(t, samples["a"][0].Known)
	require.GreaterOrEqual(t, samples["a"][0].Processes, 2)
	require.Greater(t, samples["a"][0].Memory, int64(1<<20))
}
