// Package usage measures what servers use: processor time, memory, calls and failed calls.
//
// It has no goroutine. A [Recorder] takes a sample when a reader asks, at most one for each
// [Interval], and keeps the samples of the last minutes. Without readers it costs nothing and
// learns nothing.
//
// A sample reads /proc/PID/stat of every process of the system once, whatever the number of
// servers, because that file names both the parent and the process group: a process that has
// lost its parent still counts. Where there is no such /proc, processor time and memory are not
// known.
package usage

import (
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

const (
	// Interval is the least time between two samples.
	Interval = 5 * time.Second
	// Kept is how many samples of a server are kept: five minutes, if a reader asks all the time.
	Kept = 60
	// window is how long a sample is kept.
	window = Kept * Interval
	// shareOfTime bounds what sampling costs: the time between two samples is at least this many
	// times what the last one took, so that a machine with very many processes is read less often.
	shareOfTime = 50
)

// Target is what is known about a server when a sample is taken.
type Target struct {
	Name string
	Gen  uint64 // of its registration: counts of another one are not compared
	// PIDs are the process ids of its sessions; empty for a server that is no process.
	PIDs []int
	// Calls and Failed count since the registration.
	Calls, Failed int64
}

// Of returns the servers of a client, as a sample needs them.
func Of(all []mcpvisor.ServerStatus) []Target {
	servers := make([]Target, 0, len(all))
	for i := range all {
		s := Target{Name: all[i].Name, Gen: all[i].Gen, Calls: all[i].Calls.Total, Failed: all[i].Calls.Failed}
		for _, session := range []*mcpvisor.SessionInfo{all[i].Session, all[i].Standby} {
			if session != nil && session.PID > 0 {
				s.PIDs = append(s.PIDs, session.PID)
			}
		}
		s.PIDs = append(s.PIDs, slices.DeleteFunc(slices.Clone(all[i].Copies), func(pid int) bool { return pid == 0 })...)
		servers = append(servers, s)
	}
	return servers
}

// Sample is what a server used between the sample before and this one.
type Sample struct {
	// Seq numbers the samples of a recorder, from 1.
	Seq uint64
	At  time.Time
	// Known is whether the processes of the server could be read. CPU, Memory and Processes are
	// zero otherwise.
	Known bool
	// CPU is how many processors were busy on average: 1 is all the time of one. It is 0 in the
	// first sample.
	CPU float64
	// CPUTime is the processor time since the first sample of the registration, without gaps. It
	// begins again after a time in which no sample was taken.
	CPUTime time.Duration
	// Memory is the resident memory of all processes, in bytes. Pages that they share count for each.
	Memory int64
	// Processes counts the processes.
	Processes int
	// Calls and Failed count the calls since the sample before, Over is how long ago that was; all
	// are 0 in the first sample.
	Calls, Failed int64
	Over          time.Duration
}

// Recorder keeps the samples of the servers of one client. The zero value is ready. Safe for
// concurrent use.
type Recorder struct {
	mu      sync.Mutex
	seq     uint64             // of the last sample
	at      time.Time          // of the last sample
	next    time.Time          // when the next sample may be taken
	servers map[string]*series // by name
	read    func() []process   // reads all processes; nil means readProcesses
}

// series is what is known about one server.
type series struct {
	last    Target
	roots   map[root]time.Duration // the processor time of the last sample, by the process that was started
	samples []Sample               // oldest first
}

// root is a process that the client started.
type root struct {
	pid   int
	start uint64 // tells it from another process that gets its id
}

// process is one process of the system at one moment.
type process struct {
	pid, parent, group int
	start              uint64        // in clock ticks since the system started
	cpu                time.Duration // of the process and of the children that it has waited for
	memory             int64         // resident, in bytes
}

// Read takes a sample if it is time for one, and returns the samples of each server after the
// sample number after, oldest first, and the number of the last sample.
func (r *Recorder) Read(now time.Time, after uint64, list func() []Target) (samples map[string][]Sample, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.next) {
		began := time.Now()
		r.sampleLocked(now, list())
		r.next = now.Add(max(Interval, shareOfTime*time.Since(began)))
	}
	samples = make(map[string][]Sample, len(r.servers))
	for name, s := range r.servers {
		first := slices.IndexFunc(s.samples, func(one Sample) bool { return one.Seq > after })
		if first >= 0 {
			samples[name] = slices.Clone(s.samples[first:])
		}
	}
	return samples, r.seq
}

