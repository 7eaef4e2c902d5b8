package clients

import (
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// TaskStatus is a task that a client has open. It does not have its id, which is a secret.
type TaskStatus struct {
	Server string `json:"server"`
	// Tool is empty if the task was made before the start of the gateway.
	Tool string `json:"tool,omitempty"`
	// State is the last one that the server reported, as "working".
	State string `json:"state"`
	// Since is when the gateway saw it first.
	Since time.Time `json:"since"`
}

// Task is a task that is counted. A nil *Task counts nothing.
type Task struct {
	client *Client
	status TaskStatus // guarded by the mutex of the registry
}

// OpenTask counts a task that works. It needs one [Task.End].
func (c *Client) OpenTask(server, tool string) *Task {
	if c == nil {
		return nil
	}
	t := &Task{client: c, status: TaskStatus{Server: strings.Clone(server), Tool: oneLine(tool), State: "working", Since: c.registry.now()}}
	c.registry.mu.Lock()
	defer c.registry.mu.Unlock()
	if c.tasks == nil {
		c.tasks = map[*Task]bool{}
	}
	c.tasks[t] = true
	return t
}

// SetState notes what the server has said.
func (t *Task) SetState(state string) {
	if t == nil {
		return
	}
	state = oneLine(state)
	t.client.registry.mu.Lock()
	defer t.client.registry.mu.Unlock()
	t.status.State = state
}

// End says that the task is no longer open. It may be called more than once.
func (t *Task) End() {
	if t == nil {
		return
	}
	t.client.registry.mu.Lock()
	defer t.client.registry.mu.Unlock()
	delete(t.client.tasks, t)
}

// oneLine is a text as it is shown.
func oneLine(text string) string {
	return strings.Clone(display.Prefix(display.Line(display.Prefix(text, 2*maxText)), maxText))
}

// statusLocked is what is shown of a client.
func (c *Client) statusLocked() SessionStatus {
	s := c.session
	s.Tasks, s.OpenTasks = len(c.tasks), make([]TaskStatus, 0, len(c.tasks))
	for t := range c.tasks {
		s.OpenTasks = append(s.OpenTasks, t.status)
	}
	slices.SortFunc(s.OpenTasks, func(a, b TaskStatus) int { return b.Since.Compare(a.Since) })
	s.OpenTasks = s.OpenTasks[:min(len(s.OpenTasks), maxTasks)]
	return s
}
