// Package regularfile reads files that a user names, such as configurations and tokens. A pipe or a
// device in their place, and a file system that does not answer, cost an error and not the reader.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrNotRegular says that a name is that of a directory, a pipe, a socket or a device.
var ErrNotRegular = errors.New("it is not a regular file")

// ErrLong says that a file has more bytes than are read.
var ErrLong = errors.New("it is too long")

// patience is how long a file system has for one file.
const patience = 5 * time.Second

// files reads for all callers.
var files = reader{read: readNow, patience: patience}

// Read returns the content of a regular file of at most that many bytes; links are followed. The error is
// one of os.Open, [ErrNotRegular] or [ErrLong], or says that the file system does not answer.
func Read(path string, most int) ([]byte, error) { return files.readFile(path, most) }

// reader reads files. Safe for concurrent use.
type reader struct {
	read     func(path string, most int) ([]byte, error)
	patience time.Duration

	mu      sync.Mutex
	hanging map[string]int // how many reads of a file have not returned in time; guarded by mu
}

// pending is a read that is under way. The mutex of its reader guards it.
type pending struct {
	returned, hangs bool
	data            []byte
	err             error
}

// readFile reads in a goroutine, because nothing ends a read of a file system that hangs. While such
// a read has not returned, no further one of its file begins.
func (r *reader) readFile(path string, most int) ([]byte, error) {
	silent := &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("its file system has not answered within %v", r.patience)}
	r.mu.Lock()
	hangs := r.hanging[path] > 0
	r.mu.Unlock()
	if hangs {
		return nil, silent
	}
	p, done := new(pending), make(chan struct{})
	go func() {
		defer close(done)
		data, err := r.read(path, most)
		r.mu.Lock()
		defer r.mu.Unlock()
		p.returned, p.data, p.err = true, data, err
		if !p.hangs {
			return
		}
		if r.hanging[path]--; r.hanging[path] == 0 {
			delete(r.hanging, path)
		}
	}()
	select {
	case <-done:
	case <-time.After(r.patience):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.returned {
		return p.data, p.err
	}
	if r.hanging == nil {
		r.hanging = map[string]int{}
	}
	p.hangs = true
	r.hanging[path]++
	return nil, silent
}

// readNow reads a file. It does not wait for the writer of a pipe that takes the place of the file meanwhile.
func readNow(path string, most int) ([]byte, error) {
	failed := func(err error) ([]byte, error) { return nil, &fs.PathError{Op: "read", Path: path, Err: err} }
	info, err := os.Stat(path) // to open a device may change it
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return failed(ErrNotRegular)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return failed(ErrNotRegular)
	}
	long := fmt.Errorf("%w: longer than %d bytes", ErrLong, most)
	if info.Size() > int64(most) {
		return failed(long)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1)) // the size of a file of /proc is 0, and a file may grow
	if err == nil && len(data) > most {
		return failed(long)
	}
	return data, err
}
