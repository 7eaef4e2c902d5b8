package relay

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
)

// InputRequired is a result that ends one round of a call but not the call: the server requires
// input (2026-07-28, multi round-trip requests).
type InputRequired struct {
	// InputRequests is the JSON object of what is required, by the keys that InputResponses
	// repeats. nil: the server requires no input, and only defers the call.
	InputRequests json.RawMessage
	// RequestState is opaque: pass it back unchanged in the next round. nil for none.
	RequestState json.RawMessage
}

// ReadInputRequired reads a result of [WithRelay]. ok is false for a result that ends the call. What it
// returns shares the memory of result.
func ReadInputRequired(result json.RawMessage) (required InputRequired, ok bool) {
	if !bytes.Contains(result, []byte(`"input_required"`)) {
		return InputRequired{}, false
	}
	err := jsonscan.EachMember(result, func(name string, value []byte) error {
		switch null := string(value) == "null"; {
		case name == "resultType":
			ok = string(value) == `"input_required"`
		case name == "inputRequests" && !null:
			required.InputRequests = value
		case name == "requestState" && !null:
			required.RequestState = value
		}
		return nil
	})
	if err != nil || !ok {
		return InputRequired{}, false
	}
	return required, true
}

// Continuation carries the answers to one round of a call into the next: InputResponses, the JSON object of the answers
// by the keys of InputRequests, and RequestState, that of the last [InputRequired], byte for byte. The zero
// Continuation begins a call.
type Continuation = relayhook.Continuation

// WithRelay makes the call return a result that requires input as the server sent it, instead of
// asking handlers and sending the request again. [ReadInputRequired] reads such a result. For the
// next round, make the same call with WithRelay, the answers, and the RequestState byte for byte.
// The caller bounds the number of rounds.
//
//	result, err := client.CallToolRaw(ctx, tool, args, relay.WithRelay(relay.Continuation{}))
//	if required, ok := relay.ReadInputRequired(result); ok {
//		next := relay.Continuation{InputResponses: ask(required.InputRequests), RequestState: required.RequestState}
//		result, err = client.CallToolRaw(ctx, tool, args, relay.WithRelay(next))
//	}
//
// It is for CallToolRaw, ReadResourceRaw and GetPromptRaw, and for servers since 2026-07-28.
// Earlier servers send requests of their own, which handlers answer; handlers also answer what a
// task asks for. Each round has the timeouts and the record of a call of its own.
//
// Errors of the call: ErrInvalid (a Continuation that is not JSON, or that is for a server which now
// speaks an earlier version; use with WithKey or StartTask); nothing was sent.
func WithRelay(next Continuation) facade.CallOption { return hook.WithRelay(next) }

// TaskRelay hands the task of one call to the caller; see [WithTaskRelay]. Set TTL, how long a server of 2025-11-25 is
// asked to keep the task, or leave it to the server. Server, ID and Origin, for TaskOf, and Modern, for a task of the
// extension since 2026-07-28, are set when the call returns; ID is empty if the server has made no task.
type TaskRelay = relayhook.TaskRelay

// WithTaskRelay makes the call return a task that the server makes of it as the server has sent it,
// instead of following it. t must not be shared with another call. The call asks a server of
// 2025-11-25 for a task if its tool accepts that. The client does not follow the task; use [Methods].TaskOf.
//
// It is for CallToolRaw. Error of the call: ErrInvalid (with WithKey or StartTask); nothing was sent.
func WithTaskRelay(t *TaskRelay) facade.CallOption { return hook.WithTaskRelay(t) }

// WithTaskOrigin is for TaskOf: the task is the one with that TaskRelay.Origin, and not another one to
// which the next incarnation of the server, or another server of the name, gives the same id. Default:
// whatever task has the id.
func WithTaskOrigin(origin string) facade.CallOption { return hook.WithTaskOrigin(origin) }

// WithoutTasks makes a server since 2026-07-28 answer the call itself: it is not told that the call
// may become a task. A server that cannot do without answers with the JSON-RPC error -32021. It
// changes nothing for earlier servers, nor for a call whose WithMeta has the clientCapabilities.
func WithoutTasks() facade.CallOption { return hook.WithoutTasks() }

// TaskAnswer is an answer of a server about a task: JSON, the answer to tasks/get as the server has sent it, which must
// not be modified; State, such as "working"; and Modern, for a task of the extension since 2026-07-28, whose JSON has
// what came of it. What came of a task of 2025-11-25, its Wait returns.
type TaskAnswer = relayhook.TaskAnswer

// Ask asks the current incarnation of the server for the task, once.
//
// Errors: ErrRPC (with -32602 the server does not know the task, or has another one with its id), ErrUnavailable and the
// other errors of a request.
func Ask(ctx context.Context, t *facade.Task) (TaskAnswer, error) { return hook.AskTask(ctx, t) }

// Respond sends answers to what the task asks for, an object by the keys of inputRequests, as it is
// (since 2026-07-28). What the server makes of them, [Ask] shows.
//
// Errors: ErrInvalid (the answers are not a JSON object, or the server speaks an earlier version),
// ErrRPC, ErrUnavailable and the other errors of a request.
func Respond(ctx context.Context, t *facade.Task, responses json.RawMessage) error {
	return hook.RespondToTask(ctx, t, responses)
}

// Watch calls f with what the server says about the task: first, and when that has changed, until the
// task has ended. It asks when the server says that the task has changed, at the next incarnation when
// the server ends, and otherwise rarely. What the task asks for stays unanswered.
//
// Errors: those of facade.Task.Wait.
func Watch(ctx context.Context, t *facade.Task, f func(TaskAnswer)) error {
	return hook.WatchTask(ctx, t, f)
}
