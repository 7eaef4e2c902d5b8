package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/journal"
)

// keyedDriver makes calls with a key, each with its own.
type keyedDriver struct {
	*facadeDriver
	journal *journal.Journal
	keys    *atomic.Int64
}

func (a *keyedDriver) echo(ctx context.Context, text string) (string, error) {
	raw, err := a.c.CallToolRaw(ctx, a.tool, fmt.Appendf(nil, `{%q:%q}`, a.t.echoArg, text), facade.WithKey(fmt.Sprintf("order-%d", a.keys.Add(1))))
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(raw), text) {
		return "", fmt.Errorf("the result %.100s is not of %q", raw, text)
	}
	return a.t.expect(text), nil
}

func (a *keyedDriver) close() {
	a.facadeDriver.close()
	_ = a.journal.Close()
}

// boltDriver makes the two writes of a keyed call, and no call: the floor of any journal on
// this database. Many writers share transactions, as bbolt offers it.
type boltDriver struct {
	db    *bolt.DB
	t     target
	batch bool
	keys  atomic.Int64
}

func (a *boltDriver) name() string { return clientBare }

func (a *boltDriver) echo(_ context.Context, text string) (string, error) {
	key := fmt.Appendf(nil, "order-%d", a.keys.Add(1))
	for range 2 {
		put := func(tx *bolt.Tx) error { return tx.Bucket([]byte("calls")).Put(key, make([]byte, 300)) }
		err := error(nil)
		if a.batch {
			err = a.db.Batch(put)
		} else {
			err = a.db.Update(put)
		}
		if err != nil {
			return "", err
		}
	}
	return a.t.expect(text), nil
}

func (a *boltDriver) blob(context.Context, int) (string, error) { return "", nil }
func (a *boltDriver) close()                                    { _ = a.db.Close() }

// compareJournal compares calls with a key, which are written down before and after, with the
// writes alone.
func compareJournal(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "bench-journal-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t := stdioTarget("fast")
	w := newTable("Calls with a key, each written to the journal twice; bare: two writes of the database", append([]string{"callers"}, callColumns...)...)
	for _, callers := range []int{1, 64} {
		calls, err := journal.Open(filepath.Join(dir, fmt.Sprintf("calls-%d.db", callers)), journal.Options{MaxEntries: 10_000_000, MaxBytes: 4 << 30})
		if err != nil {
			return err
		}
		ours, err := newFacadeWith(ctx, t, true, mcpvisor.EraAuto, facade.WithJournal(calls, mcpvisor.JournalKeepAll))
		if err != nil {
			return err
		}
		keyed := &keyedDriver{ours, calls, new(atomic.Int64)}
		defer keyed.close()
		db, err := bolt.Open(filepath.Join(dir, fmt.Sprintf("bare-%d.db", callers)), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType})
		if err != nil {
			return err
		}
		db.MaxBatchDelay = time.Millisecond
		floor := &boltDriver{db: db, t: t, batch: callers > 1}
		defer floor.close()
		if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("calls")); return err }); err != nil {
			return err
		}
		drivers := []driver{keyed, floor}
		got, err := compare(ctx, drivers, t, callers, max(9, *rounds), max(*duration, time.Second), echoLoad)
		if err != nil {
			return err
		}
		rows(w, fmt.Sprint(callers), drivers, got)
	}
	return w.end()
}
