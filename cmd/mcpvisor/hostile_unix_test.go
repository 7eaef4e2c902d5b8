//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
)

var hostileFrames = flag.Int("hostile.frames", 5_000, "how many malformed frames a host sends; the full size is 1000000")

// hostileStdio is a host that has started mcpvisor stdio, or wrap, and misbehaves.
type hostileStdio struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	*gatewaytest.LineHost
	errs *syncBuffer
	tool string // before the names of its tools
	dir  string // of the server
	deaf bool   // it never reads again
}

func startHostileStdio(t *testing.T, dir, tool string, env []string, command ...string) *hostileStdio {
	t.Helper()
	h := &hostileStdio{t: t, cmd: exec.Command(command[0], command[1:]...), errs: new(syncBuffer), tool: tool, dir: dir}
	h.cmd.Env, h.cmd.Stderr = env, h.errs
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	h.stdin, err = h.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, h.cmd.Start())
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
	h.LineHost = &gatewaytest.LineHost{T: t, In: h.stdin, Out: bufio.NewReader(out), Why: h.errs.String}
	return h
}

func (h *hostileStdio) initialize() {
	h.t.Helper()
	a := h.Exchange(`{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}}`)
	require.Nil(h.t, a.Error)
	h.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	require.Contains(h.t, string(h.Exchange(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result), `"`+h.tool+`echo"`)
}

func (h *hostileStdio) toolCall(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, h.tool+tool, arguments)
}

// hang makes a call that never ends, and waits until the server works on it.
func (h *hostileStdio) hang(id int) {
	h.t.Helper()
	h.Send(h.toolCall(id, "hang", `{}`))
	key := fmt.Sprintf("after-hang-%s-%d", strings.ReplaceAll(h.t.Name(), "/", "-"), id)
	require.Nil(h.t, h.Exchange(h.toolCall(-id, "count", `{"key":"`+key+`"}`)).Error) // which came after it
}

// endTimeout is how long a process may live after its stdin has ended, and slowdown how much longer that may take
// on a busy machine.
const (
	endTimeout = 5 * time.Second
	slowdown   = 4
)

// end closes stdin, and requires that the process ends in time. Unless the host is deaf, it reads the rest.
func (h *hostileStdio) end() {
	h.t.Helper()
	require.NoError(h.t, h.stdin.Close())
	ended := make(chan error, 1)
	go func() {
		if !h.deaf {
			_, _ = io.Copy(io.Discard, h.Out)
		}
		ended <- h.cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(slowdown * endTimeout):
		require.NoError(h.t, h.cmd.Process.Signal(syscall.SIGQUIT)) // it prints its goroutines
		<-ended
		require.FailNow(h.t, "it lives on after the end of its stdin", "%s", h.errs)
	}
}

