//go:build linux

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

const (
	// stoppedHostRole is an environment variable that makes this binary a host that is stopped. Its value
	// is the address of a server.
	stoppedHostRole = "MCPVISOR_INTEGRATION_STOPPED_HOST"
	// answerDelay is how long every server takes to answer, and stoppedTimeout the timeout of everything
	// that the host waits for.
	answerDelay    = time.Second
	stoppedTimeout = 6 * time.Second
	stoppedCalls   = 24 // of each kind, to each server
)

func delayed(at mcptest.Stage, method string) mcptest.Script {
	return mcptest.Script{Faults: []mcptest.Fault{{At: at, Method: method, Do: mcptest.ActionDelay, Delay: answerDelay}}}
}

// runStoppedHost makes requests, prints "sent" when all are on their way, and prints those that have failed
// as JSON.
func runStoppedHost(address string) int {
	ctx := context.Background()
	c, err := facade.New()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	w := &fixture{mark: os.Getenv(markVar)}
	limits := mcpvisor.Timeouts{Start: stoppedTimeout, Negotiate: stoppedTimeout, List: stoppedTimeout}
	probe := mcpvisor.Probe{Interval: -1, Timeout: stoppedTimeout}
	spec := func(name string, s mcptest.Script) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: name, Stdio: w.stdio(s), Timeouts: limits, Probe: probe, Policy: mcpvisor.NoRetry()}
	}
	calls := []string{"stdio", "http", "memory"}
	err = c.Register(ctx, spec("stdio", mcptest.Script{}), spec("ping", delayed(mcptest.StagePing, "")),
		mcpvisor.ServerSpec{Name: "http", HTTP: &mcpvisor.HTTP{URL: address}},
		mcpvisor.ServerSpec{Name: "memory", InMemory: mcptest.InMemory(mcptest.Script{})})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := map[string]int{}
	do := func(what string, f func() error) {
		all.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				failed[what+": "+err.Error()]++
				mu.Unlock()
			}
		})
	}
	const steps = 10
	args := map[string]any{"steps": steps, "ms": answerDelay.Milliseconds() / steps}
	var reached sync.WaitGroup // by a call that has reached its server
	call := func(ctx context.Context, tool string, opts ...facade.CallOption) error {
		var once sync.Once
		defer once.Do(reached.Done)
		_, err := c.CallTool(ctx, tool, args, append(opts, facade.WithProgress(func(mcpvisor.Progress) { once.Do(reached.Done) }))...)
		return err
	}
	for _, name := range calls {
		for range stoppedCalls {
			reached.Add(2)
			do(name+" timeout", func() error { return call(ctx, name+"/slow_progress", facade.WithTimeout(stoppedTimeout)) })
			do(name+" context", func() error {
				ctx, cancel := context.WithTimeout(ctx, stoppedTimeout)
				defer cancel()
				return call(ctx, name+"/slow_progress")
			})
		}
	}
	do("ping", func() error { return c.Ping(ctx, "ping") })
	for at, method := range map[mcptest.Stage]string{mcptest.StageInitialize: "", mcptest.StageDiscover: "", mcptest.StageList: "tools/list"} {
		do("start "+string(at), func() error { return c.Register(ctx, spec("start-"+string(at), delayed(at, method))) })
	}
	late := spec("late", delayed(mcptest.StageList, "tools/list"))
	late.StartSupervised = true
	do("late", func() error { return c.Register(ctx, late) })
	do("wait", func() error {
		for {
			if _, ok := c.ServerStatus("late"); ok {
				break
			}
			pause(ctx, pollInterval)
		}
		ctx, cancel := context.WithTimeout(ctx, stoppedTimeout)
		defer cancel()
		return c.WaitReady(ctx, "late")
	})
	reached.Wait()
	fmt.Println("sent")
	all.Wait()
	text, _ := json.Marshal(failed)
	fmt.Println(string(text))
	if err := c.Close(ctx); err != nil && !errors.Is(err, mcpvisor.ErrClosed) {
		return 1
	}
	return 0
}

// A host that is stopped until every timeout has passed loses no answer that has come meanwhile, over any
// transport, and thinks no server mute.
func TestHost_stopped(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	server := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(server.Close)
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), stoppedHostRole+"="+server.URL, markVar+"="+w.mark)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	stdout := bufio.NewReader(out)
	line, err := stdout.ReadString('\n')
	if err == nil && line == "sent\n" {
		require.NoError(t, host.Process.Signal(syscall.SIGSTOP))
		waitUntil(w.within(), t, "the host is stopped", func() bool { return stopped(host.Process.Pid) })
		time.Sleep(stoppedTimeout + 500*time.Millisecond) // not to synchronise: the timeouts must pass
		require.NoError(t, host.Process.Signal(syscall.SIGCONT))
		line, err = stdout.ReadString('\n')
	}
	if err != nil {
		_ = host.Process.Kill()
	}
	require.NoError(t, host.Wait())
	require.Equal(t, "{}\n", line, "what has failed, and how often")
}
