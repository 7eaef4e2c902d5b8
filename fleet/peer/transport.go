package peer

import (
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// The streams of a link are bidirectional streams of gRPC, whose messages are packets as they are.
const (
	serviceName = "mcpvisor.fleet.Peer"
	streamName  = "Link"
	methodName  = "/" + serviceName + "/" + streamName
)

// streamWindow is how many bytes of a stream may be under way that nobody has read. It is constant: to
// adapt it, gRPC would send a PING frame for nearly every packet, while few are under way.
const streamWindow = 1 << 20

var linkDesc = grpc.StreamDesc{StreamName: streamName, ServerStreams: true, ClientStreams: true}

// packets is a stream of gRPC.
type packets interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// codec passes packets to gRPC and back. A *[]byte that is sent belongs to gRPC, which returns it
// to packetPool; one that is received is overwritten.
type codec struct{}

func (codec) Name() string { return "mcpvisor-packet" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("peer: %T is no packet", v)
	}
	return mem.BufferSlice{mem.NewBuffer(b, packetPool)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("peer: %T is no packet", v)
	}
	n := data.Len()
	if cap(*b) < n {
		*b = make([]byte, n, max(n, 4<<10))
	}
	*b = (*b)[:n]
	data.CopyTo(*b)
	return nil
}

// packetBuffers is a mem.BufferPool of buffers for packets.
type packetBuffers struct{ pool sync.Pool }

var packetPool = &packetBuffers{sync.Pool{New: func() any {
	b := make([]byte, 0, maxPacket)
	return &b
}}}

// Get implements mem.BufferPool. The buffer is empty.
func (p *packetBuffers) Get(int) *[]byte {
	b := p.pool.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// Put implements mem.BufferPool.
func (p *packetBuffers) Put(b *[]byte) {
	if cap(*b) >= maxPacket {
		p.pool.Put(b)
	}
}
