package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// A burst of changes is one change. One without an end is read after a while, too.
func TestWatchBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events, errs := make(chan fsnotify.Event), make(chan error)
		var changes atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchBursts(ctx, events, errs, func(name string) bool { return name == "c.json" }, func() { changes.Add(1) })
		}()
		write := func(name string, times int, pause time.Duration) {
			for range times {
				events <- fsnotify.Event{Name: name}
				time.Sleep(pause)
			}
			synctest.Wait()
		}
		write("c.json", 10, quietTime/2)
		require.Zero(t, changes.Load())
		time.Sleep(quietTime)
		synctest.Wait()
		require.EqualValues(t, 1, changes.Load())
		write("other", 10, quietTime)
		require.EqualValues(t, 1, changes.Load())
		write("c.json", int(2*maxQuietWait/quietTime), quietTime/2)
		require.EqualValues(t, 2, changes.Load(), "the burst has not ended")
		errs <- errors.New("events were lost")
		time.Sleep(maxQuietWait)
		synctest.Wait()
		require.EqualValues(t, 3, changes.Load())
		cancel()
		<-done
	})
}

// Kubernetes replaces a link in the directory of the file, and never the file itself.
func TestFollower_of_a_mounted_ConfigMap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a right there")
	}
	dir := t.TempDir()
	version := func(name, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "mcp.json"), []byte(text), 0o600))
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..2026_1", "one")
	file := filepath.Join(dir, "mcp.json")
	require.NoError(t, os.Symlink(filepath.Join("..data", "mcp.json"), file))
	f, err := newFollower([]string{file})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx, func() []string {
			text, _ := os.ReadFile(file)
			select {
			case read <- string(text):
			case <-ctx.Done():
			}
			return []string{file}
		})
	}()
	await := func(want string) {
		for text := range read {
			if text == want {
				return
			}
		}
	}
	await("one")
	version("..2026_2", "two")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "..2026_1")))
	await("two")
	version("..2026_3", "three")
	await("three")
	cancel()
	<-done
}
