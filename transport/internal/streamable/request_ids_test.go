package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// After the last id the ids start again, and ids of requests in flight are not used twice.
// The progress token is the id.
func TestRequestIDs_wrapAround(t *testing.T) {
	var mu sync.Mutex
	var ids, tokens []int64
	came, leave := make(chan int64, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m transporttest.Message
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,%s}`, m.ID, transporttest.UnknownMethod)
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,%s}`, m.ID, transporttest.LegacyAnswer)
		case "m":
			mu.Lock()
			ids, tokens = append(ids, m.ID), append(tokens, transporttest.ProgressToken(t, m.Params))
			mu.Unlock()
			came <- m.ID
			<-leave
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":%d}`, m.ID, m.ID)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}))
	defer server.Close()
	dialer, err := newDialer(mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: server.URL}}, transport.Options{ClientInfo: transporttest.ClientInfo})
	require.NoError(t, err)
	s := dialer.NewSession().(*session)
	require.NoError(t, s.Open(t.Context()))
	defer func() {
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
	}()
	ended := make(chan error, 10)
	send := func() {
		go func() {
			_, err := s.Request(context.WithoutCancel(t.Context()), transport.Request{Method: "m", Track: true})
			ended <- err
		}()
		<-came
	}
	for range 3 {
		send()
	}
	transporttest.LeaveIDs(&s.exchanger.table.requests.IDs, 1)
	for range 3 {
		send()
	}
	close(leave)
	for range 6 {
		require.NoError(t, <-ended)
	}
	require.Equal(t, []int64{jsonrpc.FirstID + 1, jsonrpc.FirstID + 2, jsonrpc.FirstID + 3, jsonrpc.EndID - 1, jsonrpc.FirstID, jsonrpc.FirstID + 4}, ids)
	require.Equal(t, ids, tokens)
}
