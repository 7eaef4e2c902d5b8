package gateway

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

const pingRequest = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// A request under a foreign name, of a foreign page or through a proxy is refused.
func TestHandler_access(t *testing.T) {
	c := newClient(t)
	_, url := serveHTTP(t, c, WithOrigins("http://inspector.example:6274"))
	_, open := serveHTTP(t, c, WithTokens(Token{Principal: "p", SHA256: HashToken("secret")}))
	host := strings.TrimPrefix(url, "http://")
	for what, try := range map[string]struct {
		url    string
		header []string
		want   int
	}{
		"plain":                     {url, nil, 400}, // no session
		"localhost":                 {url, []string{"Host", "localhost:80"}, 400},
		"evil host":                 {url, []string{"Host", "evil.example"}, 403},
		"evil host like localhost":  {url, []string{"Host", "localhost.evil.example"}, 403},
		"private address as host":   {url, []string{"Host", "192.168.0.1"}, 403},
		"evil origin":               {url, []string{"Origin", "http://evil.example"}, 403},
		"null origin":               {url, []string{"Origin", "null"}, 403},
		"origin with another port":  {url, []string{"Origin", "http://127.0.0.1:1"}, 403},
		"own origin":                {url, []string{"Origin", "http://" + host}, 400},
		"allowed origin":            {url, []string{"Origin", "http://inspector.example:6274"}, 400},
		"through a proxy":           {url, []string{"X-Forwarded-For", "10.0.0.1"}, 403},
		"no token":                  {open, nil, 401},
		"wrong token":               {open, []string{"Authorization", "Bearer wrong"}, 401},
		"hash as token":             {open, []string{"Authorization", "Bearer " + HashToken("secret")}, 401},
		"token":                     {open, []string{"Authorization", "Bearer secret"}, 400},
		"token and another name":    {open, []string{"Authorization", "Bearer secret", "Host", "mcp.example.com"}, 400},
		"token and a foreign page":  {open, []string{"Authorization", "Bearer secret", "Origin", "http://evil.example"}, 403},
		"token through a proxy":     {open, []string{"Authorization", "Bearer secret", "X-Forwarded-For", "10.0.0.1"}, 400},
		"wrong content type":        {url, []string{"Content-Type", "text/plain"}, 415},
		"form":                      {url, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"json with a charset":       {url, []string{"Content-Type", "application/json; charset=utf-8"}, 400},
		"token of another scheme":   {open, []string{"Authorization", "Basic secret"}, 401},
		"a session that is no more": {url, []string{sessionHeader, "1234"}, 404},
	} {
		status, answer := newPeer(t, try.url).post(pingRequest, try.header...)
		require.Equal(t, try.want, status, "%s: %s", what, answer)
	}
	require.Equal(t, http.StatusMethodNotAllowed, newPeer(t, url).do(t.Context(), http.MethodPut, "").StatusCode)
	preflight := newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", "http://inspector.example:6274")
	require.Equal(t, http.StatusNoContent, preflight.StatusCode)
	require.Contains(t, preflight.Header.Get("Access-Control-Allow-Headers"), sessionHeader)
	require.Equal(t, http.StatusForbidden, newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", "http://evil.example").StatusCode)

	away := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(pingRequest))
	recorder := httptest.NewRecorder()
	Handler(c).ServeHTTP(recorder, away) // it came in on no loopback address that is known
	require.Equal(t, http.StatusForbidden, recorder.Code)
}

// A page that is allowed may send the headers of all versions, and those for the arguments of a tool; no others. A list
// that is longer than one call needs is not repeated.
func TestHandler_preflight(t *testing.T) {
	_, url := serveHTTP(t, newClient(t), WithOrigins("http://inspector.example:6274"))
	allowed := func(asked string) []string {
		t.Helper()
		response := newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", "http://inspector.example:6274", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked)
		require.Equal(t, http.StatusNoContent, response.StatusCode)
		return strings.Split(strings.ToLower(response.Header.Get("Access-Control-Allow-Headers")), ", ")
	}
	always := []string{"accept", "authorization", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"}
	require.ElementsMatch(t, always, allowed(""))
	require.ElementsMatch(t, append([]string{"mcp-param-region", "mcp-param-depth"}, always...),
		allowed("cookie,mcp-method,mcp-param-region, Mcp-Param-Depth,mcp-param-,mcp-param-a b,x-forwarded-for,*,mcp-param-"+strings.Repeat("x", 129)))
	many := always
	for i := range 64 {
		many = append(many, fmt.Sprintf("mcp-param-%02d%s", i, strings.Repeat("x", 126)))
	}
	require.Subset(t, allowed(strings.Join(many, ", ")), many)
	require.ElementsMatch(t, always, allowed(strings.Repeat("mcp-param-x,", 1000)))
}

// Frames that are malformed get an error, and cost nothing that stays.
func TestHandler_malformed(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	for _, body := range []string{"", " ", "null", "1", `"x"`, "{}", "[]", "[[]]", "[1]", "{", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":7}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, "[" + strings.Repeat(pingRequest+",", message.MaxBatch) + pingRequest + "]", "\xff\xfe"} {
		status, answer := p.post(body)
		require.Equal(t, http.StatusBadRequest, status, "%.100q: %s", body, answer)
		require.Contains(t, answer, `"error"`)
	}
	status, answer := p.post("[" + pingRequest + "," + pingRequest + "]")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"result":{}`)

	valid := []byte(toolCallOf(1, "a__echo", `{"text":"some text"}`))
	seed := uint64(42)
	random := rand.New(rand.NewPCG(seed, seed))
	for range 2000 {
		mutant := append([]byte{}, valid...)
		for range 1 + random.IntN(4) {
			mutant[random.IntN(len(mutant))] = byte(random.IntN(256))
		}
		status, _ := p.post(string(mutant))
		require.Contains(t, []int{200, 202, 400}, status, "%q", mutant)
	}
	status, _ = p.post(pingRequest)
	require.Equal(t, http.StatusOK, status)
	until(t, func() bool { return s.Status().InFlight == 0 })
}

// What is too large or too slow ends by a bound, and others are served meanwhile.
func TestHandler_bounds(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s, url := serveHTTP(t, c, WithHTTPLimits(HTTPLimits{ReadTimeout: 300 * time.Millisecond, MaxBodyBytes: 1 << 20, MaxBytes: 4 << 20, MaxInFlight: 8, MaxSessions: 4}))
	p := newPeer(t, url)
	p.initialize("2025-11-25")

	status, _ := p.post(strings.Repeat(" ", 64<<20))
	require.Equal(t, http.StatusRequestEntityTooLarge, status, "by its length")
	_, patient := serveHTTP(t, c, WithHTTPLimits(HTTPLimits{MaxBodyBytes: 1 << 20}))
	chunked, err := http.NewRequestWithContext(t.Context(), http.MethodPost, patient, io.MultiReader(strings.NewReader(strings.Repeat(" ", 2<<20))))
	require.NoError(t, err)
	chunked.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(chunked)
	if err == nil { // the peer may see the reset before the answer
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode, "without a length")
		require.NoError(t, response.Body.Close())
	}

	address := strings.TrimPrefix(url, "http://")
	slow := make([]net.Conn, 20)
	for i := range slow { // each has sent half of its body
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{\"jsonrpc\"")
		require.NoError(t, err)
		slow[i] = conn
	}
	status, _ = p.post(pingRequest)
	require.Equal(t, http.StatusOK, status, "others are served")
	for _, conn := range slow {
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(answer), "408")
	}

	ended := make(chan int, 20)
	for i := range 8 {
		go func() {
			status, _ := newPeer2(p).post(toolCallOf(100+i, "a__hang", `{}`))
			ended <- status
		}()
	}
	until(t, func() bool { return len(c.CallsInFlight()) == 8 })
	status, answer := p.post(pingRequest)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, answer, "too many requests are in flight")
	require.Equal(t, http.StatusNoContent, p.do(t.Context(), http.MethodDelete, "").StatusCode)
	for range 8 {
		require.Equal(t, http.StatusOK, receive(t, ended), "its session was ended, and the answer says so")
	}
	until(t, func() bool { return len(c.CallsInFlight()) == 0 && s.Status().InFlight == 0 })

	var streams []events
	for range 4 {
		p.session = ""
		p.initialize("2025-11-25")
		streams = append(streams, p.listen())
	}
	busy := p.session
	p.session = ""
	response = p.do(t.Context(), http.MethodPost, initializeRequest("2025-11-25"))
	p.session = response.Header.Get(sessionHeader)
	require.NotEqual(t, busy, p.session)
	status, answer = p.post(pingRequest)
	require.Equal(t, http.StatusTooManyRequests, status, answer)
	streams[0].stop()
	until(t, func() bool { status, _ := p.post(pingRequest); return status == http.StatusOK })
}

// newPeer2 is a peer of the same session, for another goroutine.
func newPeer2(p *peer) *peer {
	other := *p
	return &other
}

// A client that goes while its call runs: the call is canceled at the server.
func TestHandler_client_is_gone(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s, url := serveHTTP(t, c)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		p := newPeer(t, url)
		body, header := toolCallOf(1, "a__hang", `{}`), []string{}
		if version == "2025-11-25" {
			p.initialize(version)
		} else {
			body = strings.Replace(body, `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`, 1)
			header = []string{versionHeader, version, methodHeader, "tools/call", nameHeader, "a__hang"}
		}
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(sessionHeader, p.session)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		left := make(chan error, 1)
		go func() {
			_, err := p.client.Do(r)
			left <- err
		}()
		until(t, func() bool { return len(c.CallsInFlight()) == 1 })
		leave() // which closes the connection
		require.Error(t, receive(t, left))
		until(t, func() bool { return len(c.CallsInFlight()) == 0 && s.Status().InFlight == 0 })
	}
}

// 50 clients with the same ids and progress tokens: each gets its own answers.
func TestHandler_same_ids(t *testing.T) {
	const clients, calls = 50, 100
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{}), fixture("b", mcptest.Script{})))
	client := newHTTPClient(t)
	var all sync.WaitGroup
	for n := range clients {
		p := &peer{t: t, url: url, client: client, header: http.Header{}}
		p.initialize([]string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}[n%4])
		all.Go(func() {
			for i := range calls {
				want := fmt.Sprintf("client %d call %d", n, i)
				body := strings.Replace(toolCallOf(i, []string{"a", "b"}[i%2]+"__echo", `{"text":"`+want+`"}`), `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1)
				response, err := p.send(body)
				if err != nil || !strings.Contains(response, `"text":"`+want+`"`) || !strings.Contains(response, fmt.Sprintf(`"id":%d,`, i)) {
					t.Errorf("client %d, call %d: %v %s", n, i, err, response)
					return
				}
			}
		})
	}
	all.Wait()
}

// send is post for other goroutines than that of the test.
func (p *peer) send(body string) (answer string, err error) {
	r, err := http.NewRequest(http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(sessionHeader, p.session)
	response, err := p.client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Sessions without a stream cost nothing, however many there are.
func TestHandler_idle_sessions(t *testing.T) {
	s, _ := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	do := func(body, session string) *httptest.ResponseRecorder {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(sessionHeader, session)
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, r)
		require.Equal(t, http.StatusOK, recorder.Code)
		return recorder
	}
	open := func() {
		id := do(initializeRequest("2025-11-25"), "").Header().Get(sessionHeader)
		do(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id)
	}
	for range 2_500 { // what is kept of clients for operators has a bound (package clients), which is reached here
		open()
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const sessions = 10_000
	for range sessions {
		open()
	}
	until(t, func() bool {
		runtime.GC()
		runtime.ReadMemStats(&after)
		return int64(after.HeapAlloc)-int64(before.HeapAlloc) < sessions*50
	})
	require.Zero(t, s.Status().Sessions)
	t.Logf("%d bytes a session", (int64(after.HeapAlloc)-int64(before.HeapAlloc))/sessions)
}
