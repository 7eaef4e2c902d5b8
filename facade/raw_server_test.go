package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

// incoming is a JSON-RPC message that a raw server receives.
type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// shakeHands is the result of a plain legacy server for the methods that a test is not
// about.
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

// silence is the answer of rawServer that sends nothing.
const silence = "-"

// failure begins the answer of rawServer that is an error; the error object follows.
const failure = "error:"

// rawServer is a server in memory whose results are the texts that answer returns. An
// empty text means the result of shakeHands.
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
			member := "result"
			if object, ok := strings.CutPrefix(text, failure); ok {
				member, text = "error", object
			}
			if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%q:%s}`+"\n", m.ID, member, text); err != nil {
				return err
			}
		}
	}}
}

// rawHTTP starts such a server over HTTP. seen gets every request, and call answers
// tools/call.
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
