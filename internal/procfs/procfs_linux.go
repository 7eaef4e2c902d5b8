package procfs

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Stat is the part of /proc/PID/stat that this module uses (proc_pid_stat(5)).
type Stat struct {
	Name   string // of the program, at most 15 bytes
	Dead   bool   // a zombie without threads: only its id is left
	Parent int
	Group  int
	Start  string // start time in clock ticks since boot
	// Exiting: the first thread is in exit. The streams of the process are closed after
	// that, and its status can be collected later still.
	Exiting bool
	CPU     time.Duration // of the process and of the children that it has waited for
	Memory  int64         // resident, in bytes
}

// tick is the unit of the times in a stat: USER_HZ is 100 on all systems that Go runs on.
const tick = time.Second / 100

// Exists reports whether there is such a process. Without one, all fields are zero.
func (s Stat) Exists() bool { return s.Start != "" }

// ParseStat reads the text of /proc/PID/stat.
func ParseStat(text []byte) Stat {
	// The name is in parentheses and may contain any character.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Stat{}
	}
	fields := bytes.Fields(text[end+1:])
	const state, ppid, pgrp, flags, utime, cstime, threads, startTime, rss = 0, 1, 2, 6, 11, 14, 17, 19, 21
	if len(fields) <= rss {
		return Stat{}
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64) // 0 for what is no number
		return n
	}
	const pfExiting = 0x4 // PF_EXITING, include/linux/sched.h
	st := Stat{
		Name: string(text[open+1 : end]), Parent: int(number(ppid)), Group: int(number(pgrp)), Start: string(fields[startTime]),
		Exiting: number(flags)&pfExiting != 0,
		Memory:  number(rss) * int64(os.Getpagesize()),
		// The first thread may be a zombie while other threads still run.
		Dead: (fields[state][0] == 'Z' || fields[state][0] == 'X') && number(threads) <= 1,
	}
	for i := utime; i <= cstime; i++ {
		st.CPU += time.Duration(number(i)) * tick
	}
	return st
}

// Path returns the path of a file about a process.
func Path(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// ReadStat reads the stat of a process.
func ReadStat(pid int) Stat {
	text, _ := os.ReadFile(Path(pid, "stat")) // without text the process does not exist
	return ParseStat(text)
}

// PIDs returns the ids of all processes.
func PIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Children returns the children of all threads of a process, which readFile reads (proc_tid_children(5)). It
// reports false for a process that has ended, and on kernels without that file (CONFIG_PROC_CHILDREN).
func Children(pid int, readFile func(path string) ([]byte, error)) (children []int, ok bool) {
	threads, _ := os.ReadDir(Path(pid, "task"))
	for _, thread := range threads {
		text, err := readFile(Path(pid, "task/"+thread.Name()+"/children"))
		ok = ok || err == nil
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children, ok
}

// HasEntry reports whether the environment of a process has an entry, as "NAME=value". It is false for a
// process of another user, and for a zombie, which no longer has an environment.
func HasEntry(pid int, entry string) bool {
	environment, err := os.ReadFile(Path(pid, "environ"))
	return err == nil && bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+entry+"\x00"))
}
