package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// tsDriver is the client of the TypeScript SDK, in a process of its own that does the
// measuring. It needs node and the modules that test/real/run installs.
type tsDriver struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

var errNoTS = errors.New("no TypeScript SDK")

const tsClient = "../test/real/ts-client.mjs"

func newTSDriver(_ context.Context, t target) (driver, error) {
	node, err := exec.LookPath("node")
	script, found := filepath.Abs(tsClient)
	if err != nil || found != nil || !exists(filepath.Join(filepath.Dir(script), "node_modules")) {
		return nil, errNoTS
	}
	args := append([]string{"--no-warnings", script, "stdio", t.command}, t.args...)
	if t.url != "" {
		args = []string{"--no-warnings", script, "http", t.url}
	}
	a := &tsDriver{cmd: exec.Command(node, args...)}
	a.cmd.Env, a.cmd.Stderr = append(os.Environ(), t.env...), os.Stderr
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = a.out.ReadString('\n')
	return a, err
}

func (a *tsDriver) name() string { return clientTS }

// measure lets the node process measure.
func (a *tsDriver) measure(t target, callers int, d time.Duration, w workload) (sample, error) {
	q := map[string]any{"callers": callers, "ms": d.Milliseconds(), "tool": t.echoTool, "arg": t.echoArg, "reply": t.reply}
	if w.size > 0 {
		q["tool"], q["size"] = "blob", w.size
	}
	line, err := json.Marshal(q)
	if err != nil {
		return sample{}, err
	}
	if _, err := fmt.Fprintf(a.in, "%s\n", line); err != nil {
		return sample{}, err
	}
	answer, err := a.out.ReadBytes('\n')
	if err != nil {
		return sample{}, err
	}
	var got struct {
		Units, Seconds, CPUMicros float64
		Error                     string
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.Error != "" {
		return sample{}, fmt.Errorf("%s: %s %w", a.name(), got.Error, err)
	}
	return sample{perSecond: got.Units / got.Seconds, cpuMicros: got.CPUMicros}, nil
}

func (a *tsDriver) echo(context.Context, string) (string, error) { return "", errors.ErrUnsupported }
func (a *tsDriver) blob(context.Context, int) (string, error)    { return "", errors.ErrUnsupported }

func (a *tsDriver) close() {
	_ = a.in.Close()
	_ = a.cmd.Wait()
}
