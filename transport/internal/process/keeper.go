package process

import "sync"

// Keeper keeps what all servers of this process share (on Linux the watchdog, the parent
// threads, the spare descriptors and the goroutines that watch pipes) from the end of one server to the start of the next.
// Otherwise they end with the last server, and the next one has to wait for new ones. A
// nil Keeper does nothing. Safe for concurrent use.
type Keeper struct {
	mu    sync.Mutex
	keeps bool // guarded by mu
}

// Keep begins to keep, unless it does already. It is called while a server runs.
func (k *Keeper) Keep() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.keeps {
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
	if !k.keeps {
		return nil
	}
	k.keeps = false
	return releaseShared
}
