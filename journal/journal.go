package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
)

// Options bound a [Journal]. The zero value has the defaults.
type Options struct {
	// Retention is how long the entry of a call is kept after it was written last, while no call
	// with its key is being made and its task is not followed. Then the key is free again, so
	// choose a time after which callers no longer repeat a call. Default: 7 days.
	Retention time.Duration
	// MaxEntries bounds how many calls are kept. When the journal is full, a call with a new key
	// fails with ErrJournal and is not sent. Default: 100,000.
	MaxEntries int
	// MaxBytes bounds the entries in bytes; the file is up to about three times as large. A result
	// that finds no room is not kept. Default: 256 MiB.
	MaxBytes int64

	// now is time.Now, and elapsed how long the journal has been open by a clock that nothing
	// sets; tests set both.
	now     func() time.Time
	elapsed func() time.Duration
}

// Journal is a [mcpvisor.Journal] in a file. One process at a time has it open, and its clients
// share one Journal. Writes of many callers are made durable together. Safe for concurrent use.
type Journal struct {
	mcpvisor.JournalLocks
	path   string
	unlock func() // lets other processes have the file
	opts   Options
	base   time.Time // the time of the journal when it was opened; see now

	mu   sync.RWMutex                // held for reading while db is used by others than the writer
	db   *bolt.DB                    // the writer replaces it
	file atomic.Pointer[os.FileInfo] // of db after the last transaction

	broken atomic.Pointer[error]    // the file is damaged; it is used no more
	full   atomic.Pointer[fullness] // nil: no sweep has found it full

	ends   chan *write   // of calls that were begun; they go first
	fresh  chan *write   // of calls that begin
	closed chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has returned
	close  sync.Once

	// The goroutine of the writer owns what follows.
	entries int           // how many there are
	size    int64         // of their keys and records, in bytes
	swept   []byte        // the key up to which expired entries were looked for
	looked  int           // how many entries sweeps have looked at
	free    int64         // bytes of the file that must be free before it is compacted
	ahead   time.Duration // how far the clock was ahead of now when noteClock looked last
}

var _ mcpvisor.Journal = (*Journal)(nil)

// write is one change that waits for the writer.
type write struct {
	key    string
	value  []byte       // a record; nil: delete
	renews bool         // the entry is kept as it is, and longer
	state  atomic.Int32 // waiting, taken or abandoned
	result error
	done   chan struct{} // closed when the change is durable, or has failed
}

const (
	waiting int32 = iota
	taken
	abandoned // its caller has left, and it is not made
)

// Open opens the journal in a file, and creates the file (mode 0600) if it is missing or empty. It
// reads the whole file once, to find damage before a call relies on it. A second file, whose name ends
// in ".lock", keeps other processes out; it stays. Of a symbolic link, both are where it leads.
//
// Errors: ErrInUse, ErrDamaged, ErrNewer, and those of the operating system.
func Open(path string, o Options) (*Journal, error) {
	if o.Retention <= 0 {
		o.Retention = 7 * 24 * time.Hour
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 100_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.elapsed == nil {
		began := time.Now()
		o.elapsed = func() time.Duration { return time.Since(began) }
	}
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(path)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: path, unlock: unlock, opts: o, ends: make(chan *write, 1), fresh: make(chan *write, 1), closed: make(chan struct{}), done: make(chan struct{}), free: minFree}
	if j.db, err = open(path); err != nil {
		unlock()
		return nil, err
	}
	if err := errors.Join(j.count(), j.noteFile()); err != nil {
		unlock()
		return nil, errors.Join(err, j.db.Close())
	}
	go j.run()
	return j, nil
}

// count reads how many entries there are, and what time it is for the journal.
func (j *Journal) count() error {
	var last stamp
	err := j.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(metaBucket).Get(clockKey); len(b) == stampBytes {
			last = readStamp(b)
		}
		return tx.Bucket(callsBucket).ForEach(func(key, value []byte) error {
			j.entries, j.size = j.entries+1, j.size+int64(len(key)+len(value))
			if s := stampOf(value); s.at.After(last.at) {
				last = s
			}
			return nil
		})
	})
	now := j.opts.now()
	j.base = now
	if last != (stamp{}) {
		j.base = last.at.Add(max(now.Sub(last.clock), 0))
	}
	j.ahead = now.Sub(j.base)
	if err != nil || !now.Before(last.clock) {
		return err
	}
	// The clock was set back since: from now on, time is counted from here.
	return j.putClock(stamp{j.base, now})
}

// now is the time of the journal, by which entries expire: the clock of the first host, which no
// change of a clock sets back or forward while a host runs. Between two hosts as much time passes as
// the clock says, and none if it was set back.
func (j *Journal) now() time.Time { return j.base.Add(j.opts.elapsed()) }

// expiry is the time before which entries have expired.
func (j *Journal) expiry() time.Time { return j.now().Add(-j.opts.Retention) }

// Close completes the writes that were requested, and closes the file. Later uses fail. Close may
// be called more than once.
func (j *Journal) Close() error {
	var err error
	j.close.Do(func() {
		close(j.closed)
		<-j.done
		// A transaction that has panicked may hold the locks of the database: then that stays open.
		if broken := j.broken.Load(); broken == nil || !errors.Is(*broken, errFault) {
			j.mu.Lock()
			defer j.mu.Unlock()
			err = j.db.Close()
		}
		j.unlock()
	})
	return err
}

