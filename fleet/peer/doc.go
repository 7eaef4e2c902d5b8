// Package peer makes calls from node to node. A [Server] executes the calls of other nodes by a
// [Caller], such as a facade.Client. A [Client] reaches one other node; its routes are a [Caller]
// themselves.
//
//	server, err := peer.NewServer(peer.ServerConfig{Identity: id, Local: client, Check: check})
//	go server.Serve(listener)
//
//	b, err := peer.NewClient(peer.ClientConfig{Identity: id, Node: "b", Address: "10.0.0.2:7400"})
//	result, err := b.Route("fs", epoch).CallToolRaw(ctx, "fs/list", args)
//
// # Streams
//
// A client has one connection with mutual TLS, and four streams of gRPC on it. Each stream carries the
// messages of many calls, whose kinds message.go has; package fleet/internal/framing moves them. Short
// messages are one frame. Longer ones go in chunks of 32 KiB, one of each message in turn, so that a
// result of 20 MB does not stand in the way of others. Their receiver gives credit when it has room for
// all of it, so that a node holds a bounded number of bytes for each peer. A node that passes a large
// result on keeps its room in the buffers of the facade meanwhile (facade.WithResultRoom): further ones
// wait in the pipes of their servers.
//
// # Outcomes
//
// A call whose last byte was not given to the connection was not sent. Otherwise its outcome is
// what the other node says, or unknown if the node is gone. Every second the client sends a beat on
// each stream, which the server answers. A stream on which nothing has come for 3.25 s, and for three
// beats, is suspect: new calls fail at once with OutcomeNotSent. After ten seconds the link is closed, and
// the calls in flight end with OutcomeUnknown.
//
// A call carries the epoch of the placement that it was made for, and the time that is left until
// its deadline. The node that executes it compares the epoch, and whether its lease holds, when the
// call arrives: [ErrMoved] and [ErrLeaseOver] are errors of calls that were not executed.
//
// # Other requests
//
// Since version 2 of the protocol a client also gets catalogs ([Client.Catalog]), makes requests that are
// not calls ([Client.Request]), and hears the notices of a server ([Client.Notices]). They travel as calls
// of other kinds, so that deadlines, cancellation, chunks and errors are the same. A node speaks its
// version and the one before: what the other node does not know is [ErrUnsupported].
//
// # Bounds
//
// The peers of a fleet are authenticated, and not trusted with memory: the length of a packet, of a
// message, the number of calls, of questions, of waiting answers and of notices are bounded, and a peer that
// breaks the protocol loses its streams.
package peer
