package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A taskResult is what the gateway says about a task, in the forms of both versions.
type taskResult struct {
	TaskID, Status string
	Task           struct{ TaskID, Status string }
	Result         json.RawMessage
}

var errTask = errors.New("the task ended otherwise")

// followTask follows the task that a call has become until its end, on whatever host, and returns the answer that has
// its result. Without a task it returns the answer to the call.
func (p *peer) followTask(ctx context.Context, a *response, server, session string, meta []string) (*response, error) {
	var started taskResult
	_ = json.Unmarshal(a.Result, &started)
	id := started.TaskID + started.Task.TaskID
	if id == "" {
		return a, nil
	}
	p.w.mu.Lock()
	counts["tasks of peers"]++
	p.w.mu.Unlock()
	ask := func(ctx context.Context, p *peer, method, session string) (*response, error) {
		a, _, err := p.post(ctx, p.id(), method, fmt.Sprintf(`{"taskId":%q,"_meta":{%s}}`, id, strings.Join(meta, ",")), id, session)
		return a, err
	}
	for n := 0; ; n++ {
		sleep(ctx, 300*time.Millisecond)
		if ctx.Err() != nil {
			p.w.closes.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				_, _ = ask(ctx, p, "tasks/cancel", session)
			})
			return nil, context.Cause(ctx)
		}
		if p.modern() && n == 0 { // another principal asks for the same task
			other := p.w.peers[7-p.n]
			if a, err := ask(ctx, other, "tasks/get", ""); err == nil && a.Error == nil {
				p.w.fail("peer %d of %s has a task of %s: %s", other.n, other.principal, p.principal, a.Result)
			}
		}
		asked := time.Now()
		a, err := ask(ctx, p, "tasks/get", session)
		p.w.mu.Lock()
		hidden := p.w.alwaysHidden(server, asked, time.Now())
		p.w.mu.Unlock()
		if hidden && err == nil && a.Error == nil {
			p.w.fail("peer %d was told of a task of %s, which is hidden: %s", p.n, server, a.Result)
		}
		if err != nil {
			continue // a gateway has died, and another one comes
		}
		if a.Error != nil {
			if a.Error.Code == -32602 {
				return nil, fmt.Errorf("%w: %s", errTask, a.Error.Message)
			}
			continue
		}
		var state taskResult
		_ = json.Unmarshal(a.Result, &state)
		switch state.Status {
		case "working":
		case "completed":
			if p.modern() {
				return &response{Result: state.Result}, nil
			}
			if a, err = ask(ctx, p, "tasks/result", session); err == nil && a.Error == nil {
				return a, nil
			}
		default:
			return nil, fmt.Errorf("%w: %s", errTask, a.Result)
		}
	}
}