// Get implements [mcpvisor.Journal].
func (j *Journal) Get(ctx context.Context, key mcpvisor.JournalKey) (e mcpvisor.JournalEntry, found bool, err error) {
	err = j.view(ctx, func(tx *bolt.Tx) error {
		name := encodeKey(key)
		value := tx.Bucket(callsBucket).Get(name)
		held := j.Held(key)
		if value == nil || !held && stampOf(value).at.Before(j.expiry()) {
			return nil
		}
		e, err = decode(name, value)
		e.Open, found = held, err == nil
		return err
	})
	if !found {
		e = mcpvisor.JournalEntry{}
	}
	return e, found, err
}

// Entries implements [mcpvisor.Journal].
func (j *Journal) Entries(ctx context.Context) (all []mcpvisor.JournalEntry, err error) {
	err = j.view(ctx, func(tx *bolt.Tx) error {
		expiry := j.expiry()
		return tx.Bucket(callsBucket).ForEach(func(name, value []byte) error {
			open := j.Open(decodeKey(name))
			if ctx.Err() != nil || !open && stampOf(value).at.Before(expiry) {
				return ctx.Err()
			}
			e, _, err := decodeHead(name, value)
			e.Open = open
			all = append(all, e)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b mcpvisor.JournalEntry) int {
		return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.Key, b.Key), strings.Compare(a.Principal, b.Principal))
	})
	return all, nil
}

// view reads from the database.
func (j *Journal) view(ctx context.Context, f func(tx *bolt.Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-j.closed:
		return errClosed
	default:
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	err := j.transact(func() error { return j.db.View(f) })
	if err != nil {
		err = fmt.Errorf("read the journal %s: %w", j.path, err)
	}
	return err
}

// transact runs a transaction, unless the file is damaged. If the file was cut, replaced or removed
// while it was open, it is used no more: what it holds, and what would be written, is lost.
func (j *Journal) transact(f func() error) error {
	if broken := j.broken.Load(); broken != nil {
		return *broken
	}
	err := j.intact()
	if err == nil {
		if err = guarded(f); !errors.Is(err, errFault) {
			return err
		}
	}
	if errors.Is(err, ErrDamaged) {
		j.broken.CompareAndSwap(nil, &err)
	}
	return err
}

// intact compares the file with the one that was opened.
func (j *Journal) intact() error {
	info, err := os.Stat(j.path) //nolint:gosec // the host names its file
	was := *j.file.Load()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: the file was removed while it was open", ErrDamaged)
	case err != nil:
		return err
	case !os.SameFile(was, info):
		return fmt.Errorf("%w: another file took its place while it was open", ErrDamaged)
	case info.Size() < was.Size():
		return fmt.Errorf("%w: the file was cut while it was open, from %d bytes to %d", ErrDamaged, was.Size(), info.Size())
	}
	return nil
}

// noteFile notes what intact compares with.
func (j *Journal) noteFile() error {
	info, err := os.Stat(j.path)
	if err == nil {
		j.file.Store(&info)
	}
	return err
}

// errFault is in the error of a transaction that has panicked.
var errFault = fmt.Errorf("%w while it was open", ErrDamaged)

// guarded calls a function of the database, and turns a panic into errFault: bbolt panics where its
// file makes no sense, and a page of the file that is mapped to memory and cannot be read is a fault.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errFault, p)
		}
	}()
	return f()
}

// Put implements [mcpvisor.Journal].
func (j *Journal) Put(ctx context.Context, e mcpvisor.JournalEntry) error {
	value, err := encode(e)
	if err != nil {
		return err
	}
	w := &write{key: string(encodeKey(e.JournalKey())), value: value}
	if e.State != mcpvisor.JournalSent {
		return j.write(ctx, j.ends, w)
	}
	// Without room, a new key is refused here: it must cost those that wait for the writer nothing.
	if f := j.full.Load(); f != nil && f.refuses(j.now(), w.size()) {
		known := false
		err := j.view(ctx, func(tx *bolt.Tx) error {
			known = tx.Bucket(callsBucket).Get([]byte(w.key)) != nil
			return nil
		})
		if err != nil || !known {
			return cmp.Or(err, j.errFull(f))
		}
	}
	return j.write(ctx, j.fresh, w)
}

// Delete implements [mcpvisor.Journal].
func (j *Journal) Delete(ctx context.Context, key mcpvisor.JournalKey) error {
	return j.write(ctx, j.ends, &write{key: string(encodeKey(key))})
}

// errClosed is the error of a journal that is closed.
var errClosed = errors.New("the journal is closed")

// write has the writer make a change, and waits until it is durable.
func (j *Journal) write(ctx context.Context, queue chan<- *write, w *write) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.done = make(chan struct{})
	select {
	case queue <- w:
	case <-j.closed:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-w.done:
		return w.result
	case <-ctx.Done():
		w.state.CompareAndSwap(waiting, abandoned) // a later change of the key must not come before it
		return context.Cause(ctx)
	case <-j.done: // it may have been the last one
		select {
		case <-w.done:
			return w.result
		default:
			return errClosed
		}
	}
}
