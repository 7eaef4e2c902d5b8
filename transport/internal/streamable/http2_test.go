package streamable

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
)

// Frames of HTTP/2 (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7

	flagEnd, flagAck, flagEndHeaders = 1, 1, 4
)

// rawHTTP2Server is an MCP server that writes its HTTP/2 frames itself, so that a test can
// replace them.
type rawHTTP2Server struct {
	addr   string
	client *http.Client
	mu     sync.Mutex
	conns  []net.Conn
	calls  int
	// onCall replaces the answer to call n, counted from 1, unless it returns false.
	onCall func(h *h2conn, stream uint32, n int) bool
}

// h2conn is one connection of a rawHTTP2Server. The goroutine of serve owns it.
type h2conn struct {
	net.Conn
	server *rawHTTP2Server
	bodies map[uint32][]byte
}

func newRawHTTP2Server(t *testing.T) *rawHTTP2Server {
	t.Helper()
	checkLeaks(t)
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	certified.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	s := &rawHTTP2Server{addr: l.Addr().String(), client: certified.Client()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			serving.Go((&h2conn{Conn: conn, server: s, bodies: make(map[uint32][]byte)}).serve)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return s
}

func (s *rawHTTP2Server) seen() (calls, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, len(s.conns)
}

func (h *h2conn) serve() {
	defer h.Close()
	if _, err := io.CopyN(io.Discard, h, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	h.send(frameSettings, 0, 0, nil)
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(h, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(h, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
			if kind == frameSettings {
				payload = nil
			}
			h.send(kind, flagAck, 0, payload)
		case kind == frameData || kind == frameHeaders:
			if kind == frameData {
				h.bodies[stream] = append(h.bodies[stream], payload...)
			}
			if flags&flagEnd != 0 {
				h.answer(stream, h.bodies[stream])
			}
		}
	}
}

func (h *h2conn) send(kind, flags byte, stream uint32, payload []byte) {
	frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	_, _ = h.Write(append(binary.BigEndian.AppendUint32(frame, stream), payload...))
}

func (h *h2conn) answer(stream uint32, body []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	var result string
	switch {
	case m.ID == nil: // ":status" by its index in the static table, and its value
		code := map[bool]string{true: "202", false: "405"}[m.Method != ""]
		h.send(frameHeaders, flagEndHeaders|flagEnd, stream, append([]byte{8, 3}, code...))
		return
	case m.Method == "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"1"}}`
	case m.Method == "tools/call":
		h.server.mu.Lock()
		h.server.calls++
		n := h.server.calls
		h.server.mu.Unlock()
		if h.server.onCall(h, stream, n) {
			return
		}
		result = `{"a":"hello"}`
	default:
		result = `{}`
	}
	h.send(frameHeaders, flagEndHeaders, stream, []byte{0x88}) // :status 200
	h.send(frameData, flagEnd, stream, bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), m.ID, []byte(`,"result":` + result + `}`)}, nil))
}

func (h *h2conn) reset(stream, code uint32) {
	h.send(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

const (
	h2Protocol = 1 // PROTOCOL_ERROR
	h2Refused  = 7 // REFUSED_STREAM
)

// openRawHTTP2 opens a legacy session.
func openRawHTTP2(t *testing.T, web *rawHTTP2Server, onCall func(h *h2conn, stream uint32, n int) bool) *session {
	t.Helper()
	web.onCall = onCall
	spec := specFor("https://" + web.addr)
	spec.Era = mcpvisor.EraLegacy
	spec.HTTP.Client = web.client
	return openSession(t, spec)
}

// A request that an HTTP/2 server declares unprocessed is sent again. Servers declare that
// when they restart.
func TestHTTP2_unprocessedRepeated(t *testing.T) {
	rows := map[string]func(h *h2conn, stream uint32){
		"REFUSED_STREAM": func(h *h2conn, stream uint32) { h.reset(stream, h2Refused) },
		"GOAWAY": func(h *h2conn, stream uint32) {
			h.send(frameGoAway, 0, 0, append(binary.BigEndian.AppendUint32(nil, stream-2), 0, 0, 0, 0))
		},
	}
	for name, reject := range rows {
		t.Run(name, func(t *testing.T) {
			web := newRawHTTP2Server(t)
			s := openRawHTTP2(t, web, func(h *h2conn, stream uint32, n int) bool {
				if n == 2 {
					reject(h, stream)
				}
				return n == 2
			})
			requireServing(t, s)
			requireServing(t, s)
			calls, conns := web.seen()
			require.Equal(t, 3, calls)
			require.Equal(t, map[string]int{"REFUSED_STREAM": 1, "GOAWAY": 2}[name], conns)
		})
	}
}

// A request that the server always declares unprocessed is repeated a bounded number of
// times, and then fails as not sent.
func TestHTTP2_unprocessedAlways(t *testing.T) {
	web := newRawHTTP2Server(t)
	s := openRawHTTP2(t, web, func(h *h2conn, stream uint32, _ int) bool {
		h.reset(stream, h2Refused)
		return true
	})
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.KindUnavailable, e.Kind, e.Error())
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	calls, _ := web.seen()
	require.Equal(t, 1+endpoint.MaxUnprocessedRetries, calls)
	require.Nil(t, s.Cause())
}

// A request whose stream ends in another way is not sent again, because the server may
// have acted on it.
func TestHTTP2_resetNotRepeated(t *testing.T) {
	web := newRawHTTP2Server(t)
	s := openRawHTTP2(t, web, func(h *h2conn, stream uint32, n int) bool {
		h.reset(stream, h2Protocol)
		return n > 0
	})
	e := requireCallFails(t, s)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
	calls, _ := web.seen()
	require.Equal(t, 1, calls, "the call ran twice")
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
}
