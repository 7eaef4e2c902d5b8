package testutil

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// ExhaustDescriptors opens files until this process has no free descriptor, and takes those
// that other goroutines close, until free is called.
func ExhaustDescriptors(t testing.TB) (free func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	links, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	highest := 0
	for _, link := range links {
		fd, _ := strconv.Atoi(link.Name())
		highest = max(highest, fd)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(highest + 1), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var taken []int
	takeAll := func() error {
		for {
			fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			taken = append(taken, fd)
		}
	}
	if err := takeAll(); err != syscall.EMFILE {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = takeAll()
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		for _, fd := range taken {
			_ = syscall.Close(fd)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
