package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// pipeArm is the limit: write a line, read a line, look at nothing but the
// text. One caller at a time.
type pipeArm struct {
	t   target
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	mu  sync.Mutex
	id  int
	buf []byte
}

func newPipeArm(_ context.Context, t target) (arm, error) {
	if t.command == "" {
		return nil, errors.New("no pipe")
	}
	a := &pipeArm{t: t, cmd: exec.Command(t.command, t.args...)}
	a.cmd.Env = append(os.Environ(), t.env...)
	in, err := a.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.in, a.out = in, bufio.NewReaderSize(out, 64<<10)
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	if _, err := fmt.Fprintf(a.in, "%s\n", hello); err != nil {
		return nil, err
	}
	if _, err := readLine(a.out); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(a.in, "%s\n", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a, err
}

func (a *pipeArm) name() string { return "raw pipe" }

func (a *pipeArm) ask(tool, args string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id++
	a.buf = append(a.buf[:0], `{"jsonrpc":"2.0","id":`...)
	a.buf = strconv.AppendInt(a.buf, int64(a.id+1), 10)
	a.buf = append(a.buf, `,"method":"tools/call","params":{"name":"`...)
	a.buf = append(append(append(append(a.buf, tool...), `","arguments":`...), args...), "}}\n"...)
	if _, err := a.in.Write(a.buf); err != nil {
		return "", err
	}
	line, err := readLine(a.out)
	if err != nil {
		return "", err
	}
	return rawText(line)
}

func (a *pipeArm) echo(_ context.Context, text string) (string, error) {
	return a.ask(a.t.echoTool, `{"`+a.t.echoArg+`":"`+text+`"}`)
}

func (a *pipeArm) blob(_ context.Context, size int) (string, error) {
	return a.ask("blob", `{"size":`+strconv.Itoa(size)+`}`)
}

func (a *pipeArm) close() {
	_ = a.in.Close()
	_ = a.cmd.Wait()
}
