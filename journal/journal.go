package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
)

// Options bound a [Journal]. The zero value has the defaults.
type Options struct {
	// Retention is how long the entry of a call is kept after it was written last. Then the
	// key is free again, so choose it longer than anybody repeats a call. Default: 7 days.
	Retention time.Duration
	// MaxEntries bounds how many calls are kept. When the journal is full, a call with a new key
	// fails with ErrJournal and is not sent. Default: 100,000.
	MaxEntries int
	// MaxBytes bounds the entries in bytes; the file is up to about twice as large. A result
	// that finds no room is not kept. Default: 256 MiB.
	MaxBytes int64

	// now is time.Now; tests set the clock.
	now func() time.Time
}

// Journal is a [mcpvisor.Journal] in a file. One process at a time has it open. Writes of
// many callers are made durable together. Safe for concurrent use.
type Journal struct {
	mcpvisor.JournalLocks
	db     *bolt.DB
	unlock func() // lets other processes have the file
	opts   Options

	writes chan *write
	closed chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has returned
	close  sync.Once

	// The goroutine of the writer owns what follows.
	entries int       // how many there are
	size    int64     // of their keys and records, in bytes
	latest  time.Time // of the entry that was written last
	swept   []byte    // the key up to which expired entries were looked for
	broken  error     // the database has panicked; nothing more is written
}

var _ mcpvisor.Journal = (*Journal)(nil)

// write is one change that waits for the writer.
type write struct {
	key    string
	value  []byte // a record; nil: delete
	result error
	done   chan struct{} // closed when the change is durable, or has failed
}

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
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(path)
	if err != nil {
		return nil, err
	}
	db, err := open(path)
	if err != nil {
		unlock()
		return nil, err
	}
	j := &Journal{db: db, unlock: unlock, opts: o, writes: make(chan *write, 1), closed: make(chan struct{}), done: make(chan struct{})}
	err = db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(callsBucket).ForEach(func(key, value []byte) error {
			j.entries, j.size = j.entries+1, j.size+int64(len(key)+len(value))
			if at := updatedOf(value); at.After(j.latest) {
				j.latest = at
			}
			return nil
		})
	})
	if err != nil {
		unlock()
		return nil, errors.Join(err, db.Close())
	}
	go j.run()
	return j, nil
}

// Close completes the writes that were requested, and closes the file. Later uses fail. Close may
// be called more than once.
func (j *Journal) Close() error {
	var err error
	j.close.Do(func() {
		close(j.closed)
		<-j.done
		err = j.db.Close()
		j.unlock()
	})
	return err
}

