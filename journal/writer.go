package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
)

// maxBatch is how many changes one transaction makes.
const maxBatch = 1024

// run makes the changes. While one transaction is written, others gather: so callers that
// write at the same time share the wait for the disk.
func (j *Journal) run() {
	defer close(j.done)
	ticker := time.NewTicker(min(max(j.opts.Retention/4, time.Millisecond), time.Minute))
	defer ticker.Stop()
	for {
		var ends, fresh []*write
		select {
		case w := <-j.ends:
			ends = append(ends, w)
		case w := <-j.fresh:
			fresh = append(fresh, w)
		case <-ticker.C:
			j.noteClock()
			ends = j.renewals()
		case <-j.closed:
			if ends, fresh = gather(j.ends, nil), gather(j.fresh, nil); len(ends)+len(fresh) == 0 {
				j.noteClock()
				return
			}
		}
		// The ends of calls go first: they have happened, and cannot be refused.
		ends = gather(j.ends, ends)
		batch := ends
		for _, w := range gather(j.fresh, fresh) {
			if w.state.CompareAndSwap(waiting, taken) {
				batch = append(batch, w)
			}
		}
		if len(batch) > 0 {
			j.commit(batch)
			j.compact()
		}
	}
}

// noteClock writes down what the clock says, if that has changed by more than the time that has passed: it
// was set. The next host must not take that for time.
func (j *Journal) noteClock() {
	_ = j.transact(func() error {
		at := stamp{j.now(), j.opts.now()}
		ahead := at.clock.Sub(at.at)
		if (ahead - j.ahead).Abs() <= time.Second {
			return nil
		}
		j.ahead = ahead
		return j.putClock(at)
	})
}

// putClock stores what time it is for the journal, and what the clock says.
func (j *Journal) putClock(at stamp) error {
	return j.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket).Put(clockKey, at.append(nil)) })
}

