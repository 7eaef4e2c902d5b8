package gateway

import (
	"context"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
)

// A server of 2025-11-25 asks for the input of a task by requests, while tasks/result waits. A client
// since 2026-07-28 reads what a task asks for in the answer to tasks/get, and answers by tasks/update. So
// the gateway keeps a tasks/result waiting while such a client asks for a task that requires input.

// hold has tasks/result wait for a task, unless it does; nil if the client has no place for the task.
// bits is what the client answers.
func (h *taskHandle) hold(bits uint16) *opentasks.Waiting {
	return h.c.tasks.Wait(h.c.owner, h.name, func(ctx context.Context, q *opentasks.Waiting) {
		if t, err := h.find(inputHandlers(q, bits)...); err == nil {
			_, _ = t.WaitRaw(ctx) // the client asks for what came of the task
		}
	})
}

// inputHandlers are the options of tasks/result: who answers. What the client does not answer is left to the
// handlers of the facade.Client.
func inputHandlers(q *opentasks.Waiting, bits uint16) []facade.CallOption {
	answers := capability.Answers(bits)
	if answers == (facade.Declared{}) {
		return nil
	}
	return []facade.CallOption{facade.WithCallHandlers(&facade.CallHandlers{RawAnswers: answers,
		Raw: func(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
			if err := capability.Check(bits, r); err != nil {
				return nil, err
			}
			return q.Ask(ctx, r)
		}})}
}

// sealQuestion returns the params of a question of a server, in which a task is named by the id that the
// client knows. A task that it does not know is not named.
func (c *connection) sealQuestion(r facade.ServerRequest) json.RawMessage {
	return tasktext.Question(r.Params, func(id string) string { return c.tasks.SealedOf(c.owner, c.taskName(r.Server, id)) })
}
