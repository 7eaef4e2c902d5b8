package gateway

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A stream in whose place another one has come takes nothing of what the session is told: its connection may be dead.
func TestStream_whose_place_is_taken_reads_nothing(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	x := &exchange{server: s, gateway: s.gateway, principal: s.enter(""), r: r}
	defer s.leave(x.principal)
	hs, err := x.openSession(p.session)
	require.NoError(t, err)
	defer s.closeSession(hs)
	woken := 0
	first := s.takeStream(hs, func() { woken++ })
	second := s.takeStream(hs, func() {})
	require.Equal(t, 1, woken)
	hs.notify.StartSession()
	hs.notify.ReportLists(listing.ToolList)
	require.Nil(t, hs.notify.NextOf(first))
	require.NotNil(t, hs.notify.NextOf(second))
	require.Equal(t, 1, woken)
}
