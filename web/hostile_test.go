package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// The catalog of the server of these tests has largeTools tools of largeBytes each. The tool
// "large" answers with as much as all of them have.
const largeTools, largeBytes = 160, 50_000

func largeCatalog() mcptest.Script {
	tools := []mcptest.ToolDef{{Name: "echo"}, {Name: "large", Text: strings.Repeat("x", largeTools*largeBytes)}}
	for i := range largeTools {
		tools = append(tools, mcptest.ToolDef{Name: fmt.Sprintf("tool-%d", i), Description: strings.Repeat("x", largeBytes)})
	}
	return mcptest.Script{Tools: tools}
}

// hostileReaders are many connections of readers that make the handler hold as much as they
// can. The clock is that of a bubble, so that every handler waits for its reader when the
// memory is measured.
type hostileReaders struct {
	connections int
	// request is what each sends, and then it neither reads nor writes. more is what it sends
	// that the handler may leave unread.
	request, more string
	// served is how many are served, of the others each gets refusal.
	served  [2]int // at least, at most
	refusal string // in the answer
	// heldMB bounds the memory of all of them, without the connections.
	heldMB int
}

func rawPost(path, body string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
}

var hostileReaderRows = map[string]hostileReaders{
	"catalog that is not read": {connections: 24, request: "GET /api/servers/s/tools HTTP/1.1\r\nHost: localhost\r\n\r\n",
		served: [2]int{6, 8}, refusal: "try again later", heldMB: 64 + 8},
	"results that are not read": {connections: 24, request: rawPost("/api/call", `{"tool":"s/large"}`, 18),
		served: [2]int{6, 8}, refusal: `"outcome":"answered"`, heldMB: 64 + 8},
	"bodies without end": {connections: 24, request: rawPost("/api/call", `{"arguments":"`, 8<<20), more: strings.Repeat("x", 4<<20),
		served: [2]int{3, 6}, refusal: "try again later", heldMB: 64},
	"a thousand event streams": {connections: 1000, request: "GET /api/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n",
		served: [2]int{64, 64}, refusal: "64 event streams are open", heldMB: 16},
	"a thousand calls that hang": {connections: 1000, request: rawPost("/api/call", `{"tool":"s/hang"}`, 17),
		served: [2]int{512, 512}, refusal: "512 requests are being served", heldMB: 32},
}

func TestHostileReaders(t *testing.T) {
	for name, row := range hostileReaderRows {
		t.Run(name, func(t *testing.T) {
			script := largeCatalog()
			script.Tools = append(script.Tools, mcptest.ToolDef{Name: "hang"})
			withPipes(t, script, func(t *testing.T, p *pipes) {
				conns := make([]net.Conn, row.connections)
				more := []byte(row.more)
				before := heapMB()
				for i := range conns {
					conn, err := p.dial()
					require.NoError(t, err)
					defer conn.Close()
					conns[i] = conn
					_, err = conn.Write([]byte(row.request))
					require.NoError(t, err)
					if row.more != "" {
						go func() { _, _ = conn.Write(more) }() // until the handler does not read
					}
				}
				synctest.Wait()
				connections := row.connections * 40 >> 10 // a goroutine and two buffers each, and the ends of this test
				require.LessOrEqual(t, heapMB()-before, row.heldMB+connections+8, "MB are held")

				requireServed(t, p, "/healthz", 200)
				requireServed(t, p, "/readyz", 200)
				refusals := make([]string, len(conns))
				var reading sync.WaitGroup
				for i, conn := range conns {
					reading.Go(func() { refusals[i] = refusalOf(conn) })
				}
				reading.Wait()
				served := 0
				for _, text := range refusals {
					if text == "" {
						served++
						continue
					}
					require.Contains(t, text, row.refusal)
					require.Equal(t, !strings.Contains(text, "answered"), strings.HasPrefix(text, "503, retry after 2: "), text)
				}
				require.True(t, row.served[0] <= served && served <= row.served[1], "%d are served, not %v", served, row.served)

				for _, conn := range conns {
					require.NoError(t, conn.Close())
				}
				synctest.Wait()
				again, err := p.dial()
				require.NoError(t, err)
				defer again.Close()
				_, err = again.Write([]byte(row.request))
				require.NoError(t, err)
				require.Empty(t, refusalOf(again), "each that ends makes room")
				requireServed(t, p, "/api/status", 200)
				requireServed(t, p, "/api/servers/s/tools", 200)
			})
		})
	}
}

