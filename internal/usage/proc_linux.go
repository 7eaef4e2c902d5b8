package usage

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

const (
	// maxProcesses bounds a sample: on a system with more processes nothing is known.
	maxProcesses = 32 << 10
	// tick is the unit of the times in /proc/PID/stat: USER_HZ is 100 on all systems that Go runs on.
	tick = time.Second / 100
)

// readProcesses reads all processes that can be seen (proc_pid_stat(5)).
func readProcesses() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil || len(names) > maxProcesses {
		return nil
	}
	processes := make([]process, 0, len(names))
	pageSize := int64(os.Getpagesize())
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(pid, text, pageSize); ok {
			processes = append(processes, p)
		}
	}
	return processes
}

// parseStat reads the text of /proc/PID/stat. The name of the program is in parentheses, and may
// contain any character.
func parseStat(pid int, text []byte, pageSize int64) (process, bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const ppid, pgrp, utime, cstime, startTime, rss = 1, 2, 11, 14, 19, 21
	if len(fields) <= rss {
		return process{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64) // 0 for what is no number
		return n
	}
	p := process{pid: pid, parent: int(number(ppid)), group: int(number(pgrp)), start: uint64(number(startTime)), memory: number(rss) * pageSize}
	for i := utime; i <= cstime; i++ {
		p.cpu += time.Duration(number(i)) * tick
	}
	return p, true
}
