package daemon

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
)

const (
	// quietTime is how long nothing must happen to the files before they are read: a program
	// that writes them makes several changes.
	quietTime = 100 * time.Millisecond
	// maxQuietWait bounds the wait for that.
	maxQuietWait = 2 * time.Second
)

// follower reports changes of files. It watches their directories: most programs replace a
// file by another one of its name, and Kubernetes replaces a link in the directory. One
// goroutine uses it.
type follower struct {
	watcher  *fsnotify.Watcher
	files    []string
	resolved map[string]string // where the files are, through links
}

func newFollower(files []string) (*follower, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	f := &follower{watcher: w}
	return f, f.follow(files)
}

// follow replaces the files. Directories that do not exist are left out. It returns the first
// error about others.
func (f *follower) follow(files []string) (failed error) {
	f.files, f.resolved = files, resolve(files)
	var dirs []string
	for file, target := range f.resolved {
		dirs = append(dirs, filepath.Dir(file), filepath.Dir(target))
	}
	for _, dir := range f.watcher.WatchList() {
		if !slices.Contains(dirs, dir) {
			_ = f.watcher.Remove(dir) // it may be gone
		}
	}
	for _, dir := range dirs {
		if err := f.watcher.Add(dir); err != nil && failed == nil && exists(dir) {
			failed = err
		}
	}
	return failed
}

func exists(dir string) bool {
	_, err := filepath.EvalSymlinks(dir)
	return err == nil
}

// resolve returns where files are, by their absolute names.
func resolve(files []string) map[string]string {
	resolved := make(map[string]string, len(files))
	for _, file := range files {
		if abs, err := filepath.Abs(file); err == nil {
			file = abs
		}
		resolved[file] = file
		if target, err := filepath.EvalSymlinks(file); err == nil {
			resolved[file] = target
		}
	}
	return resolved
}

// concerns reports whether an event in a directory may be about one of the files.
func (f *follower) concerns(name string) bool {
	for file, target := range f.resolved {
		if name == file || name == target {
			return true
		}
	}
	for file, target := range resolve(f.files) {
		if f.resolved[file] != target {
			return true
		}
	}
	return false
}

// run calls changed once for each burst of changes, until ctx ends. changed returns the files
// to follow from then on.
func (f *follower) run(ctx context.Context, changed func() []string) {
	defer func() { _ = f.watcher.Close() }()
	f.read(changed) // what has changed before the files were watched
	watchBursts(ctx, f.watcher.Events, f.watcher.Errors, f.concerns, func() { f.read(changed) })
}

// read calls changed, and again while the files are found elsewhere afterwards: the events of
// what happened there before it was watched, or to a link meanwhile, are lost.
func (f *follower) read(changed func() []string) {
	for {
		before := f.resolved
		if _ = f.follow(changed()); maps.Equal(before, f.resolved) {
			return
		}
	}
}

// watchBursts calls changed when nothing has happened for quietTime after an event that
// concerns the files, or for maxQuietWait at the latest, until ctx ends. After an error
// events may be lost, so it counts as one.
func watchBursts(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, concerns func(name string) bool, changed func()) {
	quiet := time.NewTimer(quietTime)
	quiet.Stop()        // since Go 1.23 nothing of it is received after that
	var began time.Time // of the burst; zero without one
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if !concerns(e.Name) {
				continue
			}
		case err := <-errs:
			if err == nil {
				continue
			}
		case <-quiet.C:
			began = time.Time{}
			changed()
			continue
		}
		if began.IsZero() {
			began = time.Now()
		}
		quiet.Reset(min(quietTime, max(0, maxQuietWait-time.Since(began))))
	}
}

// hangups are the SIGHUPs that ask for a reload. The SIGHUP of a terminal that was closed
// interrupts the command, as it would end a program that does not handle it.
type hangups struct {
	received chan struct{} // has room for one: a second request before the first is served adds nothing
	signals  chan os.Signal
	cancel   context.CancelFunc
	done     chan struct{}
}

// watchHangups begins to handle SIGHUP. It replaces the context of inv by one that the end of
// its terminal ends, too.
func watchHangups(inv *servers.Opener) *hangups {
	h := &hangups{received: make(chan struct{}, 1), signals: make(chan os.Signal, 1), done: make(chan struct{})}
	inv.Context, h.cancel = context.WithCancel(inv.Context)
	var terminals []int
	for _, stream := range []any{inv.In, inv.Out, inv.Err} {
		if file, ok := stream.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
			terminals = append(terminals, int(file.Fd()))
		}
	}
	signal.Notify(h.signals, syscall.SIGHUP)
	go func() {
		defer close(h.done)
		for range h.signals {
			for _, terminal := range terminals {
				if !term.IsTerminal(terminal) {
					h.cancel()
				}
			}
			select {
			case h.received <- struct{}{}:
			default:
			}
		}
	}()
	return h
}

func (h *hangups) stop() {
	signal.Stop(h.signals)
	close(h.signals)
	<-h.done
	h.cancel()
}
