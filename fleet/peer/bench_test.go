package peer

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// bytesCodec passes bytes to gRPC and back.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b := v.(*[]byte)
	*b = make([]byte, data.Len(), max(data.Len(), 4<<10)) // as a stream has it for its first packet
	data.CopyTo(*b)
	return nil
}

// unary is the peer of comparison: a unary call of gRPC over the same TLS, without a format of its own.
func unary(b *testing.B) func(args []byte) {
	a := newAuthority(b)
	server, client := identity(b, a, "b"), identity(b, a, "a")
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(server.serverTLS())), grpc.ForceServerCodecV2(bytesCodec{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new([]byte)
			return in, decode(in)
		}}}}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client.clientTLS("b"))),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
	require.NoError(b, err)
	b.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
	})
	return func(args []byte) {
		in, out := slices.Clone(args), []byte(nil)
		if err := conn.Invoke(context.Background(), "/echo/Echo", &in, &out); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkCalls compares calls of a route with unary calls of gRPC. Compare within one run only.
func BenchmarkCalls(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) func(args []byte){
		"route": func(b *testing.B) func(args []byte) {
			route := pair(b, echo).Route("s", 1)
			return func(args []byte) {
				if _, err := route.CallToolRaw(context.Background(), "s/x", args); err != nil {
					b.Error(err)
				}
			}
		},
		"unary": unary,
	} {
		for _, callers := range []int{1, 64} {
			for _, size := range []int{100, 100_000} {
				b.Run(name+"/callers="+strconv.Itoa(callers)+"/bytes="+strconv.Itoa(size), func(b *testing.B) {
					call, args := open(b), make([]byte, size)
					b.ReportAllocs()
					b.ResetTimer()
					var wg sync.WaitGroup
					var next atomic.Int64
					for range callers {
						wg.Go(func() {
							for next.Add(1) <= int64(b.N) {
								call(args)
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				})
			}
		}
	}
}

// BenchmarkNeighbour is how long short calls take beside results of 20 MB.
func BenchmarkNeighbour(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run("beside="+map[bool]string{false: "nothing", true: "20MB"}[beside], func(b *testing.B) {
			large := make([]byte, 20<<20)
			route := pair(b, localFunc(func(_ context.Context, target string, args []byte, _ []facade.CallOption) (json.RawMessage, error) {
				if target == "s/large" {
					return large, nil
				}
				return args, nil
			})).Route("s", 1)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			if beside {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if got, err := route.CallToolRaw(context.Background(), "s/large", nil); err != nil || len(got) != len(large) {
							b.Error(len(got), err)
						}
					}
				})
			}
			took := make([]time.Duration, b.N)
			b.ResetTimer()
			for i := range b.N {
				began := time.Now()
				if _, err := route.CallToolRaw(context.Background(), "s/x", []byte("1")); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(began)
			}
			b.StopTimer()
			close(stop)
			wg.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkManyLargeResults is what 256 callers of results of 5 MB cost in memory, on both nodes
// together: the peak of the resident memory above what it was before. The server is a process of
// its own, and waits while the nodes have no room.
func BenchmarkManyLargeResults(b *testing.B) {
	for _, size := range []int{100_000, 5 << 20} {
		b.Run("bytes="+strconv.Itoa(size), func(b *testing.B) {
			local, err := facade.New(facade.WithMaxBufferBytes(64 << 20))
			require.NoError(b, err)
			defer func() { require.NoError(b, local.Close(context.Background())) }()
			require.NoError(b, local.Register(context.Background(), mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{})}))
			route := pair(b, relay.Of(local)).Route("s", 1)
			args, err := json.Marshal(map[string]int{"bytes": size})
			require.NoError(b, err)
			debug.FreeOSMemory()
			before := resident(b)
			var peak atomic.Int64
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for tick := time.NewTicker(time.Millisecond); ; {
					select {
					case <-tick.C:
						peak.Store(max(peak.Load(), resident(b)))
					case <-stop:
						tick.Stop()
						return
					}
				}
			}()
			b.ResetTimer()
			for range b.N {
				var wg sync.WaitGroup
				for range 256 {
					wg.Go(func() {
						if got, err := route.CallToolRaw(context.Background(), "s/big", args); err != nil || len(got) < size {
							b.Error(len(got), err)
						}
					})
				}
				wg.Wait()
			}
			b.StopTimer()
			close(stop)
			<-stopped
			b.ReportMetric(float64(256*b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric(float64(peak.Load()-before)/1e6, "peak-MB")
			b.ReportMetric(float64(peak.Load())/1e6, "rss-MB")
		})
	}
}

// resident is the resident memory of this process, in bytes.
func resident(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("no /proc")
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		b.Skip(err)
	}
	return pages * int64(os.Getpagesize())
}
