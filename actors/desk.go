package actors

import (
	"sync"

	"github.com/mcpvisor/mcpvisor/messages"
)

// desk is what outlives a manager: the letters that it has not read, and what
// it has promised to whom. The mailbox of an actor that crashed is thrown away
// in silence, and with it every answer that somebody waits for; so the
// manager's letters lie here, and its mailbox carries only knocks.
type desk struct {
	mu      sync.Mutex
	letters []any

	// What follows belongs to the manager that is current. One has ended before
	// the next begins.
	entries map[string]*entry
	closing bool
}

// knock tells the manager that a letter lies on the desk. One that is lost is
// no loss: a new manager looks at the desk before anything else.
type knock struct{ messages.Letter }

// rollCall asks the parent of all servers which registrations up to a
// generation it has; roll is the answer.
type rollCall struct {
	messages.Letter
	upTo uint64
}

type roll struct {
	messages.Letter
	upTo    uint64
	present map[uint64]bool
}

func (d *desk) put(letter any) {
	d.mu.Lock()
	d.letters = append(d.letters, letter)
	d.mu.Unlock()
}

// take removes the oldest letter before it is read, so that one which crashes
// its reader is not read again. nil: there is none.
func (d *desk) take() any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.letters) == 0 {
		d.letters = nil
		return nil
	}
	letter := d.letters[0]
	d.letters[0] = nil
	d.letters = d.letters[1:]
	return letter
}
