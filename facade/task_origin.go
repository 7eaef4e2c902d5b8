package facade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// The id of a task is chosen by its server, which may give it again after its end, and the name of the
// server by the configuration, which may change. So before a server is told more than the id, and
// before its answer is taken, the follower makes sure that its incarnation has the same task. It has in
// the incarnation that made it; in another one, createdAt must be that of the first answer.

// taskOrigin says which task with an id it is. It does not change.
type taskOrigin struct {
	incarnation string    // that made it (actors.View.Incarnation); empty: not known
	created     time.Time // createdAt of the first answer; zero: not said
	target      string    // targetOf the server
}

// String returns the origin as readTaskOrigin reads it.
func (o taskOrigin) String() string {
	return strings.Join([]string{o.incarnation, o.created.Format(time.RFC3339Nano), o.target}, ",")
}

// readTaskOrigin reads an origin. One that cannot be read is that of no task.
func readTaskOrigin(text string) *taskOrigin {
	o := new(taskOrigin)
	var created string
	o.incarnation, text, _ = strings.Cut(text, ",")
	created, o.target, _ = strings.Cut(text, ",")
	o.created, _ = time.Parse(time.RFC3339Nano, created)
	return o
}

// targetOf is a digest of what a spec runs or reaches: the same after a restart of the host, and after
// a change of secrets.
func targetOf(s *mcpvisor.ServerSpec) string {
	parts := []string{s.TransportKind(), s.Target()}
	var secrets secret.List
	if s.HTTP != nil { // a query may name the tenant
		_, query, _ := strings.Cut(s.HTTP.URL, "?")
		parts = append(parts, secret.MaskQuery(query))
	}
	if secrets.Add(s.Secrets...); s.Stdio != nil {
		secrets.AddArgs(s.Stdio.Args)
		parts = append(append(parts, s.Stdio.Command, s.Stdio.Dir), s.Stdio.Args...)
	}
	for i, hide := 0, secrets.Replacer(); i < len(parts); i++ {
		parts[i] = hide.Replace(parts[i])
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:8])
}

// checkTarget refuses to ask another server for the task than the one that had it.
func (f *follower) checkTarget(v *actors.View) error {
	if f.origin == nil || f.origin.target == targetOf(v.Spec) {
		return nil
	}
	return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent,
		Cause: fmt.Errorf("another server had the task: %s is %s now", v.Name, v.Spec.Target()), Hint: "register the former one under that name to reach its task"}
}

// errTaskTwice is the cause of a call whose task is that of another open call.
var errTaskTwice = errors.New("the server gave the task the id of another call's task, which has not ended")

// errOtherTask is the error of a task that is not the one that was asked for: the server does not know
// that one.
var errOtherTask = &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &sdkrpc.Error{Code: sdkrpc.CodeInvalidParams,
	Message: "the server has another task with that id, or does not say when it made it (createdAt)"}}

// identify checks that what the server says is about the task of the follower. Servers that change
// createdAt in one incarnation are believed, unless they may be restarted unseen.
func (f *follower) identify(t *task.Task) error {
	if f.origin == nil {
		return nil
	}
	made := f.origin.created
	f.mu.Lock()
	defer f.mu.Unlock()
	same := !t.Created.IsZero() && (made.Equal(t.Created) || f.learned.Equal(t.Created))
	at := f.view.Incarnation()
	if f.view.MadeForAnother(t, f.hold, at == f.origin.incarnation) {
		return errOtherTask
	}
	if at != f.proven {
		if at != f.origin.incarnation && !same {
			return errOtherTask
		}
		if f.proven = at; f.hold != nil || f.o.keyed != nil {
			f.dropLocked()
			f.hold = f.view.HoldTask(t, false)
		}
	}
	switch unseen := f.view.HasNoSession(); {
	case unseen && !same && !made.IsZero() && !t.Created.IsZero():
		return errOtherTask
	case !unseen && at == f.origin.incarnation && !t.Created.IsZero():
		f.learned = t.Created
	}
	return nil
}

// tell sends a request that changes the task. First it asks for the task, if that may be another one.
func (f *follower) tell(ctx context.Context, method string, params json.RawMessage) error {
	f.mu.Lock()
	at := f.view.Incarnation()
	proven := f.origin == nil || (at == f.proven || at == f.origin.incarnation) && !f.view.HasNoSession()
	f.mu.Unlock()
	if !proven {
		if _, _, err := f.askOnce(ctx); err != nil {
			return err
		}
	}
	_, err := f.request(ctx, method, params, nil)
	return err
}

// requestCancel asks the current incarnation of the server to cancel the task. It may run beside the
// goroutine of the follower.
func (f *follower) requestCancel(ctx context.Context) error {
	s := f.c.rt.Snapshot()
	v := s.Server(f.server)
	if v == nil {
		return unknownServer(s, f.server)
	}
	one := &follower{c: f.c, o: f.o, server: f.server, view: v, origin: f.origin, task: task.Task{ID: f.id()}}
	one.o.keyed, one.o.Timeout = nil, cancelTimeout
	f.mu.Lock()
	one.proven, one.learned = f.proven, f.learned
	f.mu.Unlock()
	err := one.checkTarget(v)
	if err == nil {
		err = one.tell(ctx, "tasks/cancel", task.Params(one.id()))
	}
	if e := asErrorOrNil(err); e != nil {
		e.Cause = hideID(e.Cause, one.id())
		return e
	}
	return nil
}

// drop ends that the task is open for the follower.
func (f *follower) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked()
}

func (f *follower) dropLocked() {
	if f.hold != nil {
		f.hold.Drop()
	}
}

// dropEnded ends that the task is open: it has ended.
func (f *follower) dropEnded(t *task.Task) {
	f.drop()
	created := t.Created
	if f.origin != nil {
		created = f.origin.created
	}
	f.view.DropTask(t.ID, created) // a call that was relayed, or another handle, may hold it
}
