package streamable

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that does not end the response to a POST after its answer occupies a bounded
// number of connections, however many calls follow.
func TestDrain_bounded(t *testing.T) {
	result := func(id json.RawMessage) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, helloResult)
	}
	rows := map[string]func(web *memoryTransport) (sse bool){
		"Streamable HTTP": func(web *memoryTransport) bool {
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				startEvents(w)("data: %s\n\n", result(id))
				<-r.Context().Done()
			})
			return false
		},
		"HTTP+SSE": func(web *memoryTransport) bool {
			messages := make(chan string)
			answer := func(text func(json.RawMessage) string) handler {
				return func(_ http.ResponseWriter, r *http.Request, id json.RawMessage) {
					messages <- text(id)
					<-r.Context().Done()
				}
			}
			web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				send := startEvents(w)
				for send("event: endpoint\ndata: /mcp\n\n"); ; {
					select {
					case text := <-messages:
						send("data: %s\n\n", text)
					case <-r.Context().Done():
						return
					}
				}
			})
			web.handle("initialize", answer(func(id json.RawMessage) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}`, id)
			}))
			web.handle("tools/call", answer(result))
			return true
		},
	}
	for name, prepare := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				spec := web.spec()
				spec.HTTP.SSE = prepare(web)
				s := openSession(t, spec)
				time.Sleep(2 * drainTimeout) // so that the responses of the handshake are closed
				before := s.exchanger.table.size()
				for range 3 * maxDrains {
					requireServing(t, s)
				}
				synctest.Wait()
				require.Equal(t, before+maxDrains, s.exchanger.table.size())
				time.Sleep(2 * drainTimeout)
				synctest.Wait()
				require.Equal(t, before, s.exchanger.table.size())
				require.Zero(t, s.exchanger.draining.Load())
				require.Len(t, web.unclosed(), before, "the event stream of HTTP+SSE")
				require.Nil(t, s.Cause())
			})
		})
	}
}
