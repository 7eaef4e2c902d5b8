// Package peer is not part of the stable API. It makes calls from node to node. A [Server] executes the calls of other nodes with a
// [Caller], such as a facade.Client. A [Client] reaches one other node; each [Route] of it is a
// [Caller], too.
//
//	server, err := peer.NewServer(peer.ServerConfig{Identity: id, Local: client, Check: check})
//	go server.Serve(listener)
//
//	b, err := peer.NewClient(peer.ClientConfig{Identity: id, Node: "b", Address: "10.0.0.2:7400"})
//	result, err := b.Route("fs", epoch).CallToolRaw(ctx, "fs/list", args)
//
// A client has one connection with mutual TLS, and four streams of gRPC on it. Each stream carries the
// messages of many calls; message.go has their kinds, and package fleet/internal/framing moves them. How long
// messages travel, what becomes of a call when the other node is gone, silent or leaving, and what a node
// buffers is in docs/fleet.md, "Calls between nodes":
// https://github.com/mcpvisor/mcpvisor/blob/main/docs/fleet.md#calls-between-nodes
//
// A call was not sent if its last byte was not given to the connection. Otherwise its outcome is
// what the other node says, or unknown if the node is gone. A call carries the epoch of the placement that it was
// made for; [ErrMoved] and [ErrLeaseOver] are errors of calls that were not executed.
//
// Since version 2 of the protocol a client also gets catalogs ([Client.Catalog]), makes requests that are
// not calls ([Client.Request]), and hears the notices of a server ([Client.Notices]). They travel as calls
// of other kinds, so that deadlines, cancellation, chunks and errors are the same.
//
// The peers of a fleet are authenticated, but they are not trusted with memory: the lengths of packets
// and messages are bounded, and so are the numbers of calls, questions, waiting answers and notices. A
// peer that breaks the protocol loses its streams.
package peer
