package mcptest

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

// accounts are what is counted over incarnations: in a directory, or in memory
// where there is none.
type accounts struct {
	dir string

	mu         sync.Mutex
	starts     int
	executions map[string]int
}

func newAccounts(dir string) *accounts {
	return &accounts{dir: dir, executions: map[string]int{}}
}

const (
	startPrefix    = "start-"
	executionsFile = "executions"
	pidsFile       = "pids"
)

// begin counts one start and returns its number, from 1. In a directory each
// start is a file that only one process can create, so that processes which
// start at once get different numbers.
func (a *accounts) begin() (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starts++
	if a.dir == "" {
		return a.starts, nil
	}
	for n := 1; ; n++ {
		f, err := os.OpenFile(filepath.Join(a.dir, startPrefix+strconv.Itoa(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("counting a start in StateDir: %w; create the directory first", err)
		}
		return n, f.Close()
	}
}

// execute records one side effect and returns how many there are of its key.
func (a *accounts) execute(key string) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir == "" {
		a.executions[key]++
		return a.executions[key], nil
	}
	line, err := json.Marshal(key)
	if err != nil {
		return 0, fmt.Errorf("recording an execution: %w", err)
	}
	if err := a.append(executionsFile, string(line)); err != nil {
		return 0, err
	}
	return Executions(a.dir)[key], nil
}

func (a *accounts) recordPid(pid int) error {
	if a.dir == "" {
		return nil
	}
	return a.append(pidsFile, strconv.Itoa(pid))
}

// append adds a line in one write, which the systems we know do not interleave.
func (a *accounts) append(file, line string) error {
	f, err := os.OpenFile(filepath.Join(a.dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("recording in StateDir: %w; create the directory first", err)
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// Starts is how many incarnations have begun with this StateDir.
func Starts(dir string) int {
	names, err := filepath.Glob(filepath.Join(dir, startPrefix+"*"))
	if err != nil {
		return 0
	}
	return len(names)
}

// Executions is how often the tool count has run with this StateDir, by key. A
// key above 1 that was called once shows a call that ran twice.
func Executions(dir string) map[string]int {
	out := map[string]int{}
	for _, line := range recorded(dir, executionsFile) {
		var key string
		if json.Unmarshal([]byte(line), &key) == nil {
			out[key]++
		}
	}
	return out
}

// PIDs is every process that was started with this StateDir, servers and
// grandchildren, in the order of their start.
func PIDs(dir string) []int {
	var out []int
	for _, line := range recorded(dir, pidsFile) {
		if pid, err := strconv.Atoi(line); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// recorded is the lines of a file; a file that is not there has none.
func recorded(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}
