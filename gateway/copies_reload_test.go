package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// A server that a profile withholds from now on has no copy any more, so that it asks no question and says nothing.
func TestShare_withheld(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	var settings SettingsVar
	deny := func(servers ...string) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}, Profiles: map[string]Profile{"p": {Servers: Filter{Deny: servers}}}}))
	}
	deny("other")
	s := askingSessionOf(t, Transport(c, WithNames(Names{}), WithSettings(&settings), WithProfile("p")))
	first := incarnationOf(t, s.user(false))
	own := s.conn.(*connection).tenant.Load()
	deny("a")
	require.Empty(t, own.names())
	_, err := own.client("a") // of a request that was admitted before
	require.Error(t, err)
	require.Empty(t, own.names())
	deny("other")
	require.NotEqual(t, first, incarnationOf(t, s.user(false)))
}

// A log message of a copy that the profile withholds is not passed on, though the copy has not ended yet.
func TestShare_log_of_a_withheld_server(t *testing.T) {
	c := newClient(t, legacyFixture("a"))
	var settings SettingsVar
	require.NoError(t, settings.Set(Settings{Profiles: map[string]Profile{"p": {Servers: Filter{Deny: []string{"a"}}}}}))
	g := Transport(c, WithSettings(&settings), WithProfile("p"), WithShare(ShareClient)).(*gateway)
	own, heard := newTenant(g, "x", ""), notices.New[*subscription]()
	heard.SetLogLevel(0)
	own.join(heard, g.view)
	events := make(chan mcpvisor.Event, 1)
	events <- mcpvisor.Event{Kind: mcpvisor.EventLog, Server: "a", Log: &mcpvisor.LogMessage{Level: "error", Text: "x"}}
	close(events)
	own.seatOf("a").follow(events, 1)
	require.Nil(t, heard.Next())
}

// A request that has waited until all clients share the server starts no copy.
func TestShare_no_copy_of_a_shared_server(t *testing.T) {
	c := newClient(t, legacyFixture("a"))
	var settings SettingsVar
	require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}}))
	conn := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings))).conn.(*connection)
	own := conn.tenantOf()
	_, err := own.client("a")
	require.NoError(t, err)
	require.NoError(t, settings.Set(Settings{}))
	_, err = own.client("a")
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
	require.ErrorIs(t, own.seatOf("a").subscribe(t.Context(), resource.Name{Server: "a", URI: "mcptest://text"}, true), mcpvisor.ErrClosed)
	require.Empty(t, own.names())
}