func (r *Recorder) sampleLocked(now time.Time, servers []Target) {
	var processes []process
	if slices.ContainsFunc(servers, func(s Target) bool { return len(s.PIDs) > 0 }) {
		if r.read == nil {
			r.read = readProcesses
		}
		processes = r.read()
	}
	over := now.Sub(r.at)
	fresh := r.seq == 0 || over > window
	r.seq, r.at = r.seq+1, now
	owned := ownedBy(servers, processes)
	before := r.servers
	r.servers = make(map[string]*series, len(servers))
	for i, server := range servers {
		s := before[server.Name]
		if s == nil || fresh || s.last.Gen != server.Gen {
			s = &series{}
		}
		sample := Sample{Seq: r.seq, At: now}
		if len(s.samples) > 0 {
			sample.Over = over
			sample.Calls, sample.Failed = max(server.Calls-s.last.Calls, 0), max(server.Failed-s.last.Failed, 0)
		}
		s.measure(&sample, owned[i])
		s.last = server
		s.samples = append(s.samples, sample)
		stale := max(slices.IndexFunc(s.samples, func(one Sample) bool { return now.Sub(one.At) < window }), len(s.samples)-Kept)
		s.samples = slices.Delete(s.samples, 0, stale)
		r.servers[server.Name] = s
	}
}

// measure adds up what the processes of a server use.
func (s *series) measure(sample *Sample, trees map[root][]process) {
	before := s.roots
	s.roots = make(map[root]time.Duration, len(trees))
	var used time.Duration
	for started, tree := range trees {
		sample.Known = true
		var cpu time.Duration
		for _, p := range tree {
			cpu += p.cpu
			sample.Memory += p.memory
		}
		sample.Processes += len(tree)
		s.roots[started] = cpu
		// A process that was not there before was started since then. What a process used that ended
		// without being waited for is lost: less than before counts as nothing.
		used += max(cpu-before[started], 0)
	}
	if len(s.samples) > 0 {
		sample.CPUTime = s.samples[len(s.samples)-1].CPUTime + used
	}
	if sample.Over > 0 {
		sample.CPU = used.Seconds() / sample.Over.Seconds()
	}
}

// ownedBy returns, for each server, the processes of each of its sessions: the one that was
// started, its descendants, and what else is in the process groups that they lead. A process
// belongs to the nearest server above it.
func ownedBy(servers []Target, processes []process) []map[root][]process {
	byPID := make(map[int]process, len(processes))
	for _, p := range processes {
		byPID[p.pid] = p
	}
	type owner struct {
		server int
		root   root
	}
	owners := make(map[int]*owner, len(processes)) // by process id; nil for those of no server
	owned := make([]map[root][]process, len(servers))
	for i, s := range servers {
		for _, pid := range s.PIDs {
			if p, alive := byPID[pid]; alive {
				owners[pid] = &owner{i, root{pid, p.start}}
			}
		}
	}
	var find func(pid, depth int) *owner
	find = func(pid, depth int) *owner {
		o, known := owners[pid]
		p, alive := byPID[pid]
		if known || !alive || depth > maxDepth {
			return o
		}
		owners[pid] = nil // of a circle, which a list read process by process may hold
		if o = find(p.parent, depth+1); o == nil && p.group != pid {
			o = find(p.group, depth+1)
		}
		owners[pid] = o
		return o
	}
	for _, p := range processes {
		o := find(p.pid, 0)
		if o == nil {
			continue
		}
		if owned[o.server] == nil {
			owned[o.server] = make(map[root][]process)
		}
		owned[o.server][o.root] = append(owned[o.server][o.root], p)
	}
	return owned
}

// maxDepth is how many generations of processes are followed.
const maxDepth = 100
