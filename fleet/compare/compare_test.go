//go:build linux

package compare

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/clusterproviders/etcd"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/fleettest"
)

const engine = "protoactor"

var names = flag.Int("names", 60, "how many servers there are")

func TestMain(m *testing.M) {
	fleettest.Engines[engine] = join
	fleettest.Main()
	os.Exit(m.Run())
}

// TestCompare logs what both do; it fails if the fleet does what it must not.
func TestCompare(t *testing.T) {
	t.Run("fleet", func(t *testing.T) { fleettest.Compare(t, "", *names) })
	t.Run(engine, func(t *testing.T) { fleettest.Compare(t, engine, *names) })
}

const kind = "server"

// grain is one server: an actor that the cluster places.
type grain struct {
	dir  string
	life *fleettest.LifeFile
}

// arguments are those of the tools of fleettest.
type arguments struct {
	ID    string `json:"id"`
	Bytes int    `json:"bytes"`
}

func (g *grain) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *cluster.ClusterInit:
		var err error
		if g.life, err = fleettest.StartInMemory(g.dir, m.Identity.Identity, true); err != nil {
			panic(err)
		}
	case *actor.Stopping:
		if g.life != nil {
			time.Sleep(fleettest.StopTime)
			g.life.End()
		}
	case *wrapperspb.StringValue:
		var a arguments
		if err := json.Unmarshal([]byte(m.Value), &a); err != nil {
			panic(err)
		}
		if a.ID != "" {
			g.life.Execute(a.ID)
		}
		answer, err := json.Marshal(g.life.Answer())
		if err != nil {
			panic(err)
		}
		ctx.Respond(&wrapperspb.StringValue{Value: string(answer) + strings.Repeat("x", a.Bytes)})
	}
}

// member is a node of the cluster.
type member struct {
	cluster *cluster.Cluster
}

func join(_ context.Context, c fleettest.NodeConfig) (fleettest.Member, error) {
	host, text, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	provider, err := etcd.NewWithConfig("/protoactor", clientv3.Config{Endpoints: c.Endpoints, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	props := actor.PropsFromProducer(func() actor.Actor { return &grain{dir: c.Dir} })
	m := &member{cluster.New(system, cluster.Configure("compare", provider, disthash.New(), remote.Configure(host, port), cluster.WithKinds(cluster.NewKind(kind, props))))}
	m.cluster.StartMember()
	return m, nil
}

// request makes one call; it ends with its context, as nothing in the cluster takes one.
func (m *member) request(ctx context.Context, tool, args string) (string, error) {
	name, _, _ := strings.Cut(tool, "/")
	deadline, _ := ctx.Deadline()
	reply, err := m.cluster.Request(name, kind, &wrapperspb.StringValue{Value: args}, cluster.WithTimeout(time.Until(deadline)), cluster.WithRetryCount(1))
	if err != nil {
		return "", err
	}
	value, ok := reply.(*wrapperspb.StringValue)
	if !ok {
		return "", errors.New("it is no answer of a server")
	}
	return value.Value, nil
}

func (m *member) CallTool(ctx context.Context, tool string, args any, _ ...facade.CallOption) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	answer, err := m.request(ctx, tool, string(text))
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil
}

func (m *member) CallToolRaw(ctx context.Context, tool string, args json.RawMessage, _ ...facade.CallOption) (json.RawMessage, error) {
	answer, err := m.request(ctx, tool, string(args))
	return json.RawMessage(answer), err
}

func (m *member) Drain(context.Context) error {
	m.cluster.Shutdown(true)
	return nil
}

func (*member) Tools() []mcpvisor.Tool                                { return nil }
func (*member) Tool(string) (mcpvisor.Tool, bool)                     { return mcpvisor.Tool{}, false }
func (*member) Apply(context.Context, []fleet.Server) (uint64, error) { return 1, nil }
func (*member) Leave(context.Context) error                           { return nil }
func (*member) Close(context.Context) error                           { return nil }
