package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/mcpvisor/mcpvisor/bench/internal/fast"
)

// barePipe is a process that has answered initialize. It is what the floors consist of.
type barePipe struct {
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *bufio.Reader // of out
}

func startPipe(t target) (*barePipe, error) {
	cmd := exec.Command(t.command, t.args...)
	cmd.Env = append(os.Environ(), t.env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &barePipe{cmd: cmd, in: in.(*os.File), out: out.(*os.File)}
	p.lines = bufio.NewReader(p.out)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	if _, err = p.ask(1, hello); err == nil {
		_, err = fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return p, err
}

// ask writes the request with that id, and reads lines until one has it: servers may send
// notifications and requests of their own before they answer.
func (p *barePipe) ask(id int, line string) ([]byte, error) {
	if _, err := io.WriteString(p.in, strings.TrimSuffix(line, "\n")+"\n"); err != nil {
		return nil, err
	}
	member := fmt.Appendf(nil, `"id":%d`, id)
	for {
		answer, err := fast.ReadLine(p.lines)
		if err != nil || bytes.Contains(answer, member) && !bytes.Contains(answer, []byte(`"method":"`)) {
			return answer, err
		}
	}
}

func (p *barePipe) list() error {
	_, err := p.ask(2, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	return err
}

func (p *barePipe) close() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}
