//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

var (
	stormDuration = flag.Duration("storm.duration", 6*time.Second, "how long the storms of the gateway last")
	stormPause    = flag.Duration("storm.pause", 2*time.Second, "the pause between two kills of such a storm")
)

// served is a process of `mcpvisor run --mcp` that comes back at the same address.
type served struct {
	t       *testing.T
	h       *household
	address string
	cmd     *exec.Cmd

	mu     sync.Mutex
	starts int           // so far
	up     chan struct{} // closed while it is up
}

// serveMCP starts the run of a household.
func (h *household) serveMCP() *served {
	h.t.Helper()
	s := &served{t: h.t, h: h, address: "127.0.0.1:" + freePort(h.t), up: make(chan struct{})}
	h.t.Cleanup(func() {
		if s.cmd != nil {
			_ = s.cmd.Process.Signal(syscall.SIGINT)
			_ = s.cmd.Wait()
		}
	})
	s.start()
	return s
}

// freePort returns a port that the system does not give to connections, so that nobody takes it
// while the run is down.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			_, port, _ := net.SplitHostPort(l.Addr().String())
			require.NoError(t, l.Close())
			return port
		}
	}
}

func (s *served) url() string { return "http://" + s.address + "/mcp" }

// start starts the process, and returns when it serves. Its servers may still start then.
func (s *served) start() {
	s.t.Helper()
	cmd := exec.Command(s.h.program, "--config", s.h.file, "run", "--mcp", s.address)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+s.h.dir, "STATE_DIRECTORY="+s.h.dir)
	errs := new(syncBuffer)
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	s.cmd = cmd
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(s.t, err, "%s", errs)
		if strings.HasPrefix(line, "MCP server: ") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	close(s.up)
}

// kill ends the process by SIGKILL, and returns when it has ended.
func (s *served) kill() {
	s.t.Helper()
	s.mu.Lock()
	s.up = make(chan struct{})
	s.mu.Unlock()
	require.NoError(s.t, s.cmd.Process.Kill())
	_ = s.cmd.Wait()
}

// await returns how often the process was started, when it is up.
func (s *served) await() (starts int) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
	case <-s.t.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

// ledger is what callers were told about their calls.
type ledger struct {
	t  *testing.T
	mu sync.Mutex
	// By key of the call.
	succeeded, unknown, refused, lost map[string]bool
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	return &ledger{t: t, succeeded: map[string]bool{}, unknown: map[string]bool{}, refused: map[string]bool{}, lost: map[string]bool{}}
}

// toolResult is the result of a tool as callers see it.
type toolResult struct {
	IsError bool
	Content []struct{ Text string }
	// Of errors of the gateway.
	StructuredContent struct {
		Code        string
		IsRetryable *bool
	}
}

// add notes what a caller was told. Every error has to say whether the call may have run.
func (l *ledger) add(key string, r toolResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := ""
	if len(r.Content) > 0 {
		text = r.Content[0].Text
	}
	switch {
	case !r.IsError:
		l.succeeded[key] = true
	case (strings.Contains(text, "othing was done") || strings.Contains(text, "Nothing was sent")) && r.StructuredContent.IsRetryable != nil && *r.StructuredContent.IsRetryable:
		l.refused[key] = true
	case strings.Contains(text, "Whether it had an effect is not known; check before you repeat it.") && r.StructuredContent.IsRetryable != nil && !*r.StructuredContent.IsRetryable,
		strings.Contains(text, "It may have been executed"):
		l.unknown[key] = true
	default:
		l.t.Errorf("%s: the error does not name the outcome: %+v", key, r)
	}
}

// addLost notes a call whose connection broke.
func (l *ledger) addLost(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[key] = true
}

// check compares what the callers were told with what the server has recorded.
func (l *ledger) check(dir string) {
	l.t.Helper()
	executions := mcptest.Executions(dir)
	for key, n := range executions {
		require.Equal(l.t, 1, n, "%s ran more than once", key)
		require.False(l.t, l.refused[key], "%s ran, and the caller was told that nothing was done", key)
		require.True(l.t, l.succeeded[key] || l.unknown[key] || l.lost[key], "%s ran for nobody", key)
	}
	for key := range l.succeeded {
		require.Equal(l.t, 1, executions[key], "%s succeeded without running", key)
	}
	require.NotEmpty(l.t, l.succeeded)
	l.t.Logf("%d calls succeeded, %d unknown, %d refused, %d lost with their connection", len(l.succeeded), len(l.unknown), len(l.refused), len(l.lost))
}

