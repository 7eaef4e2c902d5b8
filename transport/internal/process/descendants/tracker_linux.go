package descendants

import (
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Tracker follows one server and what that starts, from [Start] until [Tracker.Reap].
//
// One goroutine calls AwaitGroup, Kill and Reap, in this order. The other methods are safe
// for concurrent use.
type Tracker struct {
	// Constant.
	pid   int       // of the server and of its process group
	tag   string    // empty: what leaves the group may stay
	since *procList // the processes that existed before the server, which are no descendants

	// noneLeft belongs to the goroutine of AwaitGroup: its search, which began after the
	// exit, has found no descendant. So no other one can appear.
	noneLeft bool

	mu       sync.Mutex  // guards the fields below
	retag    *time.Timer // calls TagAgain; nil without a tag
	retagged bool        // TagAgain has tagged
	dead     bool        // the server is dead: soon its id may belong to another process
}

// retagDelay is the time from the start of a server until its descendants are tagged again. A
// fork that began before the server had its tag takes less.
const retagDelay = 100 * time.Millisecond

// Start starts a command as the leader of a process group of its own. Its Env must not be
// nil. With keepDaemons the command gets no tag, and what leaves the group may stay. Start is
// called on the thread that is to be the parent of the server.
func Start(cmd *exec.Cmd, keepDaemons bool) (*Tracker, error) {
	t := &Tracker{since: table.listForStart()}
	if !keepDaemons {
		t.tag = newTag()
		cmd.Env = append(cmd.Env, tagEntry(t.tag))
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.pid = cmd.Process.Pid
	table.addServer(t.pid)
	tagServer(t.pid, t.tag)
	descriptors.addUser()
	hostWatchdog.add(t.pid)
	if t.tag != "" {
		t.mu.Lock()
		t.retag = time.AfterFunc(retagDelay, t.TagAgain)
		t.mu.Unlock()
	}
	return t, nil
}

// TagAgain tags what the server forked before it had its tag, once. A timer calls it
// [retagDelay] after the start. Before a server is ended, it is called because the end may come
// sooner.
func (t *Tracker) TagAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.retagged && !t.dead {
		t.retagged = true
		tagServer(t.pid, t.tag)
	}
}

// stopTagging is called when the server is dead.
func (t *Tracker) stopTagging() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = true
	if t.retag != nil {
		t.retag.Stop()
	}
}

// Exiting reports whether the server has begun to exit, or has exited.
func (t *Tracker) Exiting() bool {
	st, _ := readStat(t.pid, make([]byte, statBufferSize))
	return st.Exists() && st.Exiting
}

// Dead reports whether nothing is left of the server but its process id.
func (t *Tracker) Dead() bool {
	st, err := readStat(t.pid, make([]byte, statBufferSize))
	return err == nil && (!st.Exists() || st.Dead)
}

// Kill kills every process with the tag of the server, which is dead, and waits until they
// have ended, for each at most grace. The error names those that are left.
func (t *Tracker) Kill(grace time.Duration) error {
	t.stopTagging()
	if t.tag == "" || t.noneLeft {
		return nil
	}
	return killTagged(t.tag, t.since, grace)
}

// Reap calls wait, which collects the exit status of the server. From then on another
// process may get its id: before that, the watchdog forgets the group, and searches no
// longer skip the id.
func (t *Tracker) Reap(wait func()) {
	t.stopTagging()
	hostWatchdog.remove(t.pid)
	table.beforeReap(t.pid)
	wait()
	table.afterReap(t.pid)
	descriptors.removeUser()
}

// Keep makes what all servers share outlive the last of them, until [Unkeep].
func Keep() {
	hostWatchdog.keep()
	descriptors.addUser()
}

// Unkeep ends one [Keep].
func Unkeep() {
	hostWatchdog.unkeep()
	descriptors.removeUser()
}

// groupPollInterval is the time between two looks at the members of a group.
const groupPollInterval = 10 * time.Millisecond

// AwaitGroup waits until the group holds no living process, or until stop is closed. The
// server, its leader, has exited and is a zombie. Linux does not report the end of a group.
// So AwaitGroup searches for the members once, and looks at these until all have ended. Then
// it searches again: they may have started others.
func (t *Tracker) AwaitGroup(stop <-chan struct{}) {
	for {
		members, complete := t.membersUntil(stop)
		if len(members) == 0 {
			t.noneLeft = complete
			return
		}
		if !t.awaitEnds(members, stop) {
			return
		}
	}
}

// awaitEnds waits until none of some processes is in the group. It returns false if stop is
// closed before that.
func (t *Tracker) awaitEnds(pids []int, stop <-chan struct{}) bool {
	tick := time.NewTicker(groupPollInterval)
	defer tick.Stop()
	for len(pids) > 0 {
		select {
		case <-stop:
			return false
		case <-tick.C:
		}
		pids = t.livingMembers(pids)
	}
	return true
}

// membersUntil is members, but returns nothing as soon as stop is closed. The search then
// continues in the background, because other servers may share it.
func (t *Tracker) membersUntil(stop <-chan struct{}) (pids []int, complete bool) {
	searched := make(chan struct{})
	var found []int
	var all bool
	go func() {
		defer close(searched)
		found, all = t.members()
	}()
	select {
	case <-searched:
		return found, all
	case <-stop:
		return nil, false
	}
}

// members returns the living processes of the group. A server with a tag uses the shared
// search; for another one every process that has come since its start is read. complete
// means that nothing else is left: the search has found no process with the tag.
func (t *Tracker) members() (pids []int, complete bool) {
	if t.tag != "" {
		found, err := table.search(t.since)
		if err != nil {
			return nil, false
		}
		pids = slices.Clone(found[t.tag])
		complete = len(pids) == 0
	} else {
		list, err := descriptors.listProcesses()
		if err != nil {
			return nil, false
		}
		for _, proc := range list.procs {
			if !t.since.has(proc) {
				pids = append(pids, proc.pid())
			}
		}
	}
	return t.livingMembers(pids), complete
}

// livingMembers keeps those of pids that live and belong to the group.
func (t *Tracker) livingMembers(pids []int) []int {
	if len(pids) == 0 {
		return nil
	}
	buf := make([]byte, statBufferSize)
	return slices.DeleteFunc(pids, func(pid int) bool {
		st, err := readStat(pid, buf)
		return err != nil || !st.Exists() || st.Dead || st.Group != t.pid
	})
}
