package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// 50 clients of both eras, over HTTP and as sessions of a Transport, use the same ids and progress tokens: each
// gets its own progress and its own results.
func TestCalls_do_not_cross(t *testing.T) {
	const clients = 50
	calls := 1000
	if raceDetector || testing.Short() {
		calls = 50
	}
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", InMemory: reportingServer()})
	transport := Transport(c, WithNames(Names{}))
	_, url := serveHTTP(t, c)
	reports := make([]int, clients)
	var all sync.WaitGroup
	for n := range clients {
		modern := n%2 == 0
		params := func(text string) string {
			meta := `"progressToken":"t"`
			if modern {
				meta += `,` + strings.TrimPrefix(modernMeta, `"_meta":{`)
			} else {
				meta += `}`
			}
			return `{"name":"a__x","arguments":{"text":"` + text + `"},"_meta":{` + meta + `}`
		}
		var call func(text string) (messages []string, err error)
		if n%4 < 2 {
			s := openRaw(t, transport)
			if !modern {
				require.NoError(t, s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}`).Error)
			}
			id, err := jsonrpc.MakeID("1")
			require.NoError(t, err)
			call = func(text string) (messages []string, err error) {
				if err = s.conn.Write(t.Context(), &jsonrpc.Request{ID: id, Method: "tools/call", Params: json.RawMessage(params(text))}); err != nil {
					return nil, err
				}
				for {
					m, err := s.conn.Read(t.Context())
					if err != nil {
						return nil, err
					}
					encoded := message.Encode(m)
					messages = append(messages, string(encoded.Head)+string(encoded.Body))
					if _, ended := m.(*jsonrpc.Response); ended {
						return messages, nil
					}
				}
			}
		} else {
			p := newPeer(t, url)
			if !modern {
				p.initializeWith("2025-11-25", `{"elicitation":{}}`)
			} else {
				p.header = http.Header{versionHeader: {"2026-07-28"}, methodHeader: {"tools/call"}, nameHeader: {"a__x"}}
			}
			call = func(text string) (messages []string, err error) {
				body, err := p.stream(t.Context(), `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":`+params(text)+`}`)
				if err != nil {
					return nil, err
				}
				defer body.Close()
				answer, err := io.ReadAll(body)
				for line := range strings.Lines(string(answer)) {
					if data, ok := strings.CutPrefix(line, "data: "); ok || strings.HasPrefix(line, "{") {
						messages = append(messages, data)
					}
				}
				return messages, err
			}
		}
		all.Go(func() {
			for i := range calls {
				text := fmt.Sprintf("call %d of client %d.", i, n)
				messages, err := call(text)
				if err != nil || len(messages) == 0 || len(messages) > 2 {
					t.Errorf("client %d, call %d: %v %v", n, i, err, messages)
					return
				}
				reports[n] += len(messages) - 1
				for _, m := range messages {
					if !strings.Contains(m, text) {
						t.Errorf("client %d, call %d: %s", n, i, m)
						return
					}
				}
			}
		})
	}
	all.Wait()
	for n, got := range reports {
		require.NotZero(t, got, "client %d had progress", n)
	}
}

