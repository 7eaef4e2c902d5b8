package transport

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endLineage kills every process of a lineage and waits until they have ended.
// The server itself is dead, so only what it left behind can fork. The error says
// what is left.
func endLineage(lineage string) error {
	var left leftProcesses
	for range endRounds {
		found, err := takeCensus()
		if err != nil {
			return fmt.Errorf("the process table cannot be read, so what the server has started may be left: %w", err)
		}
		pids := found[lineage]
		left = leftProcesses{}
		for _, pid := range pids {
			if err := killDescendant(pid, lineage); err != nil {
				left[pid] = err
			}
		}
		if len(pids) == len(left) && !isOutOfDescriptors(left) { // there is none, or none that can be killed
			break
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// takeCensus looks a few times if there is no descriptor to be had, even in the place
// of spare ones.
func takeCensus() (found map[string][]int, err error) {
	for try := range 10 {
		if found, err = census.take(); !isOutOfDescriptors(err) {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	return found, err
}

// endRounds is how often descendants are looked for. What forks in between is
// found in the next round; a fork bomb is not for us to win.
const endRounds = 8

// leftProcesses are those that could not be ended, and why.
type leftProcesses map[int]error

// Error names the first of them.
func (l leftProcesses) Error() string {
	const most = 8
	var names []string
	buf := make([]byte, procBuffer)
	for _, pid := range slices.Sorted(maps.Keys(l)) {
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d more", len(l)-most))
			break
		}
		st, _ := statOf(pid, buf)
		names = append(names, fmt.Sprintf("process %d (%s): %v", pid, st.name, l[pid]))
	}
	return strings.Join(names, "; ")
}

// Unwrap returns why each is left.
func (l leftProcesses) Unwrap() []error { return slices.Collect(maps.Values(l)) }

var errStillAlive = errors.New("it is still running after SIGKILL")

// killDescendant kills a process and waits for its end, unless its number has been
// given to another meanwhile: the mark is read again while a pidfd holds the number.
func killDescendant(pid int, lineage string) error {
	held, err := descriptors.open(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	if err != nil {
		if isOutOfDescriptors(err) {
			return err
		}
		return nil // it is gone
	}
	defer descriptors.close(held)
	switch now, err := lineageInTime(pid); {
	case err != nil:
		return err
	case now != lineage:
		return nil
	}
	switch err := unix.PidfdSendSignal(held.fd, unix.SIGKILL, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return err
	}
	if !awaitEnd(held.fd, killGrace) {
		return errStillAlive
	}
	reapHeld(held.fd)
	return nil
}

// lineageInTime is lineageOf, for as long as one process may hold up an end.
func lineageInTime(pid int) (string, error) {
	type answer struct {
		lineage string
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		lineage, err := lineageOf(pid, make([]byte, procBuffer))
		answers <- answer{lineage, err}
	}()
	t := time.NewTimer(stuckRead)
	defer t.Stop()
	select {
	case a := <-answers:
		return a.lineage, a.err
	case <-t.C:
		return "", fmt.Errorf("its environment could not be read within %v", stuckRead)
	}
}

// awaitEnd waits for the end of the process that a pidfd holds.
func awaitEnd(fd int, most time.Duration) bool {
	for wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(wait, int(most.Milliseconds())); err != unix.EINTR {
			return n > 0
		}
	}
}

// reapOrphan collects the exit status of a dead descendant that has become our
// child. That is so where this process is process 1, or a subreaper: no other waits
// for it. What carries no mark of ours is never waited for.
func reapOrphan(pid int, buf []byte) {
	if census.isAwaited(pid) {
		return
	}
	held, err := descriptors.open(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	if err != nil {
		return
	}
	defer descriptors.close(held)
	if lineage, _ := limitMark(pid, buf); lineage != "" {
		reapHeld(held.fd)
	}
}

// reapHeld collects the exit status of the process that a pidfd holds, if it is a
// child of ours.
func reapHeld(fd int) {
	for unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil) == unix.EINTR {
	}
}