// httpHost is a host over Streamable HTTP that sends requests without an SDK.
type httpHost struct {
	t       *testing.T
	url     string
	version string
	session string // empty with 2026-07-28
	client  *http.Client
}

func newHTTPHost(t *testing.T, url, version string) *httpHost {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	h := &httpHost{t: t, url: url, version: version, client: &http.Client{Transport: transport}}
	if version < "2026-07-28" {
		response, err := h.send("initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"host","version":"1"}}`, "")
		require.NoError(t, err)
		_ = response.Body.Close()
		h.session = response.Header.Get("Mcp-Session-Id")
		require.NotEmpty(t, h.session)
	}
	return h
}

func (h *httpHost) send(method, params, name string) (*http.Response, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if h.version >= "2026-07-28" {
		r.Header.Set("Mcp-Protocol-Version", h.version)
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	} else if h.session != "" {
		r.Header.Set("Mcp-Session-Id", h.session)
	}
	r.GetBody = nil // so that nothing is sent twice
	return h.client.Do(r)
}

// errBroken is the error of a request whose connection broke: its outcome is not known.
var errBroken = errors.New("the connection broke")

// ask sends a request and decodes its result. members are those of params, without _meta.
func (h *httpHost) ask(method, members, name string, result any) error {
	params := "{" + members + "}"
	if h.version >= "2026-07-28" {
		if members != "" {
			members += ","
		}
		params = "{" + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + h.version + `","io.modelcontextprotocol/clientCapabilities":{}}}`
	}
	response, err := h.send(method, params, name)
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	var answer struct{ Result, Error json.RawMessage }
	if response.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil || answer.Result == nil {
		return fmt.Errorf("%s with version %s: status %d: %s", method, h.version, response.StatusCode, body)
	}
	if raw, ok := result.(*json.RawMessage); ok {
		*raw = answer.Result
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

func (h *httpHost) count(key string) (r toolResult, err error) {
	err = h.ask("tools/call", fmt.Sprintf(`"name":"fixture__count","arguments":{"key":%q}`, key), "fixture__count", &r)
	return r, err
}

func (h *httpHost) list() (string, error) {
	var list json.RawMessage
	err := h.ask("tools/list", "", "", &list)
	return string(list), err
}

// follow reads the stream of the session until ctx ends, and again from where it was when the
// connection broke and the server is back. It returns the methods of what was received.
func (h *httpHost) follow(ctx context.Context, server *served) (methods []string) {
	last := ""
	for ctx.Err() == nil {
		server.await()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
		if err != nil {
			h.t.Error(err)
			return methods
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", h.session)
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		response, err := h.client.Do(r)
		if err != nil {
			continue
		}
		if response.StatusCode != http.StatusOK {
			h.t.Errorf("the stream was answered with %d", response.StatusCode)
			_ = response.Body.Close()
			return methods
		}
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				last = id
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				var m struct{ Method string }
				_ = json.Unmarshal([]byte(data), &m)
				methods = append(methods, m.Method)
			}
		}
		_ = response.Body.Close()
	}
	return methods
}

const stormCallers = 8

// stormOf makes calls from eight callers until the storm ends. Each call has a key of its own, and is
// made once. kill kills something, and returns when the next kill may come.
func (s *served) storm(l *ledger, kill func()) {
	t := s.t
	hosts := make([]*httpHost, stormCallers)
	for i := range hosts {
		hosts[i] = newHTTPHost(t, s.url(), []string{"2025-11-25", "2026-07-28", "2025-06-18", "2024-11-05"}[i%4])
	}
	var before [stormCallers]string
	for i, h := range hosts {
		var err error
		before[i], err = h.list()
		require.NoError(t, err)
		require.Contains(t, before[i], `"fixture__count"`)
	}
	following, stop := context.WithCancel(t.Context())
	defer stop()
	received := make(chan []string, 1)
	go func() { received <- hosts[0].follow(following, s) }()

	ended := make(chan struct{})
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() {
			seen := s.await()
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				key := fmt.Sprintf("http-%d-%d", i, n)
				starts := s.await()
				r, err := h.count(key)
				switch {
				case errors.Is(err, errBroken) && s.await() > starts: // the gateway was killed
					l.addLost(key)
					continue
				case err != nil:
					t.Errorf("%s: %v", key, err)
					return
				}
				l.add(key, r)
				if starts > seen && r.IsError && s.await() == starts {
					t.Errorf("%s: the first call after the gateway came back has failed: %+v", key, r)
				}
				seen = starts
				list, err := h.list()
				if errors.Is(err, errBroken) && s.await() > starts {
					continue
				}
				if err != nil || list != before[i] {
					t.Errorf("%s: the list is not what it was: %v\n%.500s", key, err, list)
					return
				}
			}
		})
	}
	for end := time.Now().Add(*stormDuration); time.Now().Before(end) && !t.Failed(); {
		time.Sleep(*stormPause) // of the storm
		kill()
	}
	close(ended)
	all.Wait()
	stop()
	require.Empty(t, <-received, "no list has changed")
}

