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

// pipeDriver is the limit of what is possible: it writes a line, reads a line, and looks
// at nothing but the text. One caller at a time.
type pipeDriver struct {
	t   target
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	mu  sync.Mutex
	id  int
	buf []byte
}

func newPipeDriver(_ context.Context, t target) (driver, error) {
	if t.command == "" {
		return nil, errors.New("no pipe")
	}
	a := &pipeDriver{t: t, cmd: exec.Command(t.command, t.args...)}
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

func (a *pipeDriver) name() string { return "raw pipe" }

func (a *pipeDriver) callTool(tool, args string) (string, error) {
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

func (a *pipeDriver) echo(_ context.Context, text string) (string, error) {
	return a.callTool(a.t.echoTool, `{"`+a.t.echoArg+`":"`+text+`"}`)
}

func (a *pipeDriver) blob(_ context.Context, size int) (string, error) {
	return a.callTool("blob", `{"size":`+strconv.Itoa(size)+`}`)
}

func (a *pipeDriver) close() {
	_ = a.in.Close()
	_ = a.cmd.Wait()
}