// A question goes to a call at its server, even if a newer call is in flight at another one.
func TestQuestions_of_another_server(t *testing.T) {
	start := func(t *testing.T) (c *facade.Client, ask chan struct{}) {
		t.Helper()
		ask = make(chan struct{})
		spec := fixture("a", mcptest.Script{})
		spec.InMemory, spec.Era = waitingServer(ask), mcpvisor.EraLegacy
		return newAskingClient(t, nil, spec, legacyFixture("b")), ask
	}
	t.Run("by a request", func(t *testing.T) {
		c, ask := start(t)
		_, url := serveHTTP(t, c)
		p := newPeer(t, url)
		p.initializeWith("2025-11-25", `{"elicitation":{}}`)
		streams := make(chan string, 2)
		for i, tool := range []string{"a__x", "b__hang"} {
			go func() {
				body, err := p.stream(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, i, tool))
				if err != nil {
					return
				}
				defer body.Close()
				if _, data, ok := (events{t, bufio.NewReader(body), nil}).next(); ok {
					streams <- tool + " " + data
				}
			}()
			until(t, func() bool { return len(c.CallsInFlight()) == i+1 })
		}
		ask <- struct{}{}
		got := receive(t, streams)
		require.True(t, strings.HasPrefix(got, "a__x "), got)
		require.Contains(t, got, "elicitation/create")
	})
	t.Run("by a result", func(t *testing.T) {
		c, ask := start(t)
		s := openRaw(t, Transport(c, WithNames(Names{})))
		for i, tool := range []string{"a__x", "b__hang"} {
			s.send(float64(i), "tools/call", `{"name":"`+tool+`",`+modernMeta+`}`)
			until(t, func() bool { return len(c.CallsInFlight()) == i+1 })
		}
		ask <- struct{}{}
		answer := s.read().(*jsonrpc.Response)
		require.Equal(t, int64(0), answer.ID.Raw())
		_, _ = required(t, string(answer.Result))
	})
}

// stream sends a request of a session, and returns the body of the answer.
func (p *peer) stream(ctx context.Context, body string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = p.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		r.Header.Set(sessionHeader, p.session)
	}
	response, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// A client is gone in mid-question: its server gets the cancellation within a second.
func TestQuestions_client_is_gone_server_is_told(t *testing.T) {
	for name, params := range map[string]string{
		"2025-11-25": `{"name":"a/x"}`,
		"2026-07-28": `{"name":"a/x",` + modernMeta + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := fixture("a", mcptest.Script{})
				told := make(chan time.Time, 1)
				spec.InMemory, spec.Era = cancelableServer(told), mcpvisor.EraLegacy
				c := newAskingClient(t, nil, spec)
				s := openRaw(t, Transport(c))
				if name < modernVersion {
					s = askingSession(t, c)
				}
				s.send(1, "tools/call", params)
				switch m := s.read().(type) {
				case *jsonrpc.Request:
					require.Equal(t, "elicitation/create", m.Method)
				case *jsonrpc.Response:
					_, _ = required(t, string(m.Result))
				}
				time.Sleep(time.Minute)
				left := time.Now()
				require.NoError(t, s.conn.Close())
				require.Less(t, receive(t, told).Sub(left), time.Second)
			})
		})
	}
}

// Two requests subscriptions/listen of one session both keep delivering, and so they do when a third one has ended.
func TestListen_twice(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	uri := c.Resources()[0].URI
	const listen = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["%s"]}}`
	for id := range 3 {
		s.send(float64(id), "subscriptions/listen", fmt.Sprintf(listen, uri))
		require.Equal(t, "notifications/subscriptions/acknowledged", s.read().(*jsonrpc.Request).Method)
	}
	// round changes something, and returns which listens were told.
	round := func(tool, arguments, method string, want int) {
		t.Helper()
		_, err := c.CallTool(t.Context(), "a/"+tool, json.RawMessage(arguments))
		require.NoError(t, err)
		told := map[string]bool{}
		for range want {
			m := s.read().(*jsonrpc.Request)
			require.Equal(t, method, m.Method)
			told[memberOf(t, m.Params, "_meta", "io.modelcontextprotocol/subscriptionId")] = true
		}
		require.Len(t, told, want)
	}
	const changed, updated = "notifications/tools/list_changed", "notifications/resources/updated"
	touch := `{"uri":"` + uri + `"}`
	round("touch", touch, updated, 3)
	s.notify("notifications/cancelled", `{"requestId":2}`)
	q := s.conn.(*connection).requests()
	until(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.listens == 2
	})
	for i := range 3 {
		round("touch", touch, updated, 2)
		round("add_tool", fmt.Sprintf(`{"name":"fresh%d"}`, i), changed, 2)
		require.NoError(t, s.callWith(9, "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`).Error)
	}
}
