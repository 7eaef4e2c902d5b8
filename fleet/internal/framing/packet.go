package framing

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// Streams are bidirectional streams of gRPC. Their messages are packets, without another encoding.
const (
	serviceName = "mcpvisor.fleet.Peer"
	streamName  = "Link"
	methodName  = "/" + serviceName + "/" + streamName
)

// streamWindow bounds the bytes of a stream that are sent and not yet read. It is constant: to adapt it, gRPC
// would send a PING frame for nearly every packet while there are few of them.
const streamWindow = 1 << 20

var linkDesc = grpc.StreamDesc{StreamName: streamName, ServerStreams: true, ClientStreams: true}

// Packets carries the packets of one stream: a stream of gRPC, or one in memory.
type Packets interface {
	// SendMsg takes a packet, which may be written after it has returned.
	SendMsg(m any) error
	// RecvMsg gets the next packet into a *[]byte.
	RecvMsg(m any) error
}

// DialOptions returns the options of a connection with this many streams.
func DialOptions(streams int32) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{}), grpc.MaxCallRecvMsgSize(maxPacket), grpc.MaxCallSendMsgSize(maxPacket)),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(streams * streamWindow),
	}
}

// ServerOptions returns the options of a server whose connections have this many streams.
func ServerOptions(streams int32) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(Codec{}),
		grpc.MaxRecvMsgSize(maxPacket),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(streams * streamWindow),
	}
}

// Open opens a stream on a connection that was made with [DialOptions]. It ends with ctx.
func Open(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &linkDesc, methodName)
}

// Register makes handle serve the streams that are opened at a server, which was made with
// [ServerOptions]. A stream ends when handle returns.
func Register(s *grpc.Server, handle func(stream grpc.ServerStream) error) {
	desc := linkDesc
	desc.Handler = func(_ any, stream grpc.ServerStream) error { return handle(stream) }
	s.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}, nil)
}

// Codec passes packets to gRPC and back. A *packet or *[]byte that is sent belongs to gRPC; a *[]byte that
// is received is overwritten.
type Codec struct{}

// Name implements encoding.CodecV2.
func (Codec) Name() string { return "mcpvisor-packet" }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *packet:
		return mem.BufferSlice{mem.NewBuffer(&v.bytes, v)}, nil
	case *[]byte:
		return mem.BufferSlice{mem.SliceBuffer(*v)}, nil
	}
	return nil, fmt.Errorf("framing: %T is no packet", v)
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("framing: %T is no packet", v)
	}
	n := data.Len()
	if cap(*b) < n {
		*b = make([]byte, n, max(n, 4<<10))
	}
	*b = (*b)[:n]
	data.CopyTo(*b)
	return nil
}

// packet is a packet to be sent. It is the mem.BufferPool of its own bytes: in that way gRPC says when it has
// written them.
type packet struct {
	bytes  []byte
	unsent *atomic.Int64 // Stream.unsent; nil until it is sent
}

// smallPacket is the longest packet in a short buffer. gRPC bounds its queue by the lengths of the
// packets and not of their buffers, so many short packets in long buffers would take much memory. The
// short buffers have 2 KiB, because gRPC does not give back buffers of 1 KiB or less.
const smallPacket = 1 << 10

var (
	packetPool      = sync.Pool{New: func() any { return &packet{bytes: make([]byte, 0, maxPacket)} }}
	smallPacketPool = sync.Pool{New: func() any { return &packet{bytes: make([]byte, 0, 2*smallPacket)} }}
)

// newPacket returns an empty packet, with room for maxPacket bytes or, if it is small, for smallPacket.
func newPacket(small bool) *packet {
	if small {
		return smallPacketPool.Get().(*packet)
	}
	return packetPool.Get().(*packet)
}

// free gives back the buffer of a packet that is no longer used.
func (p *packet) free() {
	if p.unsent != nil {
		p.unsent.Add(-int64(len(p.bytes)))
	}
	p.bytes, p.unsent = p.bytes[:0], nil
	switch {
	case cap(p.bytes) >= maxPacket:
		packetPool.Put(p)
	case cap(p.bytes) >= 2*smallPacket:
		smallPacketPool.Put(p)
	}
}

// Get implements mem.BufferPool. It is not called.
func (p *packet) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements mem.BufferPool.
func (p *packet) Put(*[]byte) { p.free() }
