package daemon

import (
	"errors"
	"fmt"
	"os"
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
	// releaseTimeout is how long a process may have the socket without listening: it begins, or ends.
	releaseTimeout = 5 * time.Second
	// takeOverTimeout bounds the wait until a run that was asked to hand over has ended.
	takeOverTimeout = control.DrainTimeout + servers.CloseTimeout + releaseTimeout
	socketPoll      = 50 * time.Millisecond
)

// hostRun is a run that a host has started, and that ends for one of the user.
type hostRun struct {
	*attach.Client
	control.Info
}

// listenOnSocket makes the socket for other commands. Without one, which it warns of, the
// servers run anyway. It is an error if the configuration has a `mcpvisor run` already, or if the group of the socket
// cannot be set. If a host has started that run, it is returned, unless this one has untilUnused, too.
func (cmd *Serving) listenOnSocket(inv *servers.Opener, untilUnused bool) (l *socket.Listener, other *hostRun, err error) {
	path, err := socket.Path(inv.Sources.Key)
	var inUse *socket.InUseError
	for until := time.Now().Add(releaseTimeout); err == nil; {
		inUse = nil
		if l, err = socket.Listen(path, cmd.SocketGroup); !errors.As(err, &inUse) {
			break
		}
		c, info, failed := attach.Find(inv.Context, inv.Sources.Key)
		if failed == nil && info.UntilUnused && !untilUnused {
			return nil, &hostRun{c, info}, nil
		}
		if failed == nil {
			c.Close()
		}
		if failed != nil && time.Now().Before(until) {
			err = backoff.Sleep(inv.Context, socketPoll)
		}
	}
	switch {
	case err == nil:
		return l, nil, nil
	case inv.Context.Err() != nil:
		return nil, nil, cli.ErrInterrupted
	case inUse != nil:
		if id, isNode := inv.Sources.Node(); isNode {
			return nil, nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed,
				Message: fmt.Sprintf("node %s is running already (pid %d); mcpvisor --config fleet:%s status shows its servers, and an interrupt ends it", id, inUse.PID, id)}}
		}
		return nil, nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed,
			Message: inUse.Error() + "; mcpvisor status shows its servers, and an interrupt ends it"}}
	case cmd.SocketGroup != "":
		return nil, nil, fmt.Errorf("--socket-group %s: %w", cmd.SocketGroup, err)
	}
	inv.Warn("", "other commands cannot attach to this run: %v", err)
	return nil, nil, nil
}

// takeOver makes the socket after the run of a host has ended for this one. Meanwhile no host starts another one.
func (cmd *Serving) takeOver(inv *servers.Opener) (l *socket.Listener, err error) {
	unlock, busy := func() {}, true
	defer func() {
		if !busy {
			unlock()
		}
	}()
	named := 0
	for until := time.Now().Add(takeOverTimeout); time.Now().Before(until); {
		if busy {
			if unlock, busy, err = socket.LockStart(inv.Sources.Key); err != nil {
				return nil, err
			}
		}
		l, other, err := cmd.listenOnSocket(inv, false)
		if other == nil {
			return l, err
		}
		if !busy && named != other.PID {
			named = other.PID
			other.nameMissing(inv)
			inv.Note("taking over from mcpvisor run (pid %d), which a host has started; its calls in flight have %v to end", other.PID, control.DrainTimeout)
		}
		if !busy {
			_ = other.HandOver(inv.Context) // asked again until it ends: it may just have begun
		}
		other.Close()
		if backoff.Sleep(inv.Context, socketPoll) != nil {
			return nil, cli.ErrInterrupted
		}
	}
	return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed,
		Message: fmt.Sprintf("mcpvisor run (pid %d), which a host has started, has not ended within %v; an interrupt ends it", named, takeOverTimeout)}}
}

// nameMissing warns of the variables that the servers of the run have, and those of this process will not have.
func (r *hostRun) nameMissing(inv *servers.Opener) {
	missing := slices.DeleteFunc(r.Variables, func(name string) bool {
		_, set := os.LookupEnv(name)
		return set
	})
	if len(missing) > 0 {
		inv.Warn("", "mcpvisor run (pid %d), which a host has started, gives its servers variables that are not set here: %s; set them, or interrupt this run and the host starts one again", r.PID, strings.Join(missing, ", "))
	}
}
