package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
)

const (
	// releaseTimeout is how long a process may have the socket without answering: it begins, or ends.
	releaseTimeout = 5 * time.Second
	// takeOverTimeout bounds the wait until a run that was asked to hand over has ended.
	takeOverTimeout = control.DrainTimeout + servers.CloseTimeout + releaseTimeout
	socketPoll      = 50 * time.Millisecond
)

// listenOnSocket makes the socket for other commands. Without one, which it warns of, the
// servers run anyway. It is an error if the configuration has a `mcpvisor run`
// already, or if the group of the socket cannot be set.
//
// A run that a host has started ends for this one, unless this one is of a host, too, or failed says why it will not
// serve. Meanwhile no host starts another one.
func (cmd *Serving) listenOnSocket(inv *servers.Opener, info control.Info, failed error) (l *socket.Listener, err error) {
	path, err := socket.Path(inv.Sources.Key)
	inUse, unlock := (*socket.InUseError)(nil), (func())(nil)
	until, asked := time.Now().Add(releaseTimeout), false
	for ; err == nil; err = backoff.Sleep(inv.Context, socketPoll) {
		if l, err = socket.Listen(path, cmd.SocketGroup); err == nil {
			break
		}
		if inUse = nil; !errors.As(err, &inUse) {
			break
		}
		if other, its, unanswered := attach.Find(inv.Context, inv.Sources.Key); unanswered == nil {
			other.Close()
			if !its.UntilUnused || info.UntilUnused {
				break
			}
			if failed != nil {
				return nil, failed
			}
			if unlock == nil {
				until = time.Now().Add(takeOverTimeout)
				if unlock, failed = socket.LockStart(inv.Sources.Key); failed != nil {
					return nil, failed
				}
				if unlock != nil {
					defer unlock()
					warnOfUnusable(inv, info, its)
				}
			}
			if unlock != nil {
				if other.HandOver(inv.Context) == nil && !asked { // again and again: it may just have begun
					asked = true
					inv.Note("taking over from mcpvisor run (pid %d), which a host has started; its calls in flight have %v to end", its.PID, control.DrainTimeout)
				}
				other.Close()
			}
		}
		if !time.Now().Before(until) {
			break
		}
	}
	switch {
	case err == nil:
		return l, nil
	case inv.Context.Err() != nil:
		return nil, cli.ErrInterrupted
	case inUse != nil:
		message := inUse.Error() + "; mcpvisor status shows its servers, and an interrupt ends it"
		if id, isNode := inv.Sources.Node(); isNode {
			message = fmt.Sprintf("node %s is running already (pid %d); mcpvisor --config fleet:%s status shows its servers, and an interrupt ends it", id, inUse.PID, id)
		}
		return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: message}}
	case cmd.SocketGroup != "":
		return nil, fmt.Errorf("--socket-group %s: %w", cmd.SocketGroup, err)
	}
	inv.Warn("", "other commands cannot attach to this run: %v", err)
	return nil, nil //nolint:nilnil // it was warned of
}

// warnOfUnusable says which servers of a run of a host will not run here.
func warnOfUnusable(inv *servers.Opener, info, its control.Info) {
	for _, u := range info.Unusable {
		if slices.Contains(its.Servers, u.Name) {
			inv.Warn(u.Name, "server %s runs in mcpvisor run (pid %d), and will not run here: %s; interrupt this run and a host starts one again", u.Name, its.PID, u.Reason)
		}
	}
}

const (
	// firstHostTimeout is how long a run with --until-unused waits for its first session.
	firstHostTimeout = time.Minute
	// unusedTimeout is how long it waits for another one. A host that restarts finds its servers
	// running.
	unusedTimeout = 10 * time.Second
)

var errNoSocket = errors.New("--until-unused: this run has no socket, so nothing could use it")

// endUnused ends the context of inv when no MCP session has been open for a while, or when a run of the user takes over.
func endUnused(inv *servers.Opener, h *control.Handler) error {
	if h == nil {
		return errNoSocket
	}
	ctx, cancel := context.WithCancel(inv.Context)
	inv.Context = ctx
	timer := time.AfterFunc(firstHostTimeout, cancel)
	context.AfterFunc(ctx, func() { timer.Stop() })
	first := true
	h.FollowSessions(func(open int) {
		switch {
		case open > 0:
			timer.Stop()
			first = false
		case !first:
			timer.Reset(unusedTimeout)
		}
	}, cancel)
	return nil
}

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
