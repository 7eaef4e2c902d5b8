//go:build linux

package fleettest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	lifeSuffix    = ".life"
	journalSuffix = ".calls"
)

// Life is one process of a server, as its file tells.
type Life struct {
	header
	Last time.Duration // of the last mark
	// Executed are the calls that it has begun to execute.
	Executed []Execution
}

// Execution is one call that a server has begun to execute.
type Execution struct {
	ID string
	At time.Duration
}

// String names the process and its epoch.
func (l *Life) String() string {
	return fmt.Sprintf("%s as process %d, epoch %d", l.Name, l.PID, l.Epoch)
}

// Call is one call of a node, as its journal tells. A call that has not ended has no Ended.
type Call struct {
	ID     string        `json:"id"`
	Node   int           `json:"node,omitempty"` // the process
	Server string        `json:"server,omitempty"`
	Sent   time.Duration `json:"sent,omitempty"`
	// Limit is when its context ends.
	Limit   time.Duration `json:"limit,omitempty"`
	Ended   time.Duration `json:"ended,omitempty"`
	Outcome string        `json:"outcome,omitempty"`
	Kind    string        `json:"kind,omitempty"` // of the error
	Error   string        `json:"error,omitempty"`
	PID     int           `json:"pid,omitempty"` // that has answered
	Epoch   uint64        `json:"epoch,omitempty"`
	Token   string        `json:"token,omitempty"` // of its environment
}

// The outcomes of calls; those of errors are from mcpvisor.Outcome.
const outcomeResult = "result"

// Pause is a time in which a node was stopped.
type Pause struct {
	Node     int // the process
	From, To time.Duration
}

// Evidence holds the records that a fleet has left.
type Evidence struct {
	Lives []*Life
	Calls []*Call
	// Pauses and Killed say what the test did to the processes of nodes.
	Pauses []Pause
	Killed map[int]time.Duration
	// Slack is how long after its context a call may end.
	Slack time.Duration
}

// ReadEvidence reads the files of a folder.
func ReadEvidence(dir string) (*Evidence, error) {
	e := &Evidence{Killed: map[int]time.Duration{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		switch filepath.Ext(path) {
		case lifeSuffix:
			life, err := readLife(path)
			if err == nil && life != nil {
				e.Lives = append(e.Lives, life)
			}
			errs = append(errs, err)
		case journalSuffix:
			calls, err := readJournal(path)
			e.Calls = append(e.Calls, calls...)
			errs = append(errs, err)
		}
	}
	slices.SortFunc(e.Lives, func(a, b *Life) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Began, b.Began))
	})
	return e, errors.Join(errs...)
}

// eachLine calls f with the complete lines of a file: the last may be half written.
func eachLine(path string, f func(line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		if err := f(line[:len(line)-1]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// readLife returns nil for a server that was killed before it had written anything.
func readLife(path string) (life *Life, err error) {
	err = eachLine(path, func(line string) error {
		if life == nil {
			life = &Life{}
			err := json.Unmarshal([]byte(line), &life.header)
			life.Last = life.Began
			return err
		}
		var kind, id string
		var at time.Duration
		if _, err := fmt.Sscan(line+" -", &kind, (*int64)(&at), &id); err != nil {
			return err
		}
		life.Last = max(life.Last, at)
		if kind == "x" {
			life.Executed = append(life.Executed, Execution{id, at})
		}
		return nil
	})
	return life, err
}

func readJournal(path string) (calls []*Call, err error) {
	byID := map[string]*Call{}
	err = eachLine(path, func(line string) error {
		var c Call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return err
		}
		if c.Sent != 0 {
			byID[c.ID] = &c
			calls = append(calls, &c)
			return nil
		}
		begun := byID[c.ID]
		if begun == nil {
			return fmt.Errorf("call %s ends and has not begun", c.ID)
		}
		begun.Ended, begun.Outcome, begun.Kind, begun.Error, begun.PID, begun.Epoch = c.Ended, c.Outcome, c.Kind, c.Error, c.PID, c.Epoch
		return nil
	})
	return calls, err
}

// Check returns what must not have happened, in sentences:
//
//   - two lives of an exclusive name overlap, or a later one has no higher epoch;
//   - a call was executed twice;
//   - a call was executed that is said not to have been sent;
//   - a result came from a process that has not executed the call, or outside the time of the call;
//   - a call did not end within its context.
func (e *Evidence) Check() []string {
	return slices.Concat(e.overlaps(), e.executions(), e.late())
}

func (e *Evidence) overlaps() (faults []string) {
	var before *Life // of the lives of the name so far, the one that has lived longest
	for _, l := range e.Lives {
		if !l.Exclusive {
			continue
		}
		if before == nil || before.Name != l.Name {
			before = l
			continue
		}
		if l.Began <= before.Last {
			faults = append(faults, fmt.Sprintf("%s has begun %v before the end of %s", l, before.Last-l.Began, before))
		}
		if l.Epoch != 0 && l.Epoch <= before.Epoch {
			faults = append(faults, fmt.Sprintf("%s follows %s", l, before))
		}
		if l.Last >= before.Last {
			before = l
		}
	}
	return faults
}

func (e *Evidence) executions() (faults []string) {
	type place struct {
		life *Life
		at   time.Duration
	}
	executed := map[string]place{}
	for _, l := range e.Lives {
		for _, x := range l.Executed {
			if first, twice := executed[x.ID]; twice {
				faults = append(faults, fmt.Sprintf("call %s was executed twice: by %s, and %v later by %s", x.ID, first.life, x.At-first.at, l))
			}
			executed[x.ID] = place{l, x.At}
		}
	}
	for _, c := range e.Calls {
		where, known := executed[c.ID]
		switch {
		case c.Outcome == "not_sent" && known:
			faults = append(faults, fmt.Sprintf("call %s was not sent (%s), and was executed by %s", c.ID, c.Error, where.life))
		case c.Outcome != outcomeResult:
		case !known:
			faults = append(faults, fmt.Sprintf("call %s has the result of process %d, and was executed by none", c.ID, c.PID))
		case where.life.PID != c.PID || where.life.Epoch != c.Epoch || where.life.Name != c.Server:
			faults = append(faults, fmt.Sprintf("call %s has a result of process %d, epoch %d, and was executed by %s", c.ID, c.PID, c.Epoch, where.life))
		case where.at < c.Sent || where.at > c.Ended:
			faults = append(faults, fmt.Sprintf("call %s of %v to %v was executed at %v by %s", c.ID, c.Sent, c.Ended, where.at, where.life))
		}
	}
	return faults
}

func (e *Evidence) late() (faults []string) {
	for _, c := range e.Calls {
		limit := c.Limit + e.Slack
		for _, p := range e.Pauses {
			if p.Node == c.Node && c.Sent < p.To && limit > p.From {
				limit += p.To - p.From // it could not end while its node was stopped
			}
		}
		killed, dead := e.Killed[c.Node]
		switch {
		case c.Ended == 0 && dead && killed <= limit:
		case c.Ended == 0:
			faults = append(faults, fmt.Sprintf("call %s to %s has not ended", c.ID, c.Server))
		case c.Ended > limit:
			faults = append(faults, fmt.Sprintf("call %s to %s ended %v after its context: %s", c.ID, c.Server, c.Ended-c.Limit, strings.TrimSpace(c.Outcome+" "+c.Error)))
		}
	}
	return faults
}
