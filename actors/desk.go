package actors

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/messages"
)

// inbox is what outlives a manager: the letters that it has not read, and what
// it has promised to whom. The mailbox of an actor that crashed is thrown away
// in silence, and with it every answer that somebody waits for; so the
// manager's letters lie here, and its mailbox carries only knocks.
type inbox struct {
	mu       sync.Mutex
	messages []any

	// What follows belongs to the manager that is current. One has ended before
	// the next begins.
	registrations map[string]*registration
	closing       bool
}

// wake tells the manager that a letter lies on the desk. One that is lost is
// no loss: a new manager looks at the desk before anything else.
type wake struct{ messages.Letter }

// reconcileRequest asks the parent of all servers which registrations up to a
// generation it has; roll is the answer.
type reconcileRequest struct {
	messages.Letter
	upTo uint64
}

type reconcileReply struct {
	messages.Letter
	upTo    uint64
	present map[uint64]bool
}

func (d *inbox) push(letter any) {
	d.mu.Lock()
	d.messages = append(d.messages, letter)
	d.mu.Unlock()
}

// pop removes the oldest letter before it is read, so that one which crashes
// its reader is not read again. nil: there is none.
func (d *inbox) pop() any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.messages) == 0 {
		d.messages = nil
		return nil
	}
	letter := d.messages[0]
	d.messages[0] = nil
	d.messages = d.messages[1:]
	return letter
}
