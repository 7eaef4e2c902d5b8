package facade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TaskInput is one request that a task waits for (MCP, tasks: inputRequests).
type TaskInput struct {
	// Key names the question among those of the task.
	Key string
	// Method is "elicitation/create", "sampling/createMessage" or "roots/list", and Params are
	// the params of such a request, as JSON.
	Method string
	Params json.RawMessage
}

// Inputs asks the server what the task waits for, and returns the requests that are not answered,
// sorted by key. It is for a host without handlers for them: [Task.Wait] then fails with
// mcpvisor.ErrInputRequired, and may be called again after [Task.Answer]. While another goroutine
// waits for the task, Inputs waits, too. Servers of 2025-11-25 ask only through handlers.
//
// Errors: those of [Task.Wait].
func (t *Task) Inputs(ctx context.Context) (all []TaskInput, err error) {
	err = t.hold(ctx, "inputs of "+t.tool, func() error {
		all, err = t.follow.openInputs(ctx)
		return err
	})
	return all, err
}

// Answer answers the request that [Task.Inputs] lists under key. response is anything that
// marshals to the JSON object of the answer, such as a *mcp.ElicitResult. If the server ends
// before it has used the answer, the next incarnation gets it from [Task.Wait].
//
// Errors: ErrInvalid (the response; or the task does not ask for the key), ErrRPC (the server
// refuses the answer; the key may be answered again), and those of [Task.Wait].
func (t *Task) Answer(ctx context.Context, key string, response any) error {
	raw, err := toolArguments{value: response}.append(nil)
	if err != nil {
		return withOp(invalidRequest(errors.New("the answer is not a JSON object")), "answer "+t.tool)
	}
	open := false
	err = t.hold(ctx, "answer "+t.tool, func() error {
		open = true
		return t.follow.answer(ctx, key, raw)
	})
	if err == nil && !open {
		return withOp(invalidRequest(errors.New("the task has ended")), "answer "+t.tool)
	}
	return err
}

// hold calls f if the task has not ended, and no other goroutine meanwhile uses its follower.
func (t *Task) hold(ctx context.Context, op string, f func() error) error {
	if err := t.take(ctx, op); err != nil {
		return err
	}
	defer t.give()
	if t.follow == nil || t.answer.raw != nil || t.err != nil {
		return t.err
	}
	err := f()
	if err == nil {
		return nil
	}
	return t.wrap(err, op)
}

// state asks for the task until the server has said how it is. It is at the next incarnation if
// the server has ended.
func (f *follower) state(ctx context.Context, share *budget.Share) (task.Task, error) {
	for {
		if f.lost {
			if err := f.awaitNext(ctx); err != nil {
				return task.Task{}, err
			}
		}
		if t, known, err := f.get(ctx, share); known || err != nil {
			return t, err
		}
		if err := f.contextError(ctx); err != nil {
			return task.Task{}, err
		}
	}
}

// openInputs returns what the task asks for, and has no answer.
func (f *follower) openInputs(ctx context.Context) (all []TaskInput, err error) {
	var share budget.Share
	defer share.Release()
	t, err := f.state(ctx, &share)
	if err != nil || len(t.Requests) == 0 || t.Status != task.InputRequired {
		return nil, err
	}
	err = eachInput(t.Requests, func(key string, value []byte) error {
		if f.inputs.ready[key] != nil {
			return nil
		}
		var request struct {
			Method string
			Params json.RawMessage
		}
		err := json.Unmarshal(value, &request)
		all = append(all, TaskInput{strings.Clone(key), request.Method, request.Params})
		return err
	})
	if err == nil && len(all) > maxTaskInputs {
		err = errManyInputs
	}
	if err != nil {
		return nil, badInputs(err)
	}
	slices.SortFunc(all, func(a, b TaskInput) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

// answer keeps an answer, and sends it.
func (f *follower) answer(ctx context.Context, key string, response json.RawMessage) error {
	all, err := f.openInputs(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(one TaskInput) bool { return one.Key == key }) {
		return invalidRequest(fmt.Errorf("the task does not ask for %.100q, or has the answer", key))
	}
	f.inputs.keep(key, response)
	if err := f.deliver(ctx, []string{key}); err != nil {
		return err
	}
	if err := f.inputs.refused[key]; err != nil {
		delete(f.inputs.ready, key)
		return err
	}
	return nil
}

// taskInputs is the input that a task has asked for, each key once. The goroutine of the
// follower owns it.
type taskInputs struct {
	answers chan taskAnswer // of the handlers that run; nil if none does
	asked   map[string]bool // keys that handlers have got, or are getting
	ready   map[string]json.RawMessage
	sent    map[string]incarnationID // which acknowledged the answer, or refused it, by key
	refused map[string]error         // why it has refused that
}

// keep keeps the answer for a key, unless it has one.
func (in *taskInputs) keep(key string, response []byte) {
	if in.ready == nil {
		in.ready, in.sent, in.refused = map[string]json.RawMessage{}, map[string]incarnationID{}, map[string]error{}
	}
	if in.ready[key] == nil {
		in.ready[strings.Clone(key)] = bytes.Clone(response)
	}
}

// incarnationID names an incarnation of a server.
type incarnationID struct{ gen, epoch uint64 }

// taskAnswer is what the handlers of the host gave for some keys.
type taskAnswer struct {
	keys      []string
	responses json.RawMessage
	err       error
	late      func() bool // reports whether who waited for the task no longer does
}

// Bounds of the input that one task may ask for. maxInputKey is in bytes: keys are kept.
const (
	maxTaskInputs = 256
	maxInputKey   = 1 << 10
)

var errManyInputs = fmt.Errorf("the task asks for more than %d inputs", maxTaskInputs)

// eachInput calls f for each of the requests of a task.
func eachInput(requests json.RawMessage, f func(key string, value []byte) error) error {
	return jsonscan.EachMember(requests, func(key string, value []byte) error {
		if len(key) > maxInputKey {
			return fmt.Errorf("a key is %d bytes long; at most %d are accepted", len(key), maxInputKey)
		}
		return f(key, value)
	})
}

// badInputs is the error of requests of a task that cannot be answered.
func badInputs(err error) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrInputRequired, Outcome: mcpvisor.OutcomeUnknown, Cause: fmt.Errorf("the inputRequests of the task: %w", err)}
}