// heapMB is how many megabytes of the heap are in use.
func heapMB() int {
	runtime.GC()
	runtime.GC() // what a pool has kept is free after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

// refusalOf reads an answer that is not 200. It is empty if that does not come within a second
// of the bubble.
func refusalOf(conn net.Conn) string {
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err.Error()
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode == 200 {
		return ""
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d, retry after %s: %s", response.StatusCode, response.Header.Get("Retry-After"), body)
}

// requireServed makes one request as others do.
func requireServed(t *testing.T, p *pipes, path string, status int) {
	t.Helper()
	conn, err := p.dial()
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%s: %.200s", path, body)
	require.True(t, json.Valid(body), path)
}

// A reader that reads a little all the time has no more time than one that reads nothing.
func TestHostileReaders_a_byte_a_second(t *testing.T) {
	for _, path := range []string{"/api/servers/s/tools", "/api/status", "/metrics", "/app.js"} {
		withPipes(t, largeCatalog(), func(t *testing.T, p *pipes) {
			conn, err := p.dial()
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
			require.NoError(t, err)
			began, one := time.Now(), make([]byte, 1)
			for err == nil {
				time.Sleep(time.Second)
				_, err = conn.Read(one)
			}
			require.Less(t, time.Since(began), time.Minute, path)
			requireServed(t, p, "/api/status", 200)
		})
	}
}

// Over HTTP/2 a reader opens many streams on one connection.
func TestHostileReaders_HTTP2(t *testing.T) {
	withPipes(t, largeCatalog(), func(t *testing.T, p *pipes) {
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial() },
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1, MaxReceiveBufferPerConnection: 64 << 10}}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		before := heapMB()
		statuses := map[int]int{}
		for range 24 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/servers/s/tools", nil)
			require.NoError(t, err)
			response, err := transport.RoundTrip(r)
			require.NoError(t, err)
			require.Equal(t, 2, response.ProtoMajor)
			defer response.Body.Close()
			statuses[response.StatusCode]++
			if response.StatusCode != 200 {
				require.Equal(t, "2", response.Header.Get("Retry-After"))
			}
		}
		synctest.Wait()
		require.LessOrEqual(t, heapMB()-before, 64+8+8, "MB are held")
		require.GreaterOrEqual(t, statuses[200], 6)
		require.LessOrEqual(t, statuses[200], 8)
		require.Equal(t, 24, statuses[200]+statuses[503])
		time.Sleep(2 * time.Minute) // the clock of the bubble: they have lost their streams
		requireServed(t, p, "/api/servers/s/tools", 200)
	})
}

// A body that is not one call is refused as a whole, and nothing is called.
func TestHostileBodies(t *testing.T) {
	c, s := serveOne(t, "s", web.WithControls())
	const call = `{"tool":"s/echo","arguments":{"text":"x"}`
	for body, want := range map[string]string{
		"": "it is empty", " ": "it is empty", "null": "it is null", "[]": "array", `"s/echo"`: "string", "5": "number", "{": "unexpected",
		call + "} x": "follows the JSON object", call + "}{}": "follows the JSON object", call + "}]": "follows the JSON object",
		call + "}" + call + "}": "follows the JSON object", call + "},": "follows the JSON object", call + "}\x00": "follows the JSON object",
		`{"tool":5}`: "tool", `{"tool":["s/echo"]}`: "tool", `{"tool":{}}`: "tool",
		call + `,"timeout":5}`: "unknown field", call + `,"waitReady":"yes"}`: "waitReady", call + `,"waitReady":1}`: "waitReady",
		call + `,"timeoutMs":-1}`: "timeoutMs is -1", call + `,"timeoutMs":9223372036855}`: "at most 9223372036854",
		call + `,"timeoutMs":9223372036854775807}`: "at most 9223372036854", call + `,"timeoutMs":9223372036854775808}`: "timeoutMs",
		call + `,"timeoutMs":18446744073710}`: "at most", call + `,"timeoutMs":1e999}`: "timeoutMs", call + `,"timeoutMs":1.5}`: "timeoutMs",
		call + `,"timeoutMs":"5"}`: "timeoutMs", call + `,"timeoutMs":{}}`: "timeoutMs",
		strings.Repeat("[", 1<<20):                                 "depth",
		`{"arguments":` + strings.Repeat(`{"a":`, 1<<20):           "depth",
		call + `,"` + strings.Repeat("x", 1<<20) + `":1}`:          "unknown field",
		`{"tool":"s/` + strings.Repeat("x", 1<<20) + `"}`:          "tool",
		`{"tool":"` + strings.Repeat("\\ud800", 1<<17) + `/echo"}`: "",
	} {
		status, answer := s.post("/api/call", body)
		require.Contains(t, []int{400, 404}, status, "%.80s: %.200s", body, answer)
		require.Contains(t, answer, want, "%.80s", body)
		require.Less(t, len(answer), 16<<10, "%.80s: the answer repeats what is long", body)
	}
	recent, _ := c.History().Calls(0)
	for _, ended := range recent {
		require.NotEqual(t, "echo", ended.Target, "it was called: %+v", ended)
	}
	for _, good := range []string{call + "}", call + "}\r\n \t", call + `,"timeoutMs":9223372036854}`, call + `,"timeoutMs":0,"waitReady":true}`} {
		status, answer := s.post("/api/call", good)
		require.Equal(t, 200, status, "%s: %s", good, answer)
	}
}

