//go:build linux

package fleettest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	header header
	life   *LifeFile
	itself json.RawMessage // its result of a call: encoded once, because its cost is part of what is measured

	mu    sync.Mutex // guards out and tools
	out   *bufio.Writer
	tools []string
}

// runServer is a server on a pair of streams, written without an SDK: it costs little, and does
// nothing that it does not know of. It ignores the end of its stdin.
func runServer(in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	time.AfterFunc(maxLifetime, func() { os.Exit(1) })
	epoch, _ := strconv.ParseUint(os.Getenv(epochName), 10, 64)
	s := newServer(out, header{
		Name: os.Getenv(serverName), PID: os.Getpid(), Parent: os.Getppid(), Epoch: epoch,
		Exclusive: os.Getenv(exclusiveName) != "", Began: boottime.Now(),
	})
	var err error
	if s.life, err = startLife(os.Getenv(dirName), s.header); err != nil {
		return err
	}
	s.serve(in)
	select {}
}

func newServer(out io.Writer, h header) *server {
	text, err := json.Marshal(Answer{h.Name, h.PID, h.Epoch, os.Getenv(TokenName)})
	if err != nil {
		panic(err) // strings and numbers
	}
	itself, err := json.Marshal(content(string(text)))
	if err != nil {
		panic(err) // a string
	}
	return &server{header: h, itself: itself, out: bufio.NewWriter(out), tools: []string{toolCall, toolBlob, toolGrow}}
}

// StopTime is how long a server in the process of its node takes to end.
const StopTime = 200 * time.Millisecond

// StartInMemory begins a life in the process of a node. Its number is its epoch.
func StartInMemory(dir, name string, exclusive bool) (*LifeFile, error) {
	now := boottime.Now()
	return startLife(dir, header{Name: name, PID: os.Getpid(), Parent: os.Getpid(), Epoch: uint64(now), Exclusive: exclusive, Began: now})
}

// serveInMemory is a server in the process of its node.
func serveInMemory(dir, name string, exclusive bool) func(context.Context, io.ReadCloser, io.WriteCloser, io.Writer) error {
	return func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		life, err := StartInMemory(dir, name, exclusive)
		if err != nil {
			return err
		}
		defer life.End()
		stop := context.AfterFunc(ctx, func() { _ = in.Close() })
		defer stop()
		s := newServer(out, life.header)
		s.life = life
		s.serve(in)
		if exclusive {
			time.Sleep(StopTime)
		}
		return nil
	}
}

// serve obeys until its stdin ends.
func (s *server) serve(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), 64<<20)
	for lines.Scan() {
		s.take(lines.Bytes())
	}
}

const (
	toolCall  = "call"  // executes the call of an id once more, after a pause
	toolBlob  = "blob"  // answers with a text of a length
	toolGrow  = "grow"  // lists one more tool from now on
	toolGrown = "grown" // which is this one
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string    `json:"name"`
		Version   string    `json:"protocolVersion"`
		Arguments arguments `json:"arguments"`
	} `json:"params"`
}

// arguments of all tools.
type arguments struct {
	ID    string `json:"id,omitempty"`
	Pause int    `json:"pause_ms,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	Text  string `json:"text,omitempty"`
}

func (s *server) take(line []byte) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil || len(r.ID) == 0 {
		return
	}
	switch r.Method {
	case "initialize":
		s.answer(r.ID, map[string]any{
			"protocolVersion": r.Params.Version, "serverInfo": map[string]string{"name": s.header.Name, "version": "1"},
			"capabilities": map[string]any{"tools": map[string]any{"listChanged": true}},
		}, nil)
	case "ping":
		s.answer(r.ID, struct{}{}, nil)
	case "tools/list":
		s.mu.Lock()
		tools := make([]map[string]any, len(s.tools))
		for i, name := range s.tools {
			tools[i] = map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
		}
		s.mu.Unlock()
		s.answer(r.ID, map[string]any{"tools": tools}, nil)
	case "tools/call":
		s.call(r)
	default:
		s.answer(r.ID, nil, fmt.Errorf("method %q is not known", r.Method))
	}
}

func (s *server) call(r request) {
	a := r.Params.Arguments
	if a.ID != "" {
		s.life.Execute(a.ID)
	}
	switch r.Params.Name {
	case toolBlob:
		s.answer(r.ID, content(strings.Repeat("x", a.Bytes)), nil)
	case toolGrow:
		s.mu.Lock()
		s.tools = append(s.tools, toolGrown)
		s.mu.Unlock()
		s.answer(r.ID, s.itself, nil)
		s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
	default:
		if a.Pause == 0 {
			s.answer(r.ID, s.itself, nil)
			return
		}
		time.AfterFunc(time.Duration(a.Pause)*time.Millisecond, func() { s.answer(r.ID, s.itself, nil) })
	}
}

func content(text string) any {
	return map[string]any{"content": []map[string]string{{"type": "text", "text": text}}}
}

func (s *server) answer(id json.RawMessage, result any, err error) {
	if raw, ok := result.(json.RawMessage); ok && err == nil {
		s.sendLine(append(append(append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...), raw...), '}'))
		return
	}
	message := map[string]any{"jsonrpc": "2.0", "id": id}
	if err != nil {
		message["error"] = map[string]any{"code": -32601, "message": err.Error()}
	} else {
		message["result"] = result
	}
	s.send(message)
}

func (s *server) send(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err) // maps of strings and of JSON
	}
	s.sendLine(line)
}

func (s *server) sendLine(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.out.Write(append(line, '\n'))
	if err = errors.Join(err, s.out.Flush()); err != nil {
		s.out.Reset(io.Discard) // the reader has gone; the process continues
	}
}
