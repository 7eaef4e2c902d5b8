package streamable

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func TestReadUpTo_hugeLimit(t *testing.T) {
	text := strings.Repeat("x", 3*jsonrpc.LargeMessage)
	for _, limit := range transporttest.HugeLimits {
		for _, expected := range []int64{-1, int64(len(text))} {
			got, _, err := (&httpbody.BodyReader{Body: strings.NewReader(text)}).ReadUpTo(limit, expected, nil)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
	}
	_, _, err := (&httpbody.BodyReader{Body: bytes.NewReader(make([]byte, 11))}).ReadUpTo(10, -1, nil)
	require.ErrorIs(t, err, httpbody.ErrTooLong)
	got, _, err := (&httpbody.BodyReader{Body: bytes.NewReader(make([]byte, 10))}).ReadUpTo(10, -1, nil)
	require.NoError(t, err)
	require.Len(t, got, 10)
}

func TestMaxMessageBytes_maxInt(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.Limits.MaxMessageBytes = math.MaxInt
	requireServing(t, openSession(t, spec))

	d := stdio.NewDialer(mcpvisor.ServerSpec{Name: "tiny", Limits: mcpvisor.Limits{MaxMessageBytes: math.MaxInt},
		InMemory: &mcpvisor.InMemory{Serve: transporttest.LegacyServer(nil)}}, transporttest.MemoryOptions)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	_, err := s.Request(transporttest.Context(t), transporttest.TinyCall("any"))
	require.NoError(t, err)
}