var hostileStdioRows = map[string]func(h *hostileStdio){
	"frame/malformed": func(h *hostileStdio) {
		h.SendWhileReading(func(send func(string)) {
			for _, frame := range gatewaytest.Frames(*hostileFrames, 3) {
				send(string(frame))
			}
		}, func(gatewaytest.Answer) {})
		require.NotContains(h.t, h.errs.String(), "connecting again", "the session in mcpvisor run has ended")
	},
	"frame/64-mib": func(h *hostileStdio) {
		h.SendWhileReading(func(send func(string)) {
			for i := range 2 {
				send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":"%s"}}`, i, strings.Repeat("x", 64<<20)))
			}
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"%s"}}`, strings.Repeat("x", 40<<20)))
		}, func(a gatewaytest.Answer) { require.NotNil(h.t, a.Error) })
		require.NotContains(h.t, h.errs.String(), "connecting again", "the session in mcpvisor run has ended")
	},
	"frame/nested": func(h *hostileStdio) {
		h.SendWhileReading(func(send func(string)) {
			send(gatewaytest.Nested(100_000))
			send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + gatewaytest.Nested(100_000) + `}`)
		}, func(a gatewaytest.Answer) { require.NotNil(h.t, a.Error) })
		require.NotContains(h.t, h.errs.String(), "connecting again", "the session in mcpvisor run has ended")
	},
	"frame/cut":      func(h *hostileStdio) { require.NoError(h.t, h.Write(`{"jsonrpc":"2.0","id":1`)) },
	"end/in-a-frame": func(h *hostileStdio) { h.hang(1); require.NoError(h.t, h.Write(`{"jsonrpc":"2.0","id":2`)) },
	"batch/where-none-are": func(h *hostileStdio) {
		require.Equal(h.t, "9", string(h.Exchange(`[{"jsonrpc":"2.0","id":9,"method":"ping"}]`).ID))
	},
	"batch/nothing": func(h *hostileStdio) {
		h.SendWhileReading(func(send func(string)) {
			for _, line := range []string{"[]", "[[]]", "[1,2]", "[null]", `["x"]`, "[{}]"} {
				send(line)
			}
		}, func(a gatewaytest.Answer) { require.NotNil(h.t, a.Error) })
	},
	"batch/too-many": func(h *hostileStdio) {
		h.SendWhileReading(func(send func(string)) {
			send("[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 99_999) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		}, func(gatewaytest.Answer) {})
	},
	"batch/one-id": func(h *hostileStdio) {
		hang := h.toolCall(1, "hang", `{}`)
		require.Contains(h.t, h.Exchange("["+hang+","+hang+"]").Error.Message, "a request with this id is in flight")
	},
	"id/duplicate": func(h *hostileStdio) {
		h.hang(7)
		require.Contains(h.t, h.Exchange(`{"jsonrpc":"2.0","id":7,"method":"ping"}`).Error.Message, "a request with this id is in flight")
	},
	"id/reused": func(h *hostileStdio) {
		for range 200 {
			require.Nil(h.t, h.Exchange(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).Error)
		}
	},
	"id/strange": func(h *hostileStdio) {
		for id, bad := range gatewaytest.StrangeIDs() {
			a := h.Exchange(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			require.Equal(h.t, bad, a.Error != nil, "%.100s", id)
			if !bad {
				require.Equal(h.t, id, string(a.ID))
			}
		}
		require.NotContains(h.t, h.errs.String(), "connecting again", "the session in mcpvisor run has ended")
	},
	"answer/never-asked": func(h *hostileStdio) {
		for i := range 500 {
			h.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept"}}`, i))
		}
	},
	"cancel/never-asked": func(h *hostileStdio) {
		for i := range 500 {
			h.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		}
	},
	"flood/calls": func(h *hostileStdio) { // more than there is room for: nothing further is read of it
		h.hang(1_000_000)
		written := make(chan struct{})
		go func() {
			defer close(written)
			for i := range 200_000 {
				if h.Write(h.toolCall(i+10, "hang", `{}`)+"\n") != nil {
					return
				}
			}
		}()
		select {
		case <-written:
			h.t.Error("200,000 calls were taken")
		case <-time.After(time.Second): // of the flood
		}
	},
	"deaf/answer": func(h *hostileStdio) {
		h.Send(h.toolCall(1, "big", `{"bytes":10000000}`))
		_, err := io.ReadFull(h.Out, make([]byte, 100_000)) // the rest is not read
		require.NoError(h.t, err)
		h.deaf = true
	},
	"deaf/queue": func(h *hostileStdio) {
		for i := range 100 {
			h.Send(h.toolCall(i, "big", `{"bytes":500000}`))
		}
		_, err := io.ReadFull(h.Out, make([]byte, 100_000))
		require.NoError(h.t, err)
		h.deaf = true
	},
	"slow/frame": func(h *hostileStdio) {
		for _, b := range []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n") {
			require.NoError(h.t, h.Write(string(b)))
		}
		require.Nil(h.t, h.Next().Error)
	},
	"gone/in-a-call": func(h *hostileStdio) {
		for i := range 10 {
			h.hang(i + 1)
		}
	},
	"task/of-another": func(h *hostileStdio) {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"} { // it has declared no tasks
			e := h.Exchange(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":"the-task-of-another"}}`, method)).Error
			require.NotNil(h.t, e)
			require.Equal(h.t, -32601, e.Code)
			require.Equal(h.t, "method not found: "+method, e.Message)
		}
	},
	"end/idle":              func(*hostileStdio) {},
	"end/before-initialize": func(*hostileStdio) {},
}

