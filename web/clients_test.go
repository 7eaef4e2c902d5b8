package web_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The clients are those of the gateway that the host names; without one the list is empty.
func TestClients(t *testing.T) {
	c := newClient(t)
	none := decoded[api.Clients](serve(t, c), "/api/clients", 200)
	require.False(t, none.Gateway)
	require.NotNil(t, none.Sessions)
	hosts := clients.New()
	hosts.Open("a", clients.Info{Name: "host", Version: "1", Transport: "stdio"}).Begin(true)
	hosts.Refuse(clients.RefusedToken)
	some := decoded[api.Clients](serve(t, c, web.WithGateway(hosts.Status)), "/api/clients", 200)
	require.True(t, some.Gateway)
	require.NotEqual(t, none.Instance, some.Instance)
	require.Equal(t, 1, some.Total)
	require.Equal(t, "host 1", some.Sessions[0].Label())
	require.Equal(t, 1, some.Sessions[0].InFlight)
	require.EqualValues(t, 1, some.Refused[clients.RefusedToken])
}
