package process

import "sync"

// Keeper keeps what all servers of this process share (on Linux the watchdog, the parent
// threads and the spare descriptors) from the end of one server to the start of the next.
// Otherwise they end with the last server, and the next one has to wait for new ones. A
// nil Keeper does nothing. Safe for concurrent use.
type Keeper struct {
	mu     sync.Mutex // guards what follows
	wanted bool       // Keep was called, and not Release since
	keeps  bool
}

// Keep has the keeper begin with the next server that is started.
func (k *Keeper) Keep() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = true
}

// Started is called when a server was started, while it has not ended.
func (k *Keeper) Started() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted && !k.keeps {
		k.keeps = true
		keepShared()
	}
}

// Release ends the keeping. It returns what is left to do, which may take a moment; nil if
// nothing was kept.
func (k *Keeper) Release() (finish func()) {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = false
	if !k.keeps {
		return nil
	}
	k.keeps = false
	return releaseShared
}
