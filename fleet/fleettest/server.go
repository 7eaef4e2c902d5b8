//go:build linux

package fleettest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// The environment of a server.
const (
	dirName       = "MCPVISOR_FLEETTEST_DIR" // also of nodes: what has it belongs to the fleet
	serverName    = "MCPVISOR_FLEETTEST_NAME"
	exclusiveName = "MCPVISOR_FLEETTEST_EXCLUSIVE"
	// TokenName is a variable whose value a server tells.
	TokenName = "MCPVISOR_FLEETTEST_TOKEN" //nolint:gosec // a name
)

// maxLifetime ends a server that a failed test has left.
const maxLifetime = 20 * time.Minute

// Server is a server of a test's fleet.
type Server struct {
	Name      string
	Exclusive bool
	Labels    map[string]string
	// Env is added to its environment. It answers with the value of [TokenName].
	Env map[string]string
}

// Servers makes servers of which the first are exclusive.
func Servers(all, exclusive int) []Server {
	servers := make([]Server, all)
	for i := range servers {
		servers[i] = Server{Name: fmt.Sprintf("s%03d", i), Exclusive: i < exclusive}
	}
	return servers
}

// Definition is the entry of the server in a configuration file.
func (s Server) Definition(dir string) json.RawMessage {
	env := map[string]string{
		roleName: roleServer, dirName: dir, serverName: s.Name,
		// A binary built with -race would sleep for a second at every exit.
		"GORACE": "atexit_sleep_ms=0",
	}
	if s.Exclusive {
		env[exclusiveName] = "1"
	}
	maps.Copy(env, s.Env)
	definition, err := json.Marshal(map[string]any{
		"command": program(), "env": env,
		"timeouts": map[string]string{"shutdown": "200ms"}, // it ignores all but SIGKILL
	})
	if err != nil {
		panic(err) // maps of strings
	}
	return definition
}

// Answer describes the server itself, in each result.
type Answer struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Epoch uint64 `json:"epoch"`
	Token string `json:"token,omitempty"`
}

// server is the program of a server.
type server struct {
	life   *LifeFile
	itself string // the members of the answer to a call: encoded once, because its cost is part of what is measured

	mu    sync.Mutex // guards tools
	tools []string
}

// runServer is a server on a pair of streams, without an SDK: it costs little, and does nothing that
// it does not know of. It ignores the end of its stdin.
func runServer(in io.ReadCloser, out io.WriteCloser) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	time.AfterFunc(maxLifetime, func() { os.Exit(1) })
	epoch, _ := strconv.ParseUint(os.Getenv(epochName), 10, 64)
	life, err := startLife(os.Getenv(dirName), header{
		Name: os.Getenv(serverName), PID: os.Getpid(), Parent: os.Getppid(), Epoch: epoch,
		Exclusive: os.Getenv(exclusiveName) != "", Began: boottime.Now(),
	})
	if err != nil {
		return err
	}
	_ = newServer(life).Serve(context.Background(), in, out, nil)
	select {}
}

func newServer(life *LifeFile) *raw.Server {
	text, err := json.Marshal(Answer{life.Name, life.PID, life.Epoch, os.Getenv(TokenName)})
	if err != nil {
		panic(err) // strings and numbers
	}
	s := &server{life: life, itself: raw.Text(string(text)), tools: []string{toolCall, toolBlob, toolGrow}}
	return &raw.Server{Capabilities: `{"tools":{"listChanged":true}}`, Answer: s.answer}
}

// stopTime is how long an exclusive server in the process of its node takes to end.
const stopTime = 200 * time.Millisecond

// serveInMemory is a server in the process of its node. Its epoch is the time of its start.
func serveInMemory(dir, name string, exclusive bool) func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error {
	return func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, errs io.Writer) error {
		now := boottime.Now()
		life, err := startLife(dir, header{Name: name, PID: os.Getpid(), Parent: os.Getpid(), Epoch: uint64(now), Exclusive: exclusive, Began: now})
		if err != nil {
			return err
		}
		defer life.End()
		stop := context.AfterFunc(ctx, func() { _ = in.Close() })
		defer stop()
		_ = newServer(life).Serve(ctx, in, out, errs)
		if exclusive {
			time.Sleep(stopTime)
		}
		return nil
	}
}

const (
	toolCall  = "call"  // executes the call of an id once more, after a pause
	toolBlob  = "blob"  // answers with a text of a length
	toolGrow  = "grow"  // lists one more tool from now on
	toolGrown = "grown" // which is this one
)

// arguments of all tools.
type arguments struct {
	ID    string `json:"id,omitempty"`
	Pause int    `json:"pause_ms,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	Text  string `json:"text,omitempty"`
}

func (s *server) answer(m *raw.Message) string {
	switch m.Method {
	case "tools/list":
		s.mu.Lock()
		defer s.mu.Unlock()
		return `"result":{"tools":[{"inputSchema":{"type":"object"},"name":"` + strings.Join(s.tools, `"},{"inputSchema":{"type":"object"},"name":"`) + `"}]}`
	case "tools/call":
		return s.call(m)
	}
	return ""
}

func (s *server) call(m *raw.Message) string {
	var params struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return `"error":{"code":-32602,"message":"arguments of another kind"}`
	}
	a := params.Arguments
	if a.ID != "" {
		s.life.Execute(a.ID)
	}
	switch {
	case params.Name == toolBlob:
		return raw.Text(strings.Repeat("x", a.Bytes))
	case params.Name == toolGrow:
		s.mu.Lock()
		s.tools = append(s.tools, toolGrown)
		s.mu.Unlock()
		m.Reply(s.itself)
		m.Send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		return raw.None
	case a.Pause > 0:
		time.AfterFunc(time.Duration(a.Pause)*time.Millisecond, func() { m.Reply(s.itself) })
		return raw.None
	}
	return s.itself
}
