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

	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// nodeName is the variable with the path of a node's configuration.
const nodeName = "MCPVISOR_FLEETTEST_NODE"

// NodeConfig is the configuration of the process of a node.
type NodeConfig struct {
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
	node   *fleet.Node
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
	n.node, err = join(ctx, config)
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
)

// opTimeout ends commands that have no timeout of their own.
const opTimeout = 2 * time.Minute

func (n *nodeProcess) do(c command) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	switch c.Op {
	case "status":
		return n.node.Status(), nil
	case "apply":
		return with(c, func(servers []Server) (uint64, error) {
			all := make([]fleet.Server, len(servers))
			for i, s := range servers {
				all[i] = fleet.Server{Name: s.Name, Exclusive: s.Exclusive, Labels: s.Labels, Definition: s.Definition(n.dir)}
			}
			return n.node.Apply(ctx, all)
		})
	case "call":
		return with(c, func(p callCommand) (Call, error) { return n.caller.call(p.Server, p.Options), nil })
	case "probe":
		return with(c, func(p probeCommand) ([]Call, error) { return n.caller.probe(p.Names, p.Timeout), nil })
	case "burst":
		return with(c, func(p burstOptions) (*Load, error) { return n.caller.burst(p), nil })
	case "load":
		return with(c, func(p loadCommand) (any, error) { return nil, n.startLoad(p) })
	case "unload":
		return with(c, n.stopLoad)
	case "tool":
		return with(c, n.waitTool)
	case "drain":
		return nil, n.node.Drain(ctx)
	case "leave":
		return nil, n.node.Leave(ctx)
	case "close":
		return nil, n.node.Close(ctx)
	}
	return nil, fmt.Errorf("command %q is not known", c.Op)
}

// with calls f with the payload of a command.
func with[P, R any](c command, f func(P) (R, error)) (any, error) {
	var p P
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return nil, err
	}
	return f(p)
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