// A number of the query is one that fits, and an address has a length.
func TestHostileAddresses(t *testing.T) {
	_, s := serveOne(t, "s")
	for _, path := range []string{"/api/calls?after=", "/api/events?after=", "/api/events?last=", "/api/events/stream?after=", "/api/events/stream?last=",
		"/api/servers/s/stderr?after=", "/api/tools?limit=", "/api/usage?after="} {
		for _, bad := range []string{"18446744073709551616", "-1", "-9223372036854775808", "1e3", "1.0", "0x10", "%2B1", "+1", "1+", "1_000", "%D9%A1", "NaN", "5&after=x&limit=x&last=x"} {
			status, body := s.get(path + bad)
			require.Equal(t, 400, status, "%s%s: %s", path, bad, body)
		}
		if !strings.Contains(path, "stream") {
			for _, good := range []string{"0", "1", "9223372036854775808", "18446744073709551615"} {
				status, body := s.get(path + good)
				require.Equal(t, 200, status, "%s%s: %s", path, good, body)
			}
		}
	}
	for _, long := range []string{"/api/status?server=" + strings.Repeat("s&server=", 1000), "/readyz?server=" + strings.Repeat("s&server=", 1000),
		"/api/servers/" + strings.Repeat("s", 9000), "/api/events?kind=" + strings.Repeat("x&kind=", 2000)} {
		status, body := s.get(long)
		require.Equal(t, http.StatusRequestURITooLong, status, "%.40s", long)
		require.Less(t, len(body), 1000)
	}
}

// Heads that browsers do not send, but others can.
func TestHostileHeads(t *testing.T) {
	c, s := serveOne(t, "s", web.WithControls())
	for head, want := range map[string]int{
		"GET /api/status HTTP/1.1\r\nHost: evil.example":                                                                                   421,
		"GET /api/status HTTP/1.1\r\nHost: ":                                                                                               421,
		"GET /api/status HTTP/1.0\r\nX: no host":                                                                                           421,
		"GET http://evil.example/api/status HTTP/1.1\r\nHost: localhost":                                                                   421,
		"GET /api/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example":                                                                400,
		"GET /api/status HTTP/1.1\r\nHost: localhost@evil.example":                                                                         400,
		"GET /api/status HTTP/1.1\r\nHost: localhost:80:evil.example":                                                                      421,
		"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1.:80":                                                                                  200,
		"GET /api/status HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1":                                                        403,
		"GET /api/events/stream HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: x":                                                           400,
		"GET /api/events/stream HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: a-99999999999999999999":                                      400,
		"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nOrigin: http://evil.example\r\nContent-Length: 0": 403,
		"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nOrigin: null\r\nContent-Length: 0":                403,
		"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0":  403,
		"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2":                                      415,
		"POST /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 0":                                400,
		"PUT /api/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 0":                                 405,
		"CONNECT /api/status HTTP/1.1\r\nHost: localhost":                                                                                  415,
		"TRACE /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json":                                                  405,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second))) // a test that fails ends
		_, err = conn.Write([]byte(head + "\r\n\r\n{}"))
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, head)
		require.Equal(t, want, response.StatusCode, head)
		require.NoError(t, response.Body.Close())
		require.NoError(t, conn.Close())
	}
	require.Empty(t, c.CallsInFlight())
}
