package peer

import (
	"encoding/json"
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
)

// A server may make a task of a call with facade.WithTaskRelay. Then the result is the task as the
// server has sent it, and messageTask says which one it is, as the node of the server knows it.

// maxTaskID bounds the id of a task, as the facade does.
const maxTaskID = 1 << 10

func encodeTask(t *facade.TaskRelay, result json.RawMessage) []byte {
	b := make([]byte, 1, len(t.ID)+len(result)+4)
	if t.Modern {
		b[0] = 1
	}
	return append(varint.AppendText(b, t.ID), result...)
}

// finishTask ends the call with a task.
func (p *pending) finishTask(body []byte) error {
	r := varint.Reader{Rest: body}
	modern, id := r.Byte(), r.Text()
	if r.Failed || modern > 1 || id == "" || len(id) > maxTaskID {
		return errors.New("a task that cannot be read")
	}
	p.mu.Lock()
	p.task = facade.TaskRelay{ID: id, Modern: modern == 1}
	p.mu.Unlock()
	p.finish(r.Rest, nil)
	return nil
}

// take returns how the call has ended, and tells its caller which task was made of it.
func (p *pending) take() (json.RawMessage, *mcpvisor.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.task.ID != "" {
		p.relay.Server, p.relay.ID, p.relay.Modern = p.server, p.task.ID, p.task.Modern
	}
	return p.result, p.err
}
