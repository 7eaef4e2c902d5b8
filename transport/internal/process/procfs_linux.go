package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// procPath returns the path of a file about a process, below /proc.
func procPath(pid int, file string) string { return strconv.Itoa(pid) + "/" + file }

// procBufferSize is room for any file about a process but a large environment.
const procBufferSize = 16 << 10

// statBufferSize is room for /proc/PID/stat.
const statBufferSize = 2 << 10

// readProcFile reads a file below /proc, or as much of it as buf holds. It returns
// nil for a file that may not be read. The only error is a lack of descriptors.
func readProcFile(path string, buf []byte) ([]byte, error) {
	file, err := descriptors.open(func() (int, error) {
		return unix.Open("/proc/"+path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		if isOutOfDescriptors(err) {
			return nil, err
		}
		return nil, nil
	}
	defer descriptors.close(file)
	size := 0
	for size < len(buf) {
		n, err := unix.Read(file.fd, buf[size:])
		if n <= 0 || err != nil {
			break
		}
		size += n
		if n < pageSize { // the next read would return nothing
			break
		}
	}
	return buf[:size], nil
}

// pageSize is the least that one read of a file below /proc returns, unless the read
// reaches the end of the file.
const pageSize = 4096

// procStat is the part of /proc/PID/stat that is used here.
type procStat struct {
	exists bool
	name   string // of the program, at most 15 bytes
	dead   bool   // a zombie without threads: only its id is left
	parent int
	group  int
	start  string // start time in clock ticks since boot; identifies the process together with its id
	// exiting: the first thread is in exit. The streams of the process are closed after
	// that, and its status can be collected later still.
	exiting bool
}

// readStat reads /proc/PID/stat (proc_pid_stat(5)).
func readStat(pid int, buf []byte) (st procStat, err error) {
	text, err := readProcFile(procPath(pid, "stat"), buf)
	// The name is in parentheses and may contain any character.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if err != nil || open < 0 || end < open {
		return st, err
	}
	fields := bytes.Fields(text[end+1:])
	const state, ppid, pgrp, flags, threads, startTime = 0, 1, 2, 6, 17, 19
	if len(fields) <= startTime {
		return st, nil
	}
	st.name, st.exists = string(text[open+1:end]), true
	st.parent, _ = strconv.Atoi(string(fields[ppid]))
	st.group, _ = strconv.Atoi(string(fields[pgrp]))
	st.start = string(fields[startTime])
	const pfExiting = 0x4 // PF_EXITING, include/linux/sched.h
	bits, _ := strconv.ParseUint(string(fields[flags]), 10, 64)
	st.exiting = bits&pfExiting != 0
	// The first thread may be a zombie while other threads still run.
	st.dead = (fields[state][0] == 'Z' || fields[state][0] == 'X') && string(fields[threads]) <= "1"
	return st, nil
}

// isExiting reports whether a process is in exit, or a zombie.
func isExiting(pid int) bool {
	st, _ := readStat(pid, make([]byte, statBufferSize))
	return st.exists && st.exiting
}

// isDead reports whether nothing of a process is left but its id.
func isDead(pid int) bool {
	st, err := readStat(pid, make([]byte, statBufferSize))
	return err == nil && (!st.exists || st.dead)
}

// childrenOf lists the children of all threads of a process (proc_tid_children(5)).
// It returns none on kernels without that file (CONFIG_PROC_CHILDREN).
func childrenOf(pid int, buf []byte) (children []int) {
	threads, _ := os.ReadDir("/proc/" + procPath(pid, "task"))
	for _, thread := range threads {
		text, _ := readProcFile(procPath(pid, "task/"+thread.Name()+"/children"), buf)
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
