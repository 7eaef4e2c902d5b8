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

// tsArm is the client of the TypeScript SDK, in a process of its own that
// measures by itself. It takes part where node and test/real/run's modules are
// there.
type tsArm struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

var errNoTS = errors.New("no TypeScript SDK")

const tsClient = "../test/real/ts-client.mjs"

func newTSArm(_ context.Context, t target) (arm, error) {
	node, err := exec.LookPath("node")
	script, found := filepath.Abs(tsClient)
	if err != nil || found != nil || !exists(filepath.Join(filepath.Dir(script), "node_modules")) {
		return nil, errNoTS
	}
	args := append([]string{"--no-warnings", script, "stdio", t.command}, t.args...)
	if t.url != "" {
		args = []string{"--no-warnings", script, "http", t.url}
	}
	a := &tsArm{cmd: exec.Command(node, args...)}
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

func (a *tsArm) name() string { return "TypeScript SDK" }

// measure lets the process measure.
func (a *tsArm) measure(t target, callers int, d time.Duration, w work) (sample, error) {
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

func (a *tsArm) echo(context.Context, string) (string, error) { return "", errors.ErrUnsupported }
func (a *tsArm) blob(context.Context, int) (string, error)    { return "", errors.ErrUnsupported }

func (a *tsArm) close() {
	_ = a.in.Close()
	_ = a.cmd.Wait()
}
