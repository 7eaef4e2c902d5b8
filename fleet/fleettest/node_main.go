//go:build linux

package fleettest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// nodeName is the variable with the path of a node's configuration.
const nodeName = "MCPVISOR_FLEETTEST_NODE"

// NodeConfig is the configuration of the process of a node.
type NodeConfig struct {
	Engine    string
	ID        string
	Dir       string
	Endpoints []string // of etcd
	Listen    string
	Address   string // of the proxy before Listen
	TTL       time.Duration
	Guard     bool
	InMemory  bool
	Labels    map[string]string
	// PEM
	Cert, Key, Authority []byte
}

// Member is a node that has joined: [fleet.Node], or what it is compared with.
type Member interface {
	CallTool(ctx context.Context, tool string, args any, opts ...facade.CallOption) (*mcp.CallToolResult, error)
	CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...facade.CallOption) (json.RawMessage, error)
	Tools() []mcpvisor.Tool
	Tool(name string) (mcpvisor.Tool, bool)
	Apply(ctx context.Context, servers []fleet.Server) (uint64, error)
	Drain(ctx context.Context) error
	Leave(ctx context.Context) error
	Close(ctx context.Context) error
}

var _ Member = (*fleet.Node)(nil)

// Engines make members, by [Options.Engine]. Others are added before [Main].
var Engines = map[string]func(context.Context, NodeConfig) (Member, error){"": join}

// command is a line of the stdin of a node; number begins with 1.
type command struct {
	Number  uint64          `json:"n"`
	Op      string          `json:"op"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// reply is a line of its stdout. The first has the number 0: the node has joined, or has failed to.
type reply struct {
	Number uint64          `json:"n"`
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// nodeProcess is the program of a node.
type nodeProcess struct {
	node   Member
	caller *caller
	dir    string

	mu    sync.Mutex // guards out and loads
	out   io.Writer
	loads map[string]*runningLoad
}

type runningLoad struct {
	stop chan struct{}
	done chan *Load // has room for one
}

// runNode joins, and obeys lines until its stdin ends.
func runNode(in io.Reader, out io.Writer) error {
	text, err := os.ReadFile(os.Getenv(nodeName)) //nolint:gosec // the test has chosen the file
	if err != nil {
		return err
	}
	var config NodeConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	n := &nodeProcess{dir: config.Dir, out: out, loads: map[string]*runningLoad{}}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	n.node, err = Engines[config.Engine](ctx, config)
	if err == nil {
		n.caller, err = newCaller(n.node, config.Dir, config.ID)
	}
	n.reply(0, os.Getpid(), err)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		go func() {
			result, err := n.do(c)
			n.reply(c.Number, result, err)
		}()
	}
	return errors.New("the test has ended, and has not ended this node")
}

func (n *nodeProcess) reply(number uint64, result any, err error) {
	r := reply{Number: number}
	if err != nil {
		r.Error = cmp.Or(err.Error(), "an error without a text")
	} else if r.Result, err = json.Marshal(result); err != nil {
		r.Error = err.Error()
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and valid JSON
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = n.out.Write(append(line, '\n'))
}

// The payloads of commands that no other type describes.
type (
	callCommand struct {
		Server  string      `json:"server"`
		Options callOptions `json:"options"`
	}
	probeCommand struct {
		Names   []string      `json:"names"`
		Timeout time.Duration `json:"timeout"`
	}
	loadCommand struct {
		Key     string      `json:"key"`
		Options loadOptions `json:"options"`
	}
	toolCommand struct {
		Tool    string        `json:"tool"`
		Listed  bool          `json:"listed"` // what is waited for
		Timeout time.Duration `json:"timeout"`
	}
	moveCommand struct {
		Server string `json:"server"`
		Node   string `json:"node"`
	}
)

// opTimeout ends commands that have no timeout of their own.
const opTimeout = 2 * time.Minute

func (n *nodeProcess) do(c command) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	switch c.Op {
	case "status":
		if node, ok := n.node.(*fleet.Node); ok {
			return node.Status(), nil
		}
		return nil, errors.New("it has no status")
	case "apply":
		servers, err := payload[[]Server](c)
		if err != nil {
			return nil, err
		}
		all := make([]fleet.Server, len(servers))
		for i, s := range servers {
			all[i] = fleet.Server{Name: s.Name, Exclusive: s.Exclusive, Labels: s.Labels, Definition: s.Definition(n.dir)}
		}
		return n.node.Apply(ctx, all)
	case "call":
		p, err := payload[callCommand](c)
		if err != nil {
			return nil, err
		}
		return n.caller.call(p.Server, p.Options), nil
	case "probe":
		p, err := payload[probeCommand](c)
		if err != nil {
			return nil, err
		}
		return n.caller.probe(p.Names, p.Timeout), nil
	case "burst":
		p, err := payload[burstOptions](c)
		if err != nil {
			return nil, err
		}
		return n.caller.burst(p), nil
	case "load":
		p, err := payload[loadCommand](c)
		if err != nil {
			return nil, err
		}
		return nil, n.startLoad(p)
	case "unload":
		key, err := payload[string](c)
		if err != nil {
			return nil, err
		}
		return n.stopLoad(key)
	case "tool":
		p, err := payload[toolCommand](c)
		if err != nil {
			return nil, err
		}
		return n.waitTool(p)
	case "tools":
		names := []string{}
		for _, t := range n.node.Tools() {
			names = append(names, t.Name)
		}
		return names, nil
	case "move":
		p, err := payload[moveCommand](c)
		if err != nil {
			return nil, err
		}
		if node, ok := n.node.(interface {
			Move(ctx context.Context, server, node string) error
		}); ok {
			return nil, node.Move(ctx, p.Server, p.Node)
		}
		return nil, errors.New("it cannot move servers")
	case "drain":
		return nil, n.node.Drain(ctx)
	case "leave":
		return nil, n.node.Leave(ctx)
	case "close":
		return nil, n.node.Close(ctx)
	}
	return nil, fmt.Errorf("command %q is not known", c.Op)
}

func payload[T any](c command) (p T, err error) {
	err = json.Unmarshal(c.Payload, &p)
	return p, err
}

func (n *nodeProcess) startLoad(p loadCommand) error {
	l := &runningLoad{make(chan struct{}), make(chan *Load, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loads[p.Key] != nil {
		return fmt.Errorf("load %q runs", p.Key)
	}
	n.loads[p.Key] = l
	go func() { l.done <- n.caller.load(p.Options, l.stop) }()
	return nil
}

func (n *nodeProcess) stopLoad(key string) (*Load, error) {
	n.mu.Lock()
	l := n.loads[key]
	delete(n.loads, key)
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("load %q does not run", key)
	}
	close(l.stop)
	return <-l.done, nil
}

// waitTool waits until a tool is listed, or no longer is, and returns when.
func (n *nodeProcess) waitTool(p toolCommand) (time.Duration, error) {
	until := boottime.Now() + p.Timeout
	for {
		_, listed := n.node.Tool(p.Tool)
		now := boottime.Now()
		if listed == p.Listed {
			return now, nil
		}
		if now > until {
			return 0, fmt.Errorf("after %v, listed is %v for %s; tools: %s", p.Timeout, listed, p.Tool, n.some())
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// some names some of the tools.
func (n *nodeProcess) some() string {
	var names []string
	for _, t := range n.node.Tools() {
		names = append(names, t.Name)
	}
	return strings.Join(names[:min(len(names), 20)], " ")
}
