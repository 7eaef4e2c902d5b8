package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// A principal whose sessions fill the queue of a server, and keep it full, delays the call of another one by the
// calls that the server works on and by one more, and takes no room from it.
func TestHandler_principals_in_turn(t *testing.T) {
	const flooding, calls, queued = 3, 10, 8
	step, called := make(chan struct{}), make(chan string)
	server := &rawtest.Server{Answer: func(m *rawtest.Message) string {
		switch m.Method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			select {
			case called <- string(m.Text):
				<-step
			case <-t.Context().Done():
			}
			return `"result":{"content":[]}`
		}
		return rawtest.None
	}}
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{Serve: server.Serve}, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: queued}})
	flood, quiet := NewToken(), NewToken()
	_, url := serveHTTP(t, c, WithMaxWait(-1), WithTokens(Token{Principal: "flood", SHA256: HashToken(flood)}, Token{Principal: "quiet", SHA256: HashToken(quiet)}))
	call := func(who string, id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"s__x","arguments":{"who":%q}}}`, id, who)
	}
	client := func(token string) *peer {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+token)
		p.initialize("2025-11-25")
		return p
	}
	var all sync.WaitGroup
	t.Cleanup(func() { close(step) })
	refused := make(chan string, flooding*calls)
	for range flooding {
		p := client(flood)
		for id := range calls {
			all.Go(func() {
				_, answer := p.post(call("flood", id+2))
				if strings.Contains(answer, `"overloaded"`) {
					refused <- answer
				}
			})
		}
	}
	require.Contains(t, <-called, "flood")
	until(t, func() bool { return len(refused) == flooding*calls-queued-1 })
	other := client(quiet)
	all.Go(func() {
		_, answer := other.post(call("quiet", 2))
		require.NotContains(t, answer, "error")
	})
	until(t, func() bool { return len(refused) == flooding*calls-queued }) // one of those that wait made room
	step <- struct{}{}
	require.Contains(t, <-called, "flood")
	step <- struct{}{}
	require.Contains(t, <-called, "quiet", "one round has one call of each")
	for range queued - 2 {
		step <- struct{}{}
		require.Contains(t, <-called, "flood")
	}
	step <- struct{}{}
	all.Wait()
}

// A principal that floods a server delays 99 of 100 calls of another one by no more than such a call takes, whether the server works
// on one call at a time or on several. In virtual time, the waits of the gateway are all that counts.
func TestHandler_flood_and_p99(t *testing.T) {
	const takes, flooding, samples = 10 * time.Millisecond, 64, 200
	for _, atOnce := range []int{1, 2, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			c, err := facade.New()
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{}), Era: mcpvisor.EraLegacy,
				Limits: mcpvisor.Limits{MaxInFlight: atOnce}}))
			flood, quiet := NewToken(), NewToken()
			h := Handler(c, WithTokens(Token{Principal: "flood", SHA256: HashToken(flood)}, Token{Principal: "quiet", SHA256: HashToken(quiet)}))
			post := func(token, session, body string) *httptest.ResponseRecorder {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
				for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token, sessionHeader: session} {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			open := func(token string) func(id int) time.Duration {
				session := post(token, "", initializeRequest("2025-11-25")).Header().Get(sessionHeader)
				return func(id int) time.Duration {
					began := time.Now()
					answer := post(token, session, toolCallOf(id, "s__sleep", fmt.Sprintf(`{"ms":%d}`, takes.Milliseconds())))
					require.Contains(t, answer.Body.String(), `"result"`)
					return time.Since(began)
				}
			}
			call := open(quiet)
			p99 := func() time.Duration {
				var took []time.Duration
				for i := range samples {
					took = append(took, call(i+2))
					time.Sleep(time.Duration(i%37) * time.Millisecond)
				}
				slices.Sort(took)
				return took[samples*99/100]
			}
			alone := p99()
			stop := make(chan struct{})
			var all sync.WaitGroup
			for range 2 {
				call := open(flood)
				for i := range flooding / 2 {
					all.Go(func() {
						for id := i + 2; ; id += flooding {
							select {
							case <-stop:
								return
							default:
								call(id)
							}
						}
					})
				}
			}
			time.Sleep(takes)
			beside := p99()
			close(stop)
			all.Wait()
			t.Logf("%d at once: %v alone, %v beside a flood: %.2f ×", atOnce, alone, beside, float64(beside)/float64(alone))
			require.LessOrEqual(t, beside, 2*alone, "%d at once", atOnce)
			h.Close()
			require.NoError(t, c.Close(t.Context()))
		})
	}
}