// stormDirs returns a household whose server records its calls in dir.
func stormHousehold(t *testing.T) (h *household, dir string) {
	t.Helper()
	dir = t.TempDir()
	e := entry(mcptest.Script{StateDir: dir})
	e["retry"] = map[string]any{"base": "10ms", "max": "200ms", "max_attempts": "unlimited"}
	return newHousehold(t, map[string]any{"fixture": e}), dir
}

// awaitNothing waits until nothing of the servers is left.
func awaitNothing(t *testing.T, dir string) {
	t.Helper()
	for _, pid := range mcptest.PIDs(dir) {
		require.Eventually(t, func() bool { return !mcptest.Alive(pid) }, time.Minute, 10*time.Millisecond)
	}
}

// The server behind the gateway is killed every two seconds, while eight clients of four versions make
// calls. Their lists stay byte for byte, no change is announced, no call runs twice by the records of
// the server, and every error says what became of the call.
func TestGateway_server_is_killed_under_load(t *testing.T) {
	t.Parallel()
	h, dir := stormHousehold(t)
	s := h.serveMCP()
	l := newLedger(t)
	kills := 0
	s.storm(l, func() {
		pids := mcptest.PIDs(dir)
		kills++
		require.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGKILL))
		require.Eventually(t, func() bool { return mcptest.Starts(dir) == kills+1 }, time.Minute, 10*time.Millisecond)
	})
	require.Empty(t, l.lost)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
	_ = s.cmd.Wait()
	l.check(dir)
	t.Logf("%d kills", kills)
	awaitNothing(t, dir)
}

// The gateway is killed every two seconds under the same load. Each client's next call succeeds, on
// the session that it had, and finds the list that it had. Hosts on mcpvisor stdio keep their session, too.
func TestGateway_is_killed_under_load(t *testing.T) {
	t.Parallel()
	h, dir := stormHousehold(t)
	s := h.serveMCP()
	l := newLedger(t)
	var all sync.WaitGroup
	ended := make(chan struct{})
	for i := range 2 {
		session, errs, changed := h.host("--no-start")
		before, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		for caller := range stormCallers / 2 {
			all.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
					}
					key := fmt.Sprintf("stdio-%d-%d-%d", i, caller, n)
					result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fixture__count", Arguments: map[string]any{"key": key}})
					var r toolResult
					if err == nil {
						var text []byte
						text, err = json.Marshal(result)
						err = errors.Join(err, json.Unmarshal(text, &r))
					}
					if err != nil {
						t.Errorf("%s: %v\n%s", key, err, errs)
						return
					}
					l.add(key, r)
				}
			})
		}
		defer func() {
			after, err := session.ListTools(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, before.Tools, after.Tools)
			require.Empty(t, changed, "no list has changed: %s", errs)
			require.NoError(t, session.Close())
		}()
	}
	kills := 0
	s.storm(l, func() {
		kills++
		s.kill()
		s.start()
	})
	close(ended)
	all.Wait()
	require.Equal(t, kills+1, mcptest.Starts(dir))
	require.NotEmpty(t, l.lost, "no call was in flight at a kill")
	l.check(dir)
	t.Logf("%d kills", kills)
}