// gather adds the changes that wait already.
func gather(queue <-chan *write, batch []*write) []*write {
	for len(batch) < maxBatch {
		select {
		case w := <-queue:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

// commit makes changes durable, and tells who waits for them.
func (j *Journal) commit(batch []*write) {
	entries, size, full := j.entries, j.size, j.full.Load()
	err := j.transact(func() error {
		return j.db.Update(func(tx *bolt.Tx) error {
			if _, err := j.sweep(tx, swept); err != nil {
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
	if err == nil {
		err = j.noteFile()
	} else {
		j.entries, j.size = entries, size
		j.full.Store(full)
	}
	if f := j.full.Load(); f != nil { // as full as it is now
		j.full.Store(j.fullness(f.until, f.oldest))
	}
	for _, w := range batch {
		if err != nil {
			w.result = fmt.Errorf("write the journal %s: %w", j.path, err)
		}
		close(w.done)
	}
}

// swept is how many entries one transaction looks at, to find some that have expired.
const swept = 16

// sweep removes those of the next n entries that have expired, and returns when the oldest of the
// others was written.
func (j *Journal) sweep(tx *bolt.Tx, n int) (oldest time.Time, err error) {
	var expired []string
	oldest = j.now()
	expiry := j.expiry()
	cursor := tx.Bucket(callsBucket).Cursor()
	key, value := cursor.Seek(j.swept)
	for ; n > 0 && key != nil; n-- {
		j.looked++
		switch at := stampOf(value).at; {
		case at.Before(expiry) && !j.Open(decodeKey(key)):
			expired = append(expired, string(key))
		case at.Before(oldest):
			oldest = at
		}
		key, value = cursor.Next()
	}
	j.swept = bytes.Clone(key) // nil begins again
	for _, key := range expired {
		if err := j.remove(tx, key); err != nil {
			return oldest, err
		}
	}
	return oldest, nil
}

// A fullness is what a sweep of all entries has left. Until then, none is made again.
type fullness struct {
	until, oldest time.Time
	entries       int
	size          int64
	full          bool  // no entry may be added
	free          int64 // bytes
}

func (j *Journal) fullness(until, oldest time.Time) *fullness {
	return &fullness{until, oldest, j.entries, j.size, j.entries >= j.opts.MaxEntries, j.opts.MaxBytes - j.size}
}

// refuses reports whether there is no room for a new entry of that many bytes.
func (f *fullness) refuses(now time.Time, bytes int64) bool {
	return now.Before(f.until) && (f.full || bytes > f.free)
}

// size is how many bytes a change adds for a new key.
func (w *write) size() int64 { return int64(len(w.key) + len(w.value)) }

// makeRoom looks for expired entries, and removes them, unless that was done a moment ago.
func (j *Journal) makeRoom(tx *bolt.Tx) error {
	now := j.now()
	if f := j.full.Load(); f != nil && now.Before(f.until) {
		return nil
	}
	j.swept = nil
	oldest, err := j.sweep(tx, j.entries)
	// Looking through a full journal takes long, and everybody waits for it. So it is done again when
	// the next entry expires, and not at once.
	pause := time.Second * time.Duration(1+j.entries/100_000)
	until := oldest.Add(j.opts.Retention)
	if soon := now.Add(pause); until.Before(soon) {
		until = soon
	}
	j.full.Store(j.fullness(until, oldest))
	return err
}

// apply makes one change. The error ends the transaction; one of the change alone is in it.
func (j *Journal) apply(tx *bolt.Tx, w *write) error {
	calls := tx.Bucket(callsBucket)
	before := calls.Get([]byte(w.key))
	switch {
	case w.renews:
		if before == nil {
			return nil
		}
		w.value = bytes.Clone(before)
	case w.value == nil:
		return j.remove(tx, w.key)
	}
	more := func() int64 {
		if before != nil {
			return int64(len(w.value) - len(before))
		}
		return w.size()
	}
	fits := func() bool {
		return j.size+more() <= j.opts.MaxBytes && (before != nil || j.entries < j.opts.MaxEntries)
	}
	if !fits() {
		if err := j.makeRoom(tx); err != nil {
			return err
		}
		before = calls.Get([]byte(w.key))
	}
	if !fits() { // a result that finds no room is left out
		e, err := decode([]byte(w.key), w.value)
		if err == nil {
			e.Result = nil
			w.value, err = encode(e)
		}
		if err != nil {
			return err
		}
	}
	if before == nil && !fits() {
		w.result = j.errFull(j.full.Load())
		return nil
	}
	stamp{j.now(), j.opts.now()}.set(w.value)
	if before == nil {
		j.entries++
	}
	j.size += more()
	return calls.Put([]byte(w.key), w.value)
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

// errFull is the error of an entry for which there is no room.
func (j *Journal) errFull(f *fullness) error {
	return fmt.Errorf("%w: %d entries (at most %d) with %d bytes (at most %d) in %s; the oldest one expires in %v; raise MaxEntries or MaxBytes, or shorten Retention",
		mcpvisor.ErrJournalFull, f.entries, j.opts.MaxEntries, f.size, j.opts.MaxBytes, j.path, max(f.oldest.Add(j.opts.Retention).Sub(j.now()), 0).Round(time.Second))
}

// renewals are writes that keep the entries of open keys: should this host end, the next one must
// find them.
func (j *Journal) renewals() (all []*write) {
	keys := j.OpenKeys()
	if len(keys) == 0 {
		return nil
	}
	old := j.now().Add(-j.opts.Retention / 2)
	_ = j.transact(func() error {
		return j.db.View(func(tx *bolt.Tx) error {
			for _, key := range keys {
				name := encodeKey(key)
				if value := tx.Bucket(callsBucket).Get(name); value != nil && stampOf(value).at.Before(old) {
					all = append(all, &write{key: string(name), renews: true, done: make(chan struct{})})
				}
			}
			return nil
		})
	})
	return all
}

// minFree is how much of a file must be free before it is compacted, in bytes.
const minFree = 4 << 20

// compact writes the entries to a new file, if more than half of the file is free: bbolt never makes a
// file shorter, and writes the list of its free pages with each transaction.
func (j *Journal) compact() {
	stats := j.db.Stats()
	free := int64(stats.FreeAlloc)
	if free < j.free || free < (*j.file.Load()).Size()/2 {
		return
	}
	path := j.path + ".compact"
	_ = os.Remove(path)
	err := j.transact(func() error {
		db, err := bolt.Open(path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoSync: true})
		if err != nil {
			return err
		}
		if err = bolt.Compact(db, j.db, compactBytes); err == nil {
			err = db.Sync()
		}
		db.NoSync = false
		if err == nil {
			err = j.replace(path, db)
		}
		if err != nil {
			err = errors.Join(err, db.Close())
		}
		return err
	})
	if j.free = minFree; err != nil { // the old file stays, and the next attempt is far
		j.free = 2 * free
		_ = os.Remove(path)
	}
}

// compactBytes bounds the transactions of a compaction, in bytes.
const compactBytes = 8 << 20

// replace puts a database in the place of the one that is open.
func (j *Journal) replace(path string, db *bolt.DB) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Rename(path, j.path); err != nil {
		return err
	}
	syncDirectory(j.path)
	old := j.db
	j.db = db
	_ = old.Close()
	j.file.Store(&info)
	return nil
}
