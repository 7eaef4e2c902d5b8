package facade_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// silence is the answer of rawOf that sends nothing.
const silence = "-"

// failure begins the answer of rawOf that is an error; the error object follows.
const failure = "error:"

// rawOf is a server whose results are the texts that answer returns. An empty text means the
// result of a plain legacy server.
func rawOf(answer func(method, line string) string) *raw.Server {
	return &raw.Server{Answer: func(m *raw.Message) string {
		if m.ID == nil || m.Method == "" {
			return ""
		}
		text := answer(m.Method, string(m.Text))
		if object, ok := strings.CutPrefix(text, failure); ok {
			return `"error":` + object
		}
		switch {
		case text == silence:
			return raw.None
		case text != "":
			return `"result":` + text
		}
		return rawMembers(m)
	}}
}

// rawMembers is the answer of a plain legacy server, which has resources and prompts, too.
func rawMembers(m *raw.Message) string {
	switch m.Method {
	case "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`
	case "tools/list", "tools/call":
		return "" // those of the package
	}
	return `"result":{}`
}

// rawDiscover is the answer of a plain modern server to server/discover.
const rawDiscover = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete"}`

// modernTasks is the result of a modern server that makes tasks of calls, for the methods that a
// test is not about.
func modernTasks(method string) string {
	switch method {
	case "initialize":
		return failure + `{"code":-32601,"message":"no"}`
	case "server/discover":
		return `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private","resultType":"complete"}`
	case "tools/list":
		return `{"tools":[{"name":"x","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	}
	return `{"resultType":"complete"}`
}

// legacyTasks is that of a server of 2025-11-25.
func legacyTasks(method string) string {
	switch method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"raw","version":"1"}}`
	case "server/discover":
		return failure + `{"code":-32601,"message":"no"}`
	case "tools/list":
		return `{"tools":[{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`
	}
	return ""
}

// inMemory is a server in memory.
func inMemory(server *raw.Server) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: server.Serve}
}

// rawServer is rawOf in memory.
func rawServer(answer func(method, line string) string) *mcpvisor.InMemory {
	return inMemory(rawOf(answer))
}

// rawAnswer is a rawServer that answers one method with result, and all others as usual.
func rawAnswer(method, result string) *mcpvisor.InMemory {
	return rawServer(func(asked, _ string) string {
		if asked == method {
			return result
		}
		return ""
	})
}

// overHTTP starts a server over Streamable HTTP.
func overHTTP(t *testing.T, server http.Handler) *mcpvisor.HTTP {
	t.Helper()
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return &mcpvisor.HTTP{URL: web.URL}
}

// rawCalls is a plain legacy server over HTTP whose calls are answered by call.
func rawCalls(t *testing.T, session string, call http.HandlerFunc) *mcpvisor.HTTP {
	t.Helper()
	return overHTTP(t, &raw.Server{Session: session, Answer: func(m *raw.Message) string {
		if m.Method != "tools/call" {
			return rawMembers(m)
		}
		call(m.W, m.R)
		return raw.None
	}})
}
