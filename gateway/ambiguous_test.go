package gateway

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
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// deployer is a server with a tool whose arguments are repeated in headers. calls counts its calls.
func deployer(calls *atomic.Int64) mcpvisor.ServerSpec {
	server := mcp.NewServer(&mcp.Implementation{Name: "cloud", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "deploy", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
		"at":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	})
	return mcpvisor.ServerSpec{Name: "cloud", InMemory: facade.ServeInMemory(server)}
}

// What stands between client and server decides by the headers: a request is refused, under each name of its tool, if
// two readers could take different values from its headers and its body.
func TestHostileHTTP_arguments_in_headers(t *testing.T) {
	var calls atomic.Int64
	_, url := serveHTTP(t, newClient(t, deployer(&calls)))
	modern, legacy := newPeer(t, url), newPeer(t, url)
	legacy.initialize("2025-11-25")
	for _, name := range []string{"cloud__deploy", "cloud/deploy", "mcp__cloud__deploy"} {
		for _, row := range []struct {
			arguments string
			header    []string
			served    bool
		}{
			{`{"region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, true},
			{`{"region":"eu","other":1,"other":2}`, []string{"Mcp-Param-Region", "eu"}, true},
			{`{"region":"eu","at":{"zone":"b"}}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Zone", "b"}, true},
			{`{"region":"eu"}`, []string{"Mcp-Param-Region", "us"}, false},
			{`{"region":"us","region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, false},
			{`{"region":"eu","REGION":"us"}`, []string{"Mcp-Param-Region", "eu"}, false},
			{`{"Region":"us","region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, false},
			{`{"region":"eu","\u0052egion":"us"}`, []string{"Mcp-Param-Region", "eu"}, false},
			{`{"region":"eu","at":{"zone":"b","Zone":"c"}}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Zone", "b"}, false},
			{`{"region":"eu","at":{"zone":"c"},"at":{"zone":"b"}}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Zone", "b"}, false},
			{`{"region":"eu","AT":{"zone":"b"}}`, []string{"Mcp-Param-Region", "eu"}, false},
		} {
			for version, p := range map[string]*peer{"2026-07-28": modern, "2025-11-25": legacy} {
				before := calls.Load()
				body := toolCallOf(1, name, row.arguments)
				header := row.header
				if version == modernVersion {
					body = modernRequest("tools/call", `"name":"`+name+`","arguments":`+row.arguments)
					header = append([]string{versionHeader, modernVersion, methodHeader, "tools/call", nameHeader, name}, header...)
				}
				status, answer := p.post(body, header...)
				if row.served {
					require.Equal(t, http.StatusOK, status, "%s %s %s: %s", version, name, row.arguments, answer)
					require.Equal(t, before+1, calls.Load(), "%s %s %s: %s", version, name, row.arguments, answer)
				} else {
					require.Equal(t, http.StatusBadRequest, status, "%s %s %s: %s", version, name, row.arguments, answer)
					require.Contains(t, answer, "-32020")
					require.Equal(t, before, calls.Load())
				}
			}
		}
		status, answer := modern.post(modernRequest("tools/call", `"name":"`+name+`","arguments":{"region":"eu"}`), versionHeader, modernVersion, methodHeader, "tools/call", nameHeader, name)
		require.Equal(t, http.StatusBadRequest, status, "the header is missing: %s", answer)
	}
}

// regional is a server with a tool that takes a region, and marks it as in mark.
func regional(calls *atomic.Int64, mark string) (mcpvisor.ServerSpec, func(mark string)) {
	server := mcp.NewServer(&mcp.Implementation{Name: "cloud", Version: "1"}, nil)
	remake := func(mark string) {
		server.AddTool(&mcp.Tool{Name: "deploy", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string"` + mark + `}}}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			calls.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	remake(mark)
	return mcpvisor.ServerSpec{Name: "cloud", InMemory: facade.ServeInMemory(server)}, remake
}

// deploy calls the tool of regional with these arguments and headers.
func (p *peer) deploy(arguments string, header ...string) (status int, answer string) {
	p.t.Helper()
	return p.post(modernRequest("tools/call", `"name":"cloud__deploy","arguments":`+arguments), append([]string{versionHeader, modernVersion, methodHeader, "tools/call", nameHeader, "cloud__deploy"}, header...)...)
}

// The marks that a tool has now count, whatever was listed when.
func TestHostileHTTP_marks_that_change(t *testing.T) {
	var calls atomic.Int64
	spec, remake := regional(&calls, "")
	c := newClient(t, spec)
	s, url := serveHTTP(t, c)
	p := newPeer(t, url)
	for range 2 {
		status, answer := p.deploy(`{"region":"eu"}`)
		require.Equal(t, http.StatusOK, status, answer)
		changed := c.Watch(t.Context(), mcpvisor.EventChanged)
		remake(`,"x-mcp-header":"Place"`)
		receive(t, changed)
		calls.Store(0)
		for _, header := range [][]string{{"Mcp-Param-Place", "us"}, nil} {
			status, answer = p.deploy(`{"region":"eu"}`, header...)
			require.Equal(t, http.StatusBadRequest, status, answer)
		}
		require.Zero(t, calls.Load())
		status, answer = p.deploy(`{"region":"eu"}`, "Mcp-Param-Place", "eu")
		require.Equal(t, http.StatusOK, status, answer)
		remake("")
		receive(t, changed)
	}
	count := func() (n int) {
		s.gateway.marks.Range(func(any, any) bool { n++; return true })
		return n
	}
	until(t, func() bool { // what is no longer listed is not kept
		runtime.GC()
		s.gateway.catalog.Get()
		return count() <= 1
	})
}

// A header that no mark names is that of the argument of its name: what stands between reads it so.
func TestHostileHTTP_unmarked_headers(t *testing.T) {
	var calls atomic.Int64
	for _, mark := range []string{"", `,"x-mcp-header":"Place"`} {
		spec, _ := regional(&calls, mark)
		_, url := serveHTTP(t, newClient(t, spec))
		modern, legacy := newPeer(t, url), newPeer(t, url)
		legacy.initialize("2025-11-25")
		for _, row := range []struct {
			arguments, header, says string
			served                  bool
		}{
			{`{"region":"eu"}`, "Region", "us", false}, {`{"region":"eu"}`, "region", "us", false}, {`{"region":"eu"}`, "Region", "", false}, {`{"region":"eu"}`, "Region", `"eu"`, false},
			{`{"region":"eu","n":7}`, "N", "8", false}, {`{"region":"eu","n":{}}`, "N", "8", false}, {`{"region":"eu","REGION":"us"}`, "Region", "eu", false},
			{`{"region":"eu"}`, "Region", "eu", true}, {`{"region":"eu"}`, "Region", "=?base64?ZXU=?=", true}, {`{"region":"eu"}`, "Other", "us", true},
			{`{"region":"eu","n":7.0}`, "N", "7", true},
			{`{"region":"eu","place":"us"}`, "Other", "us", true}, // Mcp-Param-Place is there, and repeats region
		} {
			header := []string{"Mcp-Param-" + row.header, row.says}
			if mark != "" {
				header = append(header, "Mcp-Param-Place", "eu")
			}
			before := calls.Load()
			status, answer := modern.deploy(row.arguments, header...)
			legacyStatus, legacyAnswer := legacy.post(toolCallOf(1, "cloud__deploy", row.arguments), header...)
			if row.served {
				require.Equal(t, []int{200, 200}, []int{status, legacyStatus}, "%v: %s %s", row, answer, legacyAnswer)
				require.Equal(t, before+2, calls.Load(), "%v: %s %s", row, answer, legacyAnswer)
			} else {
				require.Equal(t, []int{400, 400}, []int{status, legacyStatus}, "%v: %s %s", row, answer, legacyAnswer)
				require.Equal(t, before, calls.Load())
			}
		}
	}
}

// No header repeats the arguments of a batch. Nothing of it is done.
func TestHostileHTTP_arguments_of_batches(t *testing.T) {
	var calls atomic.Int64
	_, url := serveHTTP(t, newClient(t, deployer(&calls)))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	eu, us := toolCallOf(1, "cloud__deploy", `{"region":"eu"}`), toolCallOf(2, "cloud__deploy", `{"region":"us"}`)
	for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
		for _, batch := range []string{"[" + eu + "," + us + "]", "[" + us + "," + eu + "]", "[" + us + "]"} {
			status, answer := p.post(batch, "Mcp-Param-Region", "eu", "Accept", accept)
			require.Equal(t, http.StatusBadRequest, status, answer)
			require.Contains(t, answer, "-32020")
		}
	}
	require.Zero(t, calls.Load())
	status, answer := p.post("[" + eu + "," + us + "]")
	require.Equal(t, http.StatusOK, status, answer)
	require.EqualValues(t, 2, calls.Load())
}

// A header that is there twice, or lies, in any version, is refused, as is a body that some read in another way.
func TestHostileHTTP_headers_that_readers_read_differently(t *testing.T) {
	var calls atomic.Int64
	_, url := serveHTTP(t, newClient(t, deployer(&calls)), withNames("ann", "bob"), WithOrigins("http://a.example"))
	p := openUser(t, url, "ann")
	body := toolCallOf(1, "cloud__deploy", "{}")
	// send sends a call with these lines in its head, and returns the answer.
	send := func(replaced string, lines ...string) (int, string) {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		head := []string{"POST / HTTP/1.1", "Host: localhost", "Connection: close", fmt.Sprintf("Content-Length: %d", len(body)), "Authorization: Bearer ann", "Content-Type: application/json", "Accept: application/json", sessionHeader + ": " + p.session}
		for i, line := range head {
			if name, _, _ := strings.Cut(line, ":"); name == replaced {
				head[i] = "X-Nothing: 1"
			}
		}
		_, err = io.WriteString(conn, strings.Join(append(head, lines...), "\r\n")+"\r\n\r\n"+body)
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	for _, lines := range [][]string{nil, {"Mcp-Method: tools/call"}, {"Mcp-Name: cloud__deploy"}, {"Content-Encoding: identity"}, {"X-Other: 1", "X-Other: 2"}, {"Origin: http://a.example"}} {
		status, answer := send("", lines...)
		require.Equal(t, http.StatusOK, status, "%q: %s", lines, answer)
	}
	status, answer := send("Content-Type", `Content-Type: application/json; charset="UTF-8"`)
	require.Equal(t, http.StatusOK, status, answer)
	served := calls.Load()
	for _, lines := range [][]string{
		{"Authorization: Bearer bob"}, {"authorization: Bearer ann"}, {sessionHeader + ": " + p.session}, {"Mcp_Session_Id: x"}, {"Content-Type: application/json"},
		{"Mcp-Name: cloud__deploy", "Mcp-Name: cloud__deploy"}, {"Mcp-Method: tools/call", "Mcp-Method: ping"}, {"Mcp-Protocol-Version: 2025-11-25", "mcp-protocol-version: 2025-11-25"},
		{"Mcp-Param-Region: eu", "Mcp-Param-Region: us"}, {"Mcp_Param_Region: eu"}, {"Content-Encoding: identity", "Content-Encoding: identity"}, {"Origin: http://a.example", "Origin: http://a.example"},
		{"Last-Event-ID: 1", "Last-Event-ID: 2"}, {"Host: other"},
		{"Mcp-Method: ping"}, {"Mcp-Method: "}, {"Mcp-Name: cloud__other"}, {"Mcp-Name: "}, {"Mcp-Param-Region: eu"},
	} {
		status, answer := send("", lines...)
		require.Equal(t, http.StatusBadRequest, status, "%q: %s", lines, answer)
	}
	for replaced, lines := range map[string][]string{"": {"Content-Encoding: gzip"}, "Content-Type": {"Content-Type: application/json; charset=utf-16"}, "Accept": {"Content-Encoding: identity, gzip"}} {
		status, answer := send(replaced, lines...)
		require.Equal(t, http.StatusUnsupportedMediaType, status, "%q: %s", lines, answer)
		require.Contains(t, answer, "the body must")
	}
	require.Equal(t, served, calls.Load())
}

// A proxy that says nothing asks in HTTP/1.0: without tokens it is refused.
func TestHostileHTTP_plain_proxy(t *testing.T) {
	c := newClient(t)
	ask := func(url, version string, header ...string) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		body := initializeRequest("2025-11-25")
		_, err = fmt.Fprintf(conn, "POST / %s\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", version, len(body), strings.Join(header, "\r\n"), body)
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		return response.Status[:3]
	}
	_, open := serveHTTP(t, c)
	_, closed := serveHTTP(t, c, withNames("ann", "bob"))
	require.Equal(t, "200", ask(open, "HTTP/1.1"))
	require.Equal(t, "403", ask(open, "HTTP/1.0"))
	require.Equal(t, "403", ask(open, "HTTP/1.1", "X-Forwarded-Proto: https\r\n"))
	require.Equal(t, "200", ask(closed, "HTTP/1.0", "Authorization: Bearer ann\r\n"))
}
