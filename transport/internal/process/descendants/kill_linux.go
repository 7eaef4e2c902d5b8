package descendants

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxKillRounds is how often killTagged searches. A process that is forked between two
// searches is found by the second one. A fork bomb can outlast all searches.
const maxKillRounds = 8

// killTagged kills every process with a tag that is not in the list since, and waits until
// they have ended, for each at most grace. The server itself is dead, so only its
// descendants can fork. The error is survivors, or says that the process table could not be
// read.
func killTagged(tag string, since *procList, grace time.Duration) error {
	var left survivors
	for range maxKillRounds {
		found, err := searchWithRetry(since)
		if err != nil {
			return fmt.Errorf("the process table cannot be read, so what the server has started may be left: %w", err)
		}
		pids := found[tag]
		left = survivors{}
		for _, pid := range pids {
			if err := killTaggedProcess(pid, tag, grace); err != nil {
				left[pid] = err
			}
		}
		if len(pids) == len(left) && !isOutOfDescriptors(left) { // none was found, or none that can be killed
			break
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// searchWithRetry tries a few times if this process has no free descriptor.
func searchWithRetry(since *procList) (found map[string][]int, err error) {
	for try := range 10 {
		if found, err = table.search(since); !isOutOfDescriptors(err) {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	return found, err
}

// survivors is an error: the processes that could not be killed, and why.
type survivors map[int]error

// Error names the first eight processes.
func (s survivors) Error() string {
	const most = 8
	var names []string
	buf := make([]byte, statBufferSize)
	for _, pid := range slices.Sorted(maps.Keys(s)) {
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d more", len(s)-most))
			break
		}
		st, _ := readStat(pid, buf)
		names = append(names, fmt.Sprintf("process %d (%s): %v", pid, st.Name, s[pid]))
	}
	return strings.Join(names, "; ")
}

// Unwrap returns the reason for each process.
func (s survivors) Unwrap() []error { return slices.Collect(maps.Values(s)) }

var errStillAlive = errors.New("still running after SIGKILL")

// killTaggedProcess kills a process with a tag and waits for its end. The id may have been
// reused since the search: so the tag is read again while a pidfd refers to the process,
// and the signal is sent through that pidfd (pidfd_send_signal(2)).
func killTaggedProcess(pid int, tag string, grace time.Duration) error {
	pidfd, err := descriptors.open(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	if err != nil {
		if isOutOfDescriptors(err) {
			return err
		}
		return nil // the process has ended
	}
	defer descriptors.close(pidfd)
	switch current, err := readTag(pid); {
	case err != nil:
		return err
	case current != tag:
		return nil
	}
	switch err := unix.PidfdSendSignal(pidfd.fd, unix.SIGKILL, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return err
	}
	if !awaitExit(pidfd.fd, grace) {
		return errStillAlive
	}
	reapPidfd(pidfd.fd)
	return nil
}

// awaitExit waits until the process of a pidfd has exited, which makes the pidfd readable
// (pidfd_open(2)).
func awaitExit(fd int, timeout time.Duration) bool {
	for wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(wait, int(timeout.Milliseconds())); err != unix.EINTR {
			return n > 0
		}
	}
}

// reapAdopted reaps a dead descendant that has become a child of this process: orphans are
// given to process 1 or to a subreaper (PR_SET_CHILD_SUBREAPER(2const)), and this process
// may be either. No other code waits for it. A process without a tag of this host is never
// waited for.
func reapAdopted(pid int) {
	if table.isUnreaped(pid) {
		return
	}
	pidfd, err := descriptors.open(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	if err != nil {
		return
	}
	defer descriptors.close(pidfd)
	if tag, _ := limitTag(pid, make([]byte, procBufferSize)); tag != "" {
		reapPidfd(pidfd.fd)
	}
}

// reapPidfd collects the exit status of the process of a pidfd, if that is a child of this
// process (waitid(2), P_PIDFD).
func reapPidfd(fd int) {
	for unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil) == unix.EINTR {
	}
}
