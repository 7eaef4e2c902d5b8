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
// # Streams
//
// A client has one connection with mutual TLS, and four streams of gRPC on it. Each stream carries the
// messages of many calls; message.go has their kinds, and package fleet/internal/framing moves them.
// A short message is one frame. A longer one is sent in chunks of 32 KiB, in turn with the other
// messages, so that a result of 20 MB does not delay others. Its receiver gives credit when it has room
// for the whole message, so that a node buffers a bounded number of bytes for each peer. While a node
// passes a large result on, the result keeps its room in the buffers of the facade
// (facade.WithResultRoom): further results wait in the pipes of their servers.
//
// # Outcomes
//
// A call was not sent if its last byte was not given to the connection. Otherwise its outcome is
// what the other node says, or unknown if the node is gone. Every second the client sends a beat on
// each stream, and the server answers it. A stream on which nothing has come for 3.25 s, and for three
// beats, is suspect: new calls fail at once with OutcomeNotSent. After ten seconds the link is closed, and
// the calls in flight end with OutcomeUnknown.
//
// A call carries the epoch of the placement that it was made for, and the time that is left until
// its deadline. When the call arrives, the node that executes it checks the epoch, and whether its
// own lease is still valid: [ErrMoved] and [ErrLeaseOver] are errors of calls that were not executed.
//
// # Other requests
//
// Since version 2 of the protocol a client also gets catalogs ([Client.Catalog]), makes requests that are
// not calls ([Client.Request]), and hears the notices of a server ([Client.Notices]). They travel as calls
// of other kinds, so that deadlines, cancellation, chunks and errors are the same. A node speaks its
// version and the one before: [ErrUnsupported] is the error of what the other node does not know.
//
// # Bounds
//
// The peers of a fleet are authenticated, but they are not trusted with memory: the lengths of packets
// and messages are bounded, and so are the numbers of calls, questions, waiting answers and notices. A
// peer that breaks the protocol loses its streams.
package peer