// supply gives the task the input that it waits for: first it asks the handlers of the
// host, in the background, and then it sends what they answered. An answer that another
// incarnation may have lost is sent again, and its handler is not asked again.
func (f *follower) supply(ctx context.Context, requests json.RawMessage) error {
	if len(requests) == 0 { // it may say later what it waits for
		return nil
	}
	in := &f.inputs
	var fresh jsonscan.Object
	var keys, sending []string
	err := eachInput(requests, func(key string, value []byte) error {
		switch {
		case in.ready[key] != nil:
			if in.sent[key] != f.incarnation() {
				sending = append(sending, strings.Clone(key))
			} else if err := in.refused[key]; err != nil {
				return fmt.Errorf("the server refuses the answer: %w", err)
			}
		case !in.asked[key]:
			if len(in.asked)+len(keys) == maxTaskInputs {
				return errManyInputs
			}
			fresh.Add(key, value)
			keys = append(keys, strings.Clone(key))
		}
		return nil
	})
	if err != nil {
		return badInputs(err)
	}
	if len(keys) > 0 && in.answers == nil {
		f.askHost(ctx, keys, fresh.Close())
	}
	return f.deliver(ctx, sending)
}

// deliver sends the answers for keys. What the server makes of them, the next tasks/get shows. An
// answer that it refuses is not sent again.
func (f *follower) deliver(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	in := &f.inputs
	var send jsonscan.Object
	for _, key := range keys {
		send.Add(key, in.ready[key])
	}
	_, err := f.request(ctx, "tasks/update", task.UpdateParams(f.id(), send.Close()), nil)
	if err != nil && asError(err).Kind != mcpvisor.ErrRPC {
		return f.asked(ctx, err)
	}
	for _, key := range keys {
		in.sent[key], in.refused[key] = f.incarnation(), err
	}
	f.answers = 0
	return nil
}

func (f *follower) incarnation() incarnationID { return incarnationID{f.view.Gen, f.view.Epoch} }

// askHost has the handlers of the host answer requests, an object of these keys.
func (f *follower) askHost(ctx context.Context, keys []string, requests json.RawMessage) {
	in := &f.inputs
	if in.asked == nil {
		in.asked = map[string]bool{}
	}
	for _, key := range keys {
		in.asked[key] = true
	}
	in.answers = make(chan taskAnswer, 1)
	into, view := in.answers, f.view
	go func() {
		responses, err := f.c.rt.AnswerInputs(ctx, view, f.o.caller(&f.c.opts.handlers), requests)
		if err != nil && hasEnded(view, err) { // which ends the handlers, too
			err = &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
		}
		into <- taskAnswer{keys, responses, err, func() bool { return ctx.Err() != nil }}
	}()
}

// hasEnded reports whether the session of a view has ended, perhaps with that error.
func hasEnded(v *actors.View, err error) bool {
	select {
	case <-v.Ended():
		return true
	default:
		return errors.As(err, new(*supervisor.Cause))
	}
}

// handled keeps what the handlers answered, until the server acknowledges it. When they failed and
// the session or the wait for the task has ended meanwhile, they are asked again: their contexts
// ended, too, so the error may be of that.
func (in *taskInputs) handled(a taskAnswer) error {
	in.answers = nil
	if a.err != nil {
		for _, key := range a.keys {
			delete(in.asked, key)
		}
		own := *asError(a.err)
		if final := own.Kind == mcpvisor.ErrInputRequired && !a.late(); !final {
			return nil
		}
		own.Outcome = mcpvisor.OutcomeUnknown // the tool has begun
		return &own
	}
	return jsonscan.EachMember(a.responses, func(key string, value []byte) error {
		in.keep(key, value)
		return nil
	})
}
