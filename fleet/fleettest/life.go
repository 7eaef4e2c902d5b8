//go:build linux

package fleettest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// beatEvery is how often an exclusive server marks that it lives.
const beatEvery = 25 * time.Millisecond

// header is the first line of the file of a life.
type header struct {
	Name      string        `json:"name"`
	PID       int           `json:"pid"`
	Parent    int           `json:"parent"` // the process of its node
	Epoch     uint64        `json:"epoch"`
	Exclusive bool          `json:"exclusive"`
	Began     time.Duration `json:"began"`
}

// LifeFile is the evidence that a server writes while it lives: an exclusive one a mark every 25 ms,
// and each one line for every call that it executes. What cannot leave evidence must not live, so a
// failure ends the process. Safe for concurrent use.
type LifeFile struct {
	header
	file *os.File // appended to, a line with each write
	stop chan struct{}
	beat sync.WaitGroup
}

func startLife(dir string, h header) (*LifeFile, error) {
	first, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	l := &LifeFile{header: h, stop: make(chan struct{})}
	path := filepath.Join(dir, fmt.Sprintf("%s.%d.%d%s", h.Name, h.PID, h.Began, lifeSuffix))
	if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600); err != nil { //nolint:gosec // the test has chosen the folder
		return nil, err
	}
	l.write(string(first))
	if h.Exclusive {
		l.beat.Go(l.run)
	}
	return l, nil
}

func (l *LifeFile) run() {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.write(fmt.Sprintf("b %d", boottime.Now()))
		}
	}
}

// Execute notes that the server begins to execute a call.
func (l *LifeFile) Execute(id string) { l.write(fmt.Sprintf("x %d %s", boottime.Now(), id)) }

// End ends the life of a server in a process that continues.
func (l *LifeFile) End() {
	close(l.stop)
	l.beat.Wait()
	_ = l.file.Close()
}

func (l *LifeFile) write(line string) {
	if _, err := l.file.WriteString(line + "\n"); err != nil {
		fmt.Fprintln(os.Stderr, "fleettest:", err)
		os.Exit(1)
	}
}
