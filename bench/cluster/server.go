package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// stopping is how long a server takes to stop when it is asked to, as one with a profile to write.
const stopping = 200 * time.Millisecond

// How often the log of a process says that the process runs: of a node, and of a server that is a
// process.
const (
	beat       = 5 * time.Millisecond
	serverBeat = 25 * time.Millisecond
)

// log is what happens to the servers of one process, with times of CLOCK_BOOTTIME, which all
// processes of the machine share. Each event is one write, so that a kill loses none. Safe for
// concurrent use.
type log struct {
	file   *os.File
	config nodeConfig
	lives  atomic.Int64
}

func openLog(path string, c nodeConfig) *log {
	l, every := &log{file: must(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)), config: c}, beat
	if c.Server != "" {
		every = serverBeat
	}
	go func() {
		for range time.Tick(every) {
			l.write("beat", 0, "-")
		}
	}()
	return l
}

func (l *log) write(event string, life int64, name string) {
	_, _ = fmt.Fprintf(l.file, "%s %d %s %d\n", event, life, name, now())
}

func now() time.Duration {
	var at unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_BOOTTIME, &at))
	return time.Duration(at.Nano())
}

// newSpec returns the server of a name as it is registered, the same for both systems.
func (l *log) newSpec(registered, name string) mcpvisor.ServerSpec {
	if !l.config.Stdio {
		return mcpvisor.ServerSpec{Name: registered, InMemory: &mcpvisor.InMemory{Serve: l.newServer(name)}}
	}
	c := l.config
	c.Server = name
	return mcpvisor.ServerSpec{Name: registered, Stdio: &mcpvisor.Stdio{
		Command: must(os.Executable()), Env: map[string]string{nodeVariable: string(must(json.Marshal(c)))}}}
}

// serveServer is the program of a server that is a process. Its log is one of its node.
func serveServer(c nodeConfig) {
	l := openLog(filepath.Join(c.Folder, fmt.Sprintf("%s.%s.%d.log", c.Node, c.Server, os.Getpid())), c)
	_ = l.newServer(c.Server)(context.Background(), os.Stdin, os.Stdout, os.Stderr)
}

// newServer answers with its argument, and logs its lives and what it has read.
func (l *log) newServer(name string) func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error {
	inner := mcptest.InMemory(mcptest.Script{Name: name, Tools: []mcptest.ToolDef{{Name: "echo"}}, NoResources: true, NoPrompts: true})
	return func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		life := l.lives.Add(1)
		l.write("start", life, name)
		defer l.write("end", life, name)
		if l.config.LogCalls {
			stdin = &callReader{stdin, func() { l.write("call", life, name) }}
		}
		err := inner.Serve(ctx, stdin, stdout, stderr)
		select {
		case <-time.After(stopping):
		case <-ctx.Done(): // it was killed
		}
		return err
	}
}

// callReader tells which reads have a call. Calls are sent one by one where it is used.
type callReader struct {
	io.ReadCloser
	onCall func()
}

func (r *callReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if bytes.Contains(p[:n], []byte(`"tools/call"`)) {
		r.onCall()
	}
	return n, err
}

// arguments are those of a call with about size bytes.
func arguments(size int) json.RawMessage {
	return json.RawMessage(`{"text":"` + string(bytes.Repeat([]byte("x"), max(1, size-11))) + `"}`)
}
