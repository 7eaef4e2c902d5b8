package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/transport"
)

// TestVersion_older_server: a node of the version before, which ends the stream at a call that it
// does not know, gets none: the request is refused here. Calls are made.
func TestVersion_older_server(t *testing.T) {
	a := newAuthority(t)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
		s.send(helloOf(messageWelcome, "b", version-1))
		for {
			f, err := s.receive(messageCall)
			if err != nil {
				return
			}
			if c, err := readCall(f.payload); err != nil || c.method > methodComplete || c.flags()>>12 != 0 {
				t.Errorf("call %v, %v", c, err)
			}
			s.send(whole(messageResult, f.call, []byte("1")))
		}
	})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	for name, request := range laterRequests(t, c) {
		err := request()
		require.ErrorIs(t, err, ErrUnsupported, name)
		requireNotSent(t, err, "speaks version 1")
	}
	for _, opt := range []facade.CallOption{relay.WithTaskRelay(&relay.TaskRelay{}), relay.WithoutTasks()} {
		_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", nil, opt)
		require.ErrorIs(t, err, ErrUnsupported)
	}
	_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", nil)
	require.NoError(t, err)
}

// laterRequests are the requests that a node of the version before does not know.
func laterRequests(t testing.TB, c *Client) map[string]func() error {
	return map[string]func() error{
		"catalog": func() error { _, err := c.Catalog(within(t), "s", "digest"); return err },
		"request": func() error {
			_, err := c.Request(within(t), Request{Server: "s", Epoch: 1, Method: "ping"})
			return err
		},
		"notices": func() error {
			return c.Notices(within(t), "s", 1, func() {}, func(transport.Notice) {})
		},
	}
}

// TestVersion_older_client: a client of the version before makes its calls, and that of the next
// one, too, whose calls of an unknown kind are refused, and the stream lives.
func TestVersion_older_client(t *testing.T) {
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, MaxCalls: 4 * streamsPerLink})
	for _, spoken := range []int{version - 1, version, version + 1} {
		s := dialRaw(t, identity(t, a, "a"), address)
		s.send(helloOf(messageHello, "a", spoken))
		f, err := s.receive(messageWelcome)
		require.NoError(t, err)
		require.JSONEq(t, `{"version":2,"node":"b"}`, string(f.payload))
		if spoken > version {
			for number := range uint64(1000) { // more than may be executed at a time: none is
				s.send(whole(messageCall, 10+number, append([]byte{77}, callOf(nil)[1:]...)))
				f, err = s.receive(messageFailure)
				require.NoError(t, err)
				e := decodeFailure(f.payload)
				require.ErrorIs(t, e, ErrUnsupported)
				requireNotSent(t, e)
			}
		}
		s.send(whole(messageCall, 1, callOf([]byte("1"))))
		f, err = s.receive(messageResult)
		require.NoError(t, err)
		require.Equal(t, "1", string(f.payload))
	}
	s := dialRaw(t, identity(t, a, "a"), address)
	s.send(helloOf(messageHello, "a", version-2))
	_, err := s.receive(99)
	require.ErrorContains(t, err, "with version 0")
}

// TestVersion_not_configured: a node of this version that has no function for a request says so.
func TestVersion_not_configured(t *testing.T) {
	c := pair(t, echo)
	for name, request := range laterRequests(t, c) {
		err := request()
		require.ErrorIs(t, err, ErrUnsupported, name)
		requireNotSent(t, err)
	}
	_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", []byte("1"), facade.WithoutValidation())
	require.NoError(t, err)
	require.NotErrorIs(t, err, mcpvisor.ErrProtocol)
}
