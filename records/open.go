package records

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/filelock"
	"github.com/mcpvisor/mcpvisor/internal/ownfile"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Open opens a directory to append records to it, and makes it if it does not exist, for this user only. What a crash has left
// at the end, behind the anchor, is cut off, and a record says so. It checks the records since the last anchored file: a
// damage that the anchor proves is a *[DamageError], and nothing is changed. One writer at a time can have a directory.
func Open(dir string, options Options) (*Writer, error) {
	if err := options.complete(dir); err != nil {
		return nil, err
	}
	own, err := ownfile.OpenDir(dir, true)
	if err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	own.Close()
	if err := checkAnchorPlace(options.Anchor); err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	unlock, busy, err := filelock.TryLock(filepath.Join(dir, "lock"))
	if busy {
		err = errors.New("another process writes there; end it, or use another directory")
	}
	if err != nil {
		return nil, fmt.Errorf("open the records in %s: %w", dir, err)
	}
	w := &Writer{dir: dir, options: options, unlock: unlock, wake: make(chan struct{}, 1), ended: make(chan struct{}), reserved: reservedBytes, servers: conditions{}, tasks: map[string]monitor.EndedCall{}}
	w.room = sync.NewCond(&w.mu)
	if err := w.recover(); err != nil {
		if w.file != nil {
			_ = w.file.Close()
		}
		unlock()
		return nil, err
	}
	w.report(nil)
	go w.run()
	return w, nil
}

// recover reads how far the records go, and repairs their end.
func (w *Writer) recover() (err error) {
	if w.files, err = segments(w.dir); err != nil {
		return err
	}
	a, err := readAnchor(w.options.Anchor, w.options.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.isNew():
		return w.create()
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the records in %s have no anchor at %s; bring it back, or move the records away", w.dir, w.options.Anchor)
	case err != nil:
		return err
	}
	for len(w.files) > 0 && w.files[0].first < a.First { // a crash came before it was deleted
		if err := os.Remove(w.files[0].path); err != nil {
			return fmt.Errorf("open the records: %w", err)
		}
		w.files = w.files[1:]
	}
	from := 0
	for from < len(w.files) && w.files[from].first != a.Segment {
		from++
	}
	if from == len(w.files) {
		return &DamageError{w.dir, 0, fmt.Errorf("the file %s, which the anchor names, is missing", segmentName(a.Segment))}
	}
	var cut int64
	if last := w.files[len(w.files)-1]; len(w.files)-1 > from { // begun just before a crash, perhaps without a whole line
		if err := new(chain).walk(last, true, nil); (err == nil || errors.Is(err, errTorn)) && hasNoLine(last) {
			cut += last.bytes
			if err := os.Remove(last.path); err != nil {
				return fmt.Errorf("open the records: %w", err)
			}
			w.files = w.files[:len(w.files)-1]
		}
	}
	torn, err := w.chain.all(w.files[from:], a, func(Record, hash) error { return nil })
	if err != nil {
		return err
	}
	last := &w.files[len(w.files)-1]
	if w.file, err = os.OpenFile(last.path, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("open the records: %w", err)
	}
	if torn {
		cut += last.bytes - w.chain.end
		if err := w.file.Truncate(w.chain.end); err != nil {
			return fmt.Errorf("open the records: %w", err)
		}
		last.bytes = w.chain.end
	}
	if cut > 0 {
		w.queue = append(w.queue, entry{Record: Record{Kind: KindRepair, Lost: uint64(cut),
			Text: display.Count(cut, "byte") + " at the end were cut off: a line that was not written whole"}})
	}
	return w.start(a.First)
}

// isNew reports whether there are no records, or just the first line of a writer that was killed before its first anchor.
func (w *Writer) isNew() bool {
	if len(w.files) != 1 || w.files[0].first != 1 {
		return len(w.files) == 0
	}
	var c chain
	err := c.walk(w.files[0], true, nil)
	return (err == nil || errors.Is(err, errTorn)) && c.line <= 1
}

// hasNoLine reports whether a file has no whole line.
func hasNoLine(s segment) bool {
	none := true
	_ = eachLine(s.path, func([]byte) error { none = false; return errTorn })
	return none
}

// create begins the first file.
func (w *Writer) create() error {
	for _, s := range w.files {
		if err := os.Remove(s.path); err != nil {
			return fmt.Errorf("open the records: %w", err)
		}
	}
	w.files = nil
	if err := w.begin(nil); err != nil {
		return err
	}
	return w.start(1)
}

// start anchors what is on disk, and notes the start.
func (w *Writer) start(first uint64) error {
	w.queue = append(w.queue, entry{Record: Record{Kind: KindStart}})
	w.signal()
	return w.writeAnchor(first)
}
