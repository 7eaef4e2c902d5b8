package hostile

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMisbehaviours_names(t *testing.T) {
	stages := []string{"spawn", "negotiation", "handshake", "list", "call", "answer", "id", "error", "result", "task", "read", "prompt",
		"notification", "request", "stream", "process", "liveness", "shutdown"}
	seen, about := map[string]bool{}, map[string]string{}
	for _, m := range Misbehaviours() {
		require.Regexp(t, `^[a-z]+/[a-z0-9-]+$`, m.Name)
		require.False(t, seen[m.Name], "%s is listed twice", m.Name)
		require.Contains(t, stages, m.Stage(), m.Name)
		require.Regexp(t, `^[A-Z].*\.$`, m.About, m.Name)
		require.Empty(t, about[m.About], "%s and %s have the same text", m.Name, about[m.About])
		seen[m.Name], about[m.About] = true, m.Name
		set := 0
		for _, is := range []bool{m.script != nil, m.serve != nil, m.command != nil} {
			if is {
				set++
			}
		}
		require.Equal(t, 1, set, m.Name)
		if m.script != nil {
			require.NoError(t, m.script.Validate(), m.Name)
		}
		found, ok := MisbehaviourNamed(m.Name)
		require.True(t, ok)
		require.Equal(t, m.About, found.About)
	}
	require.GreaterOrEqual(t, len(seen), 100)
	_, ok := MisbehaviourNamed("call/nothing")
	require.False(t, ok)
}

// TestMisbehaviour_Stdio: each misbehaviour can be started unless it is Unstartable. A
// hand-written server counts its start when its process has found it by its name.
func TestMisbehaviour_Stdio(t *testing.T) {
	for _, m := range Misbehaviours() {
		dir := t.TempDir()
		spec := m.Stdio(dir)
		cmd := exec.Command(spec.Command, spec.Args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		for name, value := range spec.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.Dir = spec.Dir
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		err = cmd.Start()
		if m.Unstartable {
			require.Error(t, err, m.Name)
			continue
		}
		require.NoError(t, err, m.Name)
		if m.command == nil {
			require.Eventually(t, func() bool { return mcptest.Starts(dir) == 1 }, eventually, tick, m.Name)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}
}

// TestMisbehaviour_InMemory: a server in memory answers until it misbehaves, ends with
// its context, and leaves no goroutine.
func TestMisbehaviour_InMemory(t *testing.T) {
	run := 0
	for _, m := range Misbehaviours() {
		server, ok := m.InMemory()
		if !ok {
			continue
		}
		run++
		ctx, cancel := context.WithCancel(context.Background())
		in, stdin := io.Pipe()
		stdout, out := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(ctx, in, out, io.Discard)
		}()
		go func() { _, _ = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"hostile/unknown"}`+"\n") }()
		if m.script == nil && m.Stage() == "call" {
			line, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err, m.Name)
			require.Contains(t, line, "-32601", m.Name)
		}
		cancel()
		<-ended
		_, _ = stdin.Close(), stdout.Close()
	}
	require.GreaterOrEqual(t, run, 100)
}
