package process

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// readTag returns the process tag of a process; empty if it has none, or one of
// another host. It waits for a process that is in the middle of exec. Reading an
// environment can hang for as long as the process holds its memory lock. The only
// error is a lack of descriptors.
func readTag(pid int, buf []byte) (tag string, err error) {
	tag, state, err := readTagOnce(pid, buf)
	for deadline := time.Now().Add(maxExecWait); !state.isFinal() && err == nil && time.Now().Before(deadline); {
		before := state
		time.Sleep(execPollInterval)
		if tag, state, err = readTagOnce(pid, buf); before == envArgsOnly {
			break
		}
	}
	return tag, err
}

// envState says what a process shows of its environment.
//
// The environment and the arguments of a process are read from its memory. Within
// exec, between the old program image and the new one, both are empty. A process
// with arguments and without an environment either was started with an empty one or
// has just received both; a second reading tells.
type envState int

const (
	envFinal    envState = iota // it was read; or the process is dead or not readable
	envArgsOnly                 // arguments, and no environment
	envHidden                   // neither
)

// isFinal reports whether another reading would have the same result.
func (s envState) isFinal() bool { return s == envFinal }

// readTagOnce is readTag without waiting for exec.
func readTagOnce(pid int, buf []byte) (tag string, state envState, err error) {
	if tag, err = limitTag(pid, buf); tag != "" || err != nil {
		return tag, envFinal, err
	}
	return environTag(pid, buf)
}

// limitTag returns the tag in the limits of a process (proc_pid_limits(5)). A zombie
// still has it.
func limitTag(pid int, buf []byte) (string, error) {
	text, err := readProcFile(procPath(pid, "limits"), buf)
	if err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(text, []byte(limitTagPrefix))
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	if n, err := strconv.ParseUint(string(digits[:min(len(digits), 20)]), 10, 64); err == nil && n < limitTagServers {
		return tagOf(n), nil
	}
	return "", nil
}

// maxEnviron is longer than any environment.
const maxEnviron = 64 << 20

// environTag returns the tag in the environment of a process (proc_pid_environ(5)).
func environTag(pid int, buf []byte) (string, envState, error) {
	whole, err := readProcFile(procPath(pid, "environ"), buf)
	if err != nil {
		return "", envFinal, err
	}
	if whole != nil && len(whole) == 0 && hasMemory(pid, buf) {
		args, err := readProcFile(procPath(pid, "cmdline"), buf)
		if len(args) > 0 {
			return "", envArgsOnly, err
		}
		return "", envHidden, err
	}
	for len(whole) == len(buf) && len(buf) < maxEnviron { // a large one, which is rare
		buf = make([]byte, 4*len(buf))
		if whole, err = readProcFile(procPath(pid, "environ"), buf); err != nil {
			return "", envFinal, err
		}
	}
	_, rest, ok := bytes.Cut(whole, []byte(tagVar+"="+hostTag))
	if !ok {
		return "", envFinal, nil
	}
	number, _, _ := strings.Cut(string(rest[:min(len(rest), 32)]), "\x00")
	return hostTag + number, envFinal, nil
}

const (
	// maxExecWait is how long a reading waits for a process in the middle of exec.
	maxExecWait = 250 * time.Millisecond
	// execPollInterval is the time between two readings of it.
	execPollInterval = 200 * time.Microsecond
)

// hasMemory reports whether a process has a memory of its own: zombies and kernel
// threads have none (proc_pid_statm(5)).
func hasMemory(pid int, buf []byte) bool {
	pages, _ := readProcFile(procPath(pid, "statm"), buf)
	return len(pages) > 0 && pages[0] != '0'
}
