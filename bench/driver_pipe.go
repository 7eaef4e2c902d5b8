package main

import (
	"bufio"
	"context"
	"io"
	"runtime"
	"strconv"
	"sync"
)

// pipeDriver is the floor for one caller: it writes a line, reads a line, and looks at
// nothing but the text.
type pipeDriver struct {
	t   target
	p   *barePipe
	id  int
	buf []byte
	in  []byte
	// fresh makes each result a memory of its own, as a client must that hands results out.
	fresh bool
}

func newPipeDriver(_ context.Context, t target) (driver, error) {
	p, err := startPipe(t)
	if err != nil {
		return nil, err
	}
	widen(p.out)
	return &pipeDriver{t: t, p: p, in: make([]byte, 64<<10)}, nil
}

func newFreshPipeDriver(ctx context.Context, t target) (driver, error) {
	a, err := newPipeDriver(ctx, t)
	if err == nil {
		a.(*pipeDriver).fresh = true
	}
	return a, err
}

func (a *pipeDriver) name() string          { return clientBare }
func (a *pipeDriver) fits(callers int) bool { return callers == 1 }

func (a *pipeDriver) callTool(tool, args string) (string, error) {
	a.id++
	a.buf = appendCall(a.buf[:0], a.id, tool, args)
	if _, err := a.p.in.Write(a.buf); err != nil {
		return "", err
	}
	n := 0
	for n == 0 || a.in[n-1] != '\n' {
		if n == len(a.in) {
			a.in = append(a.in, make([]byte, len(a.in))...)
		}
		m, err := a.p.out.Read(a.in[n:])
		if err != nil {
			return "", err
		}
		n += m
	}
	return rawText(a.in[:n])
}

// newIdlePipe is the floor for an idle server: pipes, a small buffer and a goroutine that
// reads.
func newIdlePipe(_ context.Context, t target) (driver, error) {
	p, err := startPipe(t)
	if err != nil {
		return nil, err
	}
	a := &sharedPipeDriver{t: t, p: p}
	go a.read()
	return a, nil
}

// appendCall appends the line of a call.
func appendCall(line []byte, id int, tool, args string) []byte {
	line = append(line, `{"jsonrpc":"2.0","id":`...)
	line = strconv.AppendInt(line, int64(id+1), 10)
	line = append(line, `,"method":"tools/call","params":{"name":"`...)
	return append(append(append(append(line, tool...), `","arguments":`...), args...), "}}\n"...)
}

func (a *pipeDriver) echo(_ context.Context, text string) (string, error) {
	return a.callTool(a.t.echoTool, `{"`+a.t.echoArg+`":"`+text+`"}`)
}

func (a *pipeDriver) blob(_ context.Context, size int) (string, error) {
	if a.fresh {
		a.in = make([]byte, size+1024)
	}
	return a.callTool("blob", `{"size":`+strconv.Itoa(size)+`}`)
}

func (a *pipeDriver) close() { a.p.close() }

// sharedPipeDriver is the floor for many callers: they append lines to a buffer that one
// of them writes, and one goroutine gives each line that it reads to the caller that has
// waited longest. It needs a server that answers in order.
type sharedPipeDriver struct {
	t target
	p *barePipe
	// prompt writes at once, without a look at who else has a line. It costs more, but as
	// much each time, also on a busy machine.
	prompt bool
	mu     sync.Mutex // guards the fields below
	// pending are lines that are not written yet, spare the buffer before it.
	pending, spare []byte
	writing        bool
	waiting        []*bareCall // oldest first
	id             int
}

// bareCall is one caller's call. text is valid when done has received.
type bareCall struct {
	text []byte
	done chan struct{}
}

var bareCalls = sync.Pool{New: func() any { return &bareCall{done: make(chan struct{}, 1)} }}

func newSharedPipeDriver(_ context.Context, t target) (driver, error) {
	p, err := startPipe(t)
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewReaderSize(p.out, 64<<10) // nothing is buffered yet
	a := &sharedPipeDriver{t: t, p: p}
	go a.read()
	return a, nil
}

func newPromptPipeDriver(ctx context.Context, t target) (driver, error) {
	a, err := newSharedPipeDriver(ctx, t)
	if err == nil {
		a.(*sharedPipeDriver).prompt = true
	}
	return a, err
}

func (a *sharedPipeDriver) name() string          { return clientBare }
func (a *sharedPipeDriver) fits(callers int) bool { return callers > 1 }

func (a *sharedPipeDriver) read() {
	for {
		line, err := a.p.lines.ReadSlice('\n')
		if err != nil {
			return
		}
		text, err := rawText(line)
		if err != nil {
			panic(err)
		}
		a.mu.Lock()
		c := a.waiting[0]
		if a.waiting = a.waiting[1:]; len(a.waiting) == 0 {
			a.waiting = nil
		}
		a.mu.Unlock()
		c.text = append(c.text[:0], text...)
		c.done <- struct{}{}
	}
}

func (a *sharedPipeDriver) echo(_ context.Context, text string) (string, error) {
	c := bareCalls.Get().(*bareCall)
	defer bareCalls.Put(c)
	args := `{"` + a.t.echoArg + `":"` + text + `"}`
	a.mu.Lock()
	a.id++
	a.pending = appendCall(a.pending, a.id, a.t.echoTool, args)
	a.waiting = append(a.waiting, c)
	first := !a.writing
	if a.writing = true; first && !a.prompt { // first let others append their lines, so that one write carries them all
		a.mu.Unlock()
		runtime.Gosched()
		a.mu.Lock()
	}
	for first && len(a.pending) > 0 {
		lines := a.pending
		a.pending = a.spare[:0]
		a.mu.Unlock()
		_, err := a.p.in.Write(lines)
		a.mu.Lock()
		a.spare = lines
		if err != nil {
			a.mu.Unlock()
			return "", err
		}
	}
	if first {
		a.writing = false
	}
	a.mu.Unlock()
	<-c.done
	return string(c.text), nil
}

func (a *sharedPipeDriver) blob(context.Context, int) (string, error) { return "", io.EOF }

func (a *sharedPipeDriver) close() { a.p.close() }
