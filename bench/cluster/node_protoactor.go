package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	provider "github.com/asynkron/protoactor-go/cluster/clusterproviders/etcd"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mcpvisor/mcpvisor/facade"
)

// protoactorNode is a member of a cluster of the actor library: each name is a virtual actor (a
// grain) that owns one server in the client of its process. So a call ends at the same server
// through the same client as in a fleet, and only what is between the nodes differs.
type protoactorNode struct {
	cluster *cluster.Cluster
	client  *facade.Client
	log     *log
}

const kind = "server"

func newProtoactor(c nodeConfig, l *log) system {
	cert, authorities := credentialsOf(c)
	n := &protoactorNode{client: must(facade.New()), log: l}
	security := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		RootCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities})
	n.cluster = cluster.New(
		actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })),
		cluster.Configure(c.Cluster,
			must(provider.NewWithConfig("/"+c.Cluster, clientv3.Config{Endpoints: []string{c.Etcd}, DialTimeout: 5 * time.Second})),
			disthash.New(),
			remote.Configure("127.0.0.1", 0, remote.WithServerOptions(grpc.Creds(security)), remote.WithDialOptions(grpc.WithTransportCredentials(security))),
			cluster.WithKinds(cluster.NewKind(kind, actor.PropsFromProducer(func() actor.Actor { return &grain{node: n} })))))
	n.cluster.StartMember()
	return n
}

// apply has nothing to do: a grain begins with its first message.
func (n *protoactorNode) apply([]string) {}

func (n *protoactorNode) call(name string, args json.RawMessage, timeout time.Duration, _ bool) (notSent bool, err error) {
	result, err := n.cluster.Request(name, kind, &cluster.GrainRequest{MessageData: args}, cluster.WithTimeout(timeout))
	switch result := result.(type) {
	case *cluster.GrainResponse:
		return false, nil
	case *cluster.GrainErrorResponse:
		return false, errors.New(result.Message)
	}
	return false, errors.Join(err, fmt.Errorf("no answer: %T", result))
}

func (n *protoactorNode) members() int { return n.cluster.MemberList.Length() }

func (n *protoactorNode) leave() {
	n.cluster.Shutdown(true)
	check(n.client.Close(context.Background()))
}

// grain is the virtual actor of a name.
type grain struct {
	node   *protoactorNode
	server string // as it is registered in the client of the process
}

// Receive implements actor.Actor.
func (g *grain) Receive(ctx actor.Context) {
	client := g.node.client
	switch m := ctx.Message().(type) {
	case *cluster.ClusterInit:
		name := m.Identity.Identity
		g.server = fmt.Sprintf("%s-%d", name, g.node.log.lives.Add(1)) // an earlier one may still be ending here
		check(client.Register(context.Background(), g.node.log.newSpec(g.server, name)))
	case *actor.Stopping:
		_ = client.Unregister(context.Background(), g.server) // when it returns, the server has ended
	case *cluster.GrainRequest:
		root, sender, server := ctx.ActorSystem().Root, ctx.Sender(), g.server
		go func() { // a server has several calls at once
			result, err := client.CallToolRaw(context.Background(), server+"/echo", m.MessageData)
			if err != nil {
				root.Send(sender, &cluster.GrainErrorResponse{Message: err.Error()})
				return
			}
			root.Send(sender, &cluster.GrainResponse{MessageData: result})
		}()
	}
}