// Get implements [mcpvisor.Journal].
func (j *Journal) Get(ctx context.Context, key mcpvisor.JournalKey) (e mcpvisor.JournalEntry, found bool, err error) {
	err = j.view(ctx, func(tx *bolt.Tx) error {
		name := encodeKey(key)
		value := tx.Bucket(callsBucket).Get(name)
		if value == nil {
			return nil
		}
		e, err = decode(name, value)
		e.Open = j.Held(key)
		found = err == nil && (e.Open || !e.Updated.Before(j.expiry()))
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
		return tx.Bucket(callsBucket).ForEach(func(key, value []byte) error {
			e, err := decode(key, value)
			if e.Open = j.Open(e.JournalKey()); err == nil && !e.Open && e.Updated.Before(expiry) {
				return ctx.Err()
			}
			e.Arguments, e.Result = nil, nil
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
	return guarded(func() error { return j.db.View(f) })
}

// Put implements [mcpvisor.Journal].
func (j *Journal) Put(ctx context.Context, e mcpvisor.JournalEntry) error {
	value, err := encode(e)
	if err != nil {
		return err
	}
	return j.write(ctx, &write{key: string(encodeKey(e.JournalKey())), value: value})
}

// Delete implements [mcpvisor.Journal].
func (j *Journal) Delete(ctx context.Context, key mcpvisor.JournalKey) error {
	return j.write(ctx, &write{key: string(encodeKey(key))})
}

// errClosed is the error of a journal that is closed.
var errClosed = errors.New("the journal is closed")

// write has the writer make a change, and waits until it is durable.
func (j *Journal) write(ctx context.Context, w *write) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.done = make(chan struct{})
	select {
	case j.writes <- w:
	case <-j.closed:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-w.done:
		return w.result
	case <-ctx.Done():
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

// maxBatch is how many changes one transaction makes.
const maxBatch = 1024

// run makes the changes. While one transaction is written, others gather: so callers that
// write at the same time share the wait for the disk.
func (j *Journal) run() {
	defer close(j.done)
	for {
		var batch []*write
		select {
		case w := <-j.writes:
			batch = append(batch, w)
		case <-j.closed:
			if batch = j.gather(nil); len(batch) == 0 {
				return
			}
		}
		j.commit(j.gather(batch))
	}
}

// gather adds the changes that wait already.
func (j *Journal) gather(batch []*write) []*write {
	for len(batch) < maxBatch {
		select {
		case w := <-j.writes:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

// commit makes changes durable, and tells who waits for them.
func (j *Journal) commit(batch []*write) {
	entries, size, latest := j.entries, j.size, j.latest
	err := j.broken
	if err == nil {
		err = guarded(func() error {
			return j.db.Update(func(tx *bolt.Tx) error {
				if err := j.sweep(tx, swept); err != nil {
					return err
				}
				for _, w := range batch {
					if err := j.apply(tx, w); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if errors.Is(err, ErrDamaged) {
			j.broken = err
		}
	}
	if err != nil {
		j.entries, j.size, j.latest = entries, size, latest
	}
	for _, w := range batch {
		if err != nil {
			w.result = fmt.Errorf("write the journal %s: %w", j.db.Path(), err)
		}
		close(w.done)
	}
}

// swept is how many entries one transaction looks at, to find some that have expired.
const swept = 16

// sweep removes those of the next n entries that have expired.
func (j *Journal) sweep(tx *bolt.Tx, n int) error {
	var expired []string
	expiry := j.expiry()
	cursor := tx.Bucket(callsBucket).Cursor()
	key, value := cursor.Seek(j.swept)
	for ; n > 0 && key != nil; n-- {
		if updatedOf(value).Before(expiry) && !j.Open(decodeKey(key)) {
			expired = append(expired, string(key))
		}
		key, value = cursor.Next()
	}
	j.swept = bytes.Clone(key) // nil begins again
	for _, key := range expired {
		if err := j.remove(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// expiry is the time before which entries have expired.
func (j *Journal) expiry() time.Time { return j.opts.now().Add(-j.opts.Retention) }

// apply makes one change. The error ends the transaction; one of the change alone is in it.
func (j *Journal) apply(tx *bolt.Tx, w *write) error {
	if w.value == nil {
		return j.remove(tx, w.key)
	}
	known := tx.Bucket(callsBucket).Get([]byte(w.key)) != nil
	value := w.value
	if j.size+int64(len(value)) > j.opts.MaxBytes { // a result that finds no room is left out
		e, err := decode([]byte(w.key), value)
		if err == nil {
			e.Result = nil
			value, err = encode(e)
		}
		if err != nil {
			return err
		}
	}
	// A clock that was set back must not make entries old: they would expire too soon when it
	// is set right.
	at := updatedOf(value)
	if at.Before(j.latest) {
		at = j.latest
		setUpdated(value, at)
	}
	size := int64(len(w.key) + len(value))
	full := func() bool { return j.entries >= j.opts.MaxEntries || j.size+size > j.opts.MaxBytes }
	if !known && full() {
		j.swept = nil
		if err := j.sweep(tx, j.entries); err != nil {
			return err
		}
		if full() {
			w.result = j.full(tx)
			return nil
		}
	}
	calls := tx.Bucket(callsBucket)
	if before := calls.Get([]byte(w.key)); before != nil {
		j.entries, j.size = j.entries-1, j.size-int64(len(w.key)+len(before))
	}
	if err := calls.Put([]byte(w.key), value); err != nil {
		return err
	}
	j.entries, j.size, j.latest = j.entries+1, j.size+size, at
	return nil
}

// remove removes the entry of a key, if there is one.
func (j *Journal) remove(tx *bolt.Tx, key string) error {
	calls := tx.Bucket(callsBucket)
	value := calls.Get([]byte(key))
	if value == nil {
		return nil
	}
	j.entries, j.size = j.entries-1, j.size-int64(len(key)+len(value))
	return calls.Delete([]byte(key))
}

// full is the error of an entry for which there is no room.
func (j *Journal) full(tx *bolt.Tx) error {
	oldest, now := j.latest, j.opts.now()
	_ = tx.Bucket(callsBucket).ForEach(func(_, value []byte) error {
		if at := updatedOf(value); at.Before(oldest) {
			oldest = at
		}
		return nil
	})
	text := ""
	if j.latest.After(now.Add(time.Hour)) {
		text = fmt.Sprintf("; its last entry is of %s, so the clock was set back since", j.latest.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("the journal %s is full: %d entries (at most %d) with %d bytes (at most %d); the oldest one expires in %v%s; raise MaxEntries or MaxBytes, or shorten Retention",
		j.db.Path(), j.entries, j.opts.MaxEntries, j.size, j.opts.MaxBytes, oldest.Add(j.opts.Retention).Sub(now).Round(time.Second), text)
}

// guarded calls a function of the database, and turns a panic into ErrDamaged: bbolt panics
// where its file was changed while it is open.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w while it was open: %v", ErrDamaged, p)
		}
	}()
	return f()
}