var hostileStdioReasons = map[string]string{
	"frame/64-mib-unnamed": "no length is said",
	"flood/streams":        "there is one stream",
	"deaf/stream":          "it is deaf/queue: there is one stream for all",
	"slow/head":            "there is no head",
	"access/host":          "a process that this user has started",
	"access/origin":        "a process that this user has started",
	"access/token":         "a process that this user has started",
	"access/audience":      "a process that this user has started",
	"session/forged":       "a process is its session",
	"session/of-another":   "a process is its session",
	"session/expired":      "a process is its session",
	"session/ended":        "a process is its session",
}

func TestHostileStdio_every_misbehaviour_has_a_row(t *testing.T) {
	gatewaytest.RequireRows(t, hostileStdioRows, hostileStdioReasons)
}

// unservedRows are those after which nothing is answered any longer: the host does not read, or has no room.
var unservedRows = []string{"frame/cut", "end/in-a-frame", "flood/calls", "deaf/answer", "deaf/queue", "end/before-initialize"}

// Whatever a host writes to mcpvisor stdio and wrap, the session continues, the memory is bounded, other hosts are
// served, and nothing is left 5 seconds after the end of stdin.
func TestHostileStdio(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, p := stormHouseholdIn(t, dir, mcptest.Script{})
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+h.dir)
	other := gatewaytest.NewHost(t, p.URL(), "2025-11-25")
	for i, name := range slices.Sorted(maps.Keys(hostileStdioRows)) {
		t.Run("stdio/"+name, func(t *testing.T) {
			if leftOut(i) {
				t.Skip("-everything plays it")
			}
			host := startHostileStdio(t, dir, "fixture__", env, h.program, "--config", h.file, "stdio", "--no-start")
			checkHostileStdio(t, name, host)
			require.Eventually(t, func() bool { return callsInFlight(t, h) == 0 }, slowdown*endTimeout, 10*time.Millisecond, "calls of the host live on")
			r, err := other.Call("fixture__echo", `{"text":"x"}`)
			require.NoError(t, err)
			require.False(t, r.IsError)
		})
		t.Run("wrap/"+name, func(t *testing.T) {
			if leftOut(i + 2) { // other rows than those of stdio
				t.Skip("-everything plays it")
			}
			dir := t.TempDir()
			server := mcptest.Stdio(mcptest.Script{StateDir: dir})
			env := os.Environ()
			for name, value := range server.Env {
				env = append(env, name+"="+value)
			}
			host := startHostileStdio(t, dir, "", env, append([]string{h.program, "wrap", "--", server.Command}, server.Args...)...)
			checkHostileStdio(t, name, host)
			requireNothing(t, dir)
		})
	}
}

func checkHostileStdio(t *testing.T, name string, host *hostileStdio) {
	t.Helper()
	if name != "end/before-initialize" {
		host.initialize()
	}
	hostileStdioRows[name](host)
	require.Less(t, residentBytes(t, host.cmd.Process.Pid), 600<<20)
	if !slices.Contains(unservedRows, name) {
		host.SendWhileReading(func(func(string)) {}, func(gatewaytest.Answer) {})
	}
	host.end()
	require.NotContains(t, host.errs.String(), "panic")
}

// callsInFlight is how many calls the run of a household makes.
func callsInFlight(t *testing.T, h *household) (n int) {
	t.Helper()
	cmd := exec.Command(h.program, "--config", h.file, "--json", "status")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+h.dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	var status struct {
		Servers []struct{ Calls struct{ InFlight int } }
	}
	require.NoError(t, json.Unmarshal(out, &status))
	require.NotEmpty(t, status.Servers)
	for _, s := range status.Servers {
		n += s.Calls.InFlight
	}
	return n
}

// residentBytes is the most memory that a process has had; 0 where it is not known.
func residentBytes(t *testing.T, pid int) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			return kib << 10
		}
	}
	require.FailNow(t, "no VmHWM")
	return 0
}
