package transport

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// procPath is the path of a file about a process, below /proc.
func procPath(pid int, file string) string { return strconv.Itoa(pid) + "/" + file }

// procBuffer is room for any file about a process but a large environment.
const procBuffer = 64 << 10

// readAtOnce reads a file below /proc, or as much of it as there is room for. nil
// is of one that may not be read; err is only of a want of descriptors.
func readAtOnce(path string, buf []byte) ([]byte, error) {
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
		if n < pageSize { // the rest would be empty
			break
		}
	}
	return buf[:size], nil
}

// pageSize is the least that one read tells of a file that has more.
const pageSize = 4096

// procStat is what is wanted of /proc/PID/stat.
type procStat struct {
	exists bool
	name   string // of the program, at most 15 bytes
	dead   bool   // a zombie: only its number is left
	parent int
	group  int
	start  string // when it was started; with the number, that names it
	// exiting: its first thread is in exit. The streams of a process end after that,
	// and its exit can be waited for later still.
	exiting bool
}

// statOf reads /proc/PID/stat (proc_pid_stat(5)).
func statOf(pid int, buf []byte) (st procStat, err error) {
	text, err := readAtOnce(procPath(pid, "stat"), buf)
	// The name stands in brackets and may hold anything.
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
	const inExit = 0x4 // PF_EXITING of the kernel
	bits, _ := strconv.ParseUint(string(fields[flags]), 10, 64)
	st.exiting = bits&inExit != 0
	// The first thread may end before the others do.
	st.dead = (fields[state][0] == 'Z' || fields[state][0] == 'X') && string(fields[threads]) <= "1"
	return st, nil
}

// isExiting reports whether a process is in exit, or a zombie.
func isExiting(pid int) bool {
	st, _ := statOf(pid, make([]byte, procBuffer))
	return st.exists && st.exiting
}

// isDead reports whether nothing of a process is left but its number.
func isDead(pid int) bool {
	st, err := statOf(pid, make([]byte, procBuffer))
	return err == nil && (!st.exists || st.dead)
}

// childrenOf lists the children of a process, those of all its threads
// (proc_pid_children(5)). Kernels without that file have none to tell of.
func childrenOf(pid int, buf []byte) (children []int) {
	threads, _ := os.ReadDir("/proc/" + procPath(pid, "task"))
	for _, thread := range threads {
		text, _ := readAtOnce(procPath(pid, "task/"+thread.Name()+"/children"), buf)
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
