package mcptest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

// child is a fixture process to which a test writes lines.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *bytes.Buffer
}

func startChild(t *testing.T, s Script) *child {
	t.Helper()
	c := &child{t: t, cmd: command(Stdio(s)), stderr: new(bytes.Buffer)}
	c.cmd.Stderr = c.stderr
	// Without a delay, Wait would wait for streams that a grandchild holds.
	c.cmd.WaitDelay = 10 * time.Second
	var err error
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.stdout = bufio.NewReader(stdout)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) send(line string) {
	_, err := io.WriteString(c.stdin, line+"\n")
	require.NoError(c.t, err)
}

func (c *child) line() string {
	line, err := c.stdout.ReadString('\n')
	require.NoError(c.t, err)
	return line
}

func (c *child) initialize() {
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	require.Contains(c.t, c.line(), version20251125)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *child) call(tool, args string) {
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args))
}

// ends drains stdout and waits for the process.
func (c *child) ends() (rest string, err error) {
	data, readErr := io.ReadAll(c.stdout)
	require.NoError(c.t, readErr)
	return string(data), c.cmd.Wait()
}

func TestStdio_exit_status(t *testing.T) {
	c := startChild(t, one(Fault{At: StageStart, Do: ActionExit, Code: 3}))
	_, err := c.ends()
	require.EqualError(t, err, "exit status 3")

	c = startChild(t, Script{})
	c.initialize()
	c.call("crash", `{"code":4}`)
	rest, err := c.ends()
	require.EqualError(t, err, "exit status 4")
	require.Empty(t, rest)

	c = startChild(t, Script{})
	c.initialize()
	require.NoError(t, c.stdin.Close())
	_, err = c.ends()
	require.NoError(t, err)
	require.Empty(t, c.stderr.String())
}

func TestStdio_counts_outlive_the_process(t *testing.T) {
	dir := t.TempDir()
	s := Script{StateDir: dir, Faults: []Fault{{At: StageAfter, Tool: "count", Starts: []int{1}, Do: ActionExit, Code: 9}}}
	c := startChild(t, s)
	c.initialize()
	c.call("count", `{"key":"pay\nonce"}`)
	require.Contains(t, c.line(), `"executions":1`)
	_, err := c.ends()
	require.EqualError(t, err, "exit status 9")

	again := startChild(t, s)
	again.initialize()
	again.call("pid", `{}`)
	require.Contains(t, again.line(), `"start":2`)
	again.call("count", `{"key":"pay\nonce"}`)
	require.Contains(t, again.line(), `"executions":2`)
	require.Equal(t, 2, Starts(dir))
	require.Equal(t, map[string]int{"pay\nonce": 2}, Executions(dir))
	require.Equal(t, []int{c.cmd.Process.Pid, again.cmd.Process.Pid}, PIDs(dir))
	require.False(t, Alive(c.cmd.Process.Pid))
	require.True(t, Alive(again.cmd.Process.Pid))
}

func TestStdio_large_script(t *testing.T) {
	var s Script
	for i := range 5000 {
		// random text, which does not compress
		s.Tools = append(s.Tools, ToolDef{Name: fmt.Sprintf("t%d", i), Text: rand.Text() + rand.Text() + rand.Text()})
	}
	require.Greater(t, len(Stdio(s).Env), 5, "the script is split over variables")
	c := startChild(t, s)
	c.initialize()
	c.call("t4999", `{}`)
	require.Contains(t, c.line(), s.Tools[4999].Text)
	c.call("env", `{"name":"MCPTEST_ROLE"}`)
	require.Contains(t, c.line(), "-32602", "the script's tools replace the default ones")
}

func TestStdio_missing_state_dir(t *testing.T) {
	c := startChild(t, Script{StateDir: t.TempDir() + "/missing"})
	_, err := c.ends()
	require.EqualError(t, err, "exit status 2")
	require.Contains(t, c.stderr.String(), "create the directory")
}

func TestStdio_removes_script_from_environment(t *testing.T) {
	c := startChild(t, Script{})
	c.initialize()
	for _, name := range []string{role.Env, envScript + "0"} {
		c.call("env", `{"name":"`+name+`"}`)
		require.Contains(t, c.line(), `"set":false`)
	}
	c.call("env", `{"name":"PATH"}`)
	require.Contains(t, c.line(), `"set":true`)
}
