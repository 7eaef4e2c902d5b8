package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

// incoming is a request as a raw server sees it.
type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// shakeHands is what a plain legacy server answers to a method that is not
// what a test is about.
func shakeHands(method string) string {
	switch method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`
	case "tools/list":
		return `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		return `{"content":[]}`
	}
	return `{}`
}

// silence is the answer that never comes.
const silence = "-"

// rawServer answers in memory what answer says, word by word. An empty answer
// means the usual one.
func rawServer(answer func(method, line string) string) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return nil //nolint:nilerr // the end
			}
			var m incoming
			if json.Unmarshal([]byte(line), &m) != nil || m.ID == nil {
				continue
			}
			text := answer(m.Method, line)
			switch text {
			case silence:
				continue
			case "":
				text = shakeHands(m.Method)
			}
			if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, text); err != nil {
				return err
			}
		}
	}}
}

// rawHTTP is the same over HTTP. call answers tools/call.
func rawHTTP(t *testing.T, seen func(*http.Request), call http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen(r)
		body, _ := io.ReadAll(r.Body)
		var m incoming
		switch err := json.Unmarshal(body, &m); {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "tools/call":
			call(w, r)
		case m.Method == "server/discover":
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, shakeHands(m.Method))
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}
