package actors

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/messages"
)

// inbox holds the messages to the manager that no manager has handled yet. The actor
// library drops the mailbox of an actor that crashed, and with it every reply that a
// caller waits for. So the messages wait here, where the next manager finds them, and
// the mailbox carries only [wake]. Safe for concurrent use.
type inbox struct {
	mu       sync.Mutex
	messages []messages.Message // oldest first
}

// wake tells the manager that the inbox holds a message. One that reaches a manager that
// has crashed does no harm: root wakes each new manager.
type wake struct{ messages.Base }

func (i *inbox) push(m messages.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.messages = append(i.messages, m)
}

// pop removes the oldest message. It does so before the message is handled: one that
// crashes the manager is not handled again.
func (i *inbox) pop() (m messages.Message, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.messages) == 0 {
		i.messages = nil
		return nil, false
	}
	m = i.messages[0]
	i.messages[0] = nil
	i.messages = i.messages[1:]
	return m, true
}

// depth is how many messages wait.
func (i *inbox) depth() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.messages)
}
