package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Counter counts the starts, side effects and processes of one server. Counts in a
// directory are shared by all its incarnations, processes included. Other counts are
// shared by those that use this value. Safe for concurrent use.
type Counter struct {
	dir string

	// mu guards the counts in memory, and orders the writes of this process.
	mu         sync.Mutex
	starts     int
	executions map[string]int
}

// New counts in dir, an existing directory; in memory if dir is empty.
func New(dir string) *Counter {
	return &Counter{dir: dir, executions: map[string]int{}}
}

const (
	startPrefix    = "start-"
	executionsFile = "executions"
	pidsFile       = "pids"
)

// CountStart counts one start and returns its number, from 1. In a directory each
// start is a file that only one process can create, so that processes that start
// at the same time get different numbers.
func (c *Counter) CountStart() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	if c.dir == "" {
		return c.starts, nil
	}
	for n := 1; ; n++ {
		f, err := os.OpenFile(filepath.Join(c.dir, startPrefix+strconv.Itoa(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("counting a start in StateDir: %w; create the directory first", err)
		}
		return n, f.Close()
	}
}

// CountExecution counts one side effect and returns how often its key was counted.
func (c *Counter) CountExecution(key string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		c.executions[key]++
		return c.executions[key], nil
	}
	line, err := json.Marshal(key)
	if err != nil {
		return 0, fmt.Errorf("recording an execution: %w", err)
	}
	if err := c.appendLine(executionsFile, string(line)); err != nil {
		return 0, err
	}
	return Executions(c.dir)[key], nil
}

// RecordPID adds a process to the list of this server. In memory it does nothing.
func (c *Counter) RecordPID(pid int) error {
	if c.dir == "" {
		return nil
	}
	return c.appendLine(pidsFile, strconv.Itoa(pid))
}

// appendLine adds a line in one write, so that lines of several processes do not
// interleave.
func (c *Counter) appendLine(file, line string) error {
	f, err := os.OpenFile(filepath.Join(c.dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("recording in StateDir: %w; create the directory first", err)
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// Starts returns how many starts were counted in dir.
func Starts(dir string) int {
	names, err := filepath.Glob(filepath.Join(dir, startPrefix+"*"))
	if err != nil {
		return 0
	}
	return len(names)
}

// Executions returns how often each key was counted in dir.
func Executions(dir string) map[string]int {
	out := map[string]int{}
	for _, line := range readLines(dir, executionsFile) {
		var key string
		if json.Unmarshal([]byte(line), &key) == nil {
			out[key]++
		}
	}
	return out
}

// PIDs returns the processes recorded in dir, in the order of their start.
func PIDs(dir string) []int {
	var out []int
	for _, line := range readLines(dir, pidsFile) {
		if pid, err := strconv.Atoi(line); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// readLines returns the lines of a file, and nil if it does not exist.
func readLines(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}
