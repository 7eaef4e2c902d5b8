package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
)

// Started is a `mcpvisor run` of its own session, which outlives this process.
type Started struct {
	// Log is the file with what it prints.
	Log string
	// path is that of the socket.
	path string
	// Ended is closed when it has ended.
	Ended <-chan struct{}

	from int64 // where its lines begin in the file
}

// logExtension is that of the log, which is beside the socket.
const logExtension = ".log"

// maxLogBytes is how long the log of earlier runs may be before it is emptied.
const maxLogBytes = 1 << 20

// Start starts `mcpvisor run` of these files. It ends by itself when no MCP session has been open
// for a while. If another run has the files, it ends at once.
func Start(sources cli.Sources) (*Started, error) {
	programs, err := cli.Programs()
	if err != nil {
		return nil, fmt.Errorf("mcpvisor run cannot be started: %w", err)
	}
	path, err := socket.Path(sources.Key)
	if err != nil {
		return nil, err
	}
	s := &Started{Log: strings.TrimSuffix(path, ".sock") + logExtension, path: path}
	log, err := socket.OpenBeside(path, logExtension, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return nil, fmt.Errorf("mcpvisor run is not started, as it has no log: %w", err)
	}
	defer func() { _ = log.Close() }()
	if info, err := log.Stat(); err == nil && info.Size() > maxLogBytes {
		_ = log.Truncate(0) // its lines are of earlier runs
	}
	if s.from, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	var args []string
	if sources.Chosen {
		for _, file := range sources.Paths {
			args = append(args, "--config", file)
		}
	}
	cmd := exec.CommandContext(context.Background(), programs[0], append(args, "run", "--until-unused")...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, detached()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("mcpvisor run cannot be started: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its lines say why
	}()
	s.Ended = ended
	return s, nil
}

// maxReasonBytes bounds what is quoted of a log.
const maxReasonBytes = 2 << 10

// Reason is why it has ended: the last lines that it has printed.
func (s *Started) Reason() error {
	text := "it has printed nothing"
	if log, err := socket.OpenBeside(s.path, logExtension, os.O_RDONLY); err == nil {
		defer func() { _ = log.Close() }()
		if info, err := log.Stat(); err == nil {
			from := max(s.from, info.Size()-maxReasonBytes)
			part, _ := io.ReadAll(io.NewSectionReader(log, from, maxReasonBytes)) // what can be read is quoted
			if lines := strings.TrimSpace(string(part)); lines != "" {
				text = lines
			}
		}
	}
	return errors.New("mcpvisor run has ended: " + text)
}
