package facade

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
)

// guardedJournal is the store of the host. A method that panics, or ends its goroutine, fails. Those
// that change nothing return when their context ends.
type guardedJournal struct{ host mcpvisor.Journal }

// hostJournal names the store in errors.
const hostJournal = "Journal"

// Lock implements mcpvisor.Journal.
func (g guardedJournal) Lock(ctx context.Context, key mcpvisor.JournalKey) (func(), error) {
	unlock, err := hostcall.Wait(ctx, hostJournal, func(unlock func()) { unlock() }, func(ctx context.Context) (func(), error) { return g.host.Lock(ctx, key) })
	if err == nil && unlock == nil {
		err = errors.New("the host's Journal returned no function that unlocks the key")
	}
	return guardedFunc(unlock), err
}

// guardedFunc is a function of the store that returns nothing.
func guardedFunc(f func()) func() {
	return func() {
		_ = hostcall.Do(context.Background(), hostJournal, func(context.Context) error { f(); return nil })
	}
}

// Hold implements mcpvisor.Journal. A key that cannot be held may expire.
func (g guardedJournal) Hold(key mcpvisor.JournalKey) func() {
	release, _ := hostcall.Wait(context.Background(), hostJournal, nil, func(context.Context) (func(), error) { return g.host.Hold(key), nil })
	return guardedFunc(release)
}

// Get implements mcpvisor.Journal.
func (g guardedJournal) Get(ctx context.Context, key mcpvisor.JournalKey) (mcpvisor.JournalEntry, bool, error) {
	e, err := hostcall.Wait(ctx, hostJournal, nil, func(ctx context.Context) (*mcpvisor.JournalEntry, error) {
		e, ok, err := g.host.Get(ctx, key)
		if !ok {
			return nil, err
		}
		return &e, err
	})
	if err != nil || e == nil {
		return mcpvisor.JournalEntry{}, false, err
	}
	return *e, true, nil
}

// Put implements mcpvisor.Journal. It returns when that of the host has: a later change of the key must
// not come before it.
func (g guardedJournal) Put(ctx context.Context, e mcpvisor.JournalEntry) error {
	return hostcall.Do(context.WithoutCancel(ctx), hostJournal, func(context.Context) error { return g.host.Put(ctx, e) })
}

// Delete implements mcpvisor.Journal, as Put does.
func (g guardedJournal) Delete(ctx context.Context, key mcpvisor.JournalKey) error {
	return hostcall.Do(context.WithoutCancel(ctx), hostJournal, func(context.Context) error { return g.host.Delete(ctx, key) })
}

// Entries implements mcpvisor.Journal.
func (g guardedJournal) Entries(ctx context.Context) ([]mcpvisor.JournalEntry, error) {
	return hostcall.Wait(ctx, hostJournal, nil, g.host.Entries)
}

const (
	// journalPatience is how long a caller whose answer has come waits for a change of the journal. The
	// change is made in any case.
	journalPatience = 3 * time.Second
	// journalClosing is how long Close waits for changes of the journal.
	journalClosing = 5 * time.Second
)

// journalWrites are the calls of a client that have a key locked, and their changes of the journal that
// are under way. Safe for concurrent use.
type journalWrites struct {
	ctx  context.Context // of the changes; ends when Close waits no longer
	stop context.CancelFunc
	// room bounds what changes hold that wait for the store. Without room, results are not kept.
	room *budget.Budget

	mu   sync.Mutex // guards the fields below
	n    int
	idle chan struct{} // closed when n is 0 again
}

func newJournalWrites(room *budget.Budget) *journalWrites {
	w := &journalWrites{room: room}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

func (w *journalWrites) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; w.n == 1 {
		w.idle = make(chan struct{})
	}
}

func (w *journalWrites) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 {
		close(w.idle)
	}
}

// close waits until there are none, or no longer than journalClosing.
func (w *journalWrites) close(ctx context.Context) {
	w.mu.Lock()
	n, idle := w.n, w.idle
	w.mu.Unlock()
	if n == 0 {
		return
	}
	timer := time.NewTimer(journalClosing)
	defer timer.Stop()
	select {
	case <-idle:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	w.stop()
}

// A journalWrite is a change of the journal that is under way.
type journalWrite struct {
	done chan struct{}
	err  error // valid when done is closed
}

// ended reports whether the change was made, or has failed.
func (w *journalWrite) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// wait waits until the change was made, and reports whether it was: the store may be slow.
func (w *journalWrite) wait() bool {
	timer := time.NewTimer(journalPatience)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

// begin makes a change of the journal in the background, behind the one before. The change keeps e in
// memory until it is made. If there is no room for that, e loses its result and arguments.
func (k *keyedCall) begin(e *mcpvisor.JournalEntry, change func(ctx context.Context, store mcpvisor.Journal) error) *journalWrite {
	w, before := &journalWrite{done: make(chan struct{})}, k.last
	k.last = w
	k.c.writes.add()
	go func() {
		defer k.c.writes.done()
		defer close(w.done)
		share := k.c.writes.room.Share()
		defer share.Release()
		if held := storedCopies*len(e.Result) + len(e.Arguments); held > 0 {
			room, cancel := context.WithTimeout(k.c.writes.ctx, journalPatience)
			if share.Grow(room, nil, held) != nil {
				e.Result, e.Arguments = nil, nil
			}
			cancel()
		}
		if before != nil {
			<-before.done
		}
		w.err = change(k.c.writes.ctx, k.c.opts.journal.store)
	}()
	return w
}

// beginPut stores the entry as it is now. If it waits so long that the memory for results is used up,
// it is stored without them.
func (k *keyedCall) beginPut() *journalWrite {
	k.entry.Updated = time.Now()
	e := k.entry
	return k.begin(&e, func(ctx context.Context, store mcpvisor.Journal) error { return k.note(store.Put(ctx, e)) })
}

// storedCopies is how often a result is in memory while it is stored: the store and the disk have it, too.
const storedCopies = 3

// note logs the error of a change that was made after the call was sent. The caller gets the answer
// nevertheless: the journal then knows less, so the key sends nothing, either.
func (k *keyedCall) note(err error) error {
	if err != nil {
		k.c.opts.logger.Error().Err(err).Str("server", k.entry.Server).Str("tool", k.entry.Tool).Str("key", k.entry.Key).
			Msg("the journal could not note how far a call came")
	}
	return err
}
