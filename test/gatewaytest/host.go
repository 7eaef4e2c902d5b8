package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

// Host is a host over Streamable HTTP that sends requests without an SDK.
type Host struct {
	t       *testing.T
	url     string
	version string
	session string // empty with 2026-07-28
	client  *http.Client
}

// NewHost opens a session with a version of the protocol.
func NewHost(t *testing.T, url, version string) *Host {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	h := &Host{t: t, url: url, version: version, client: &http.Client{Transport: transport}}
	if version < "2026-07-28" {
		response, err := h.send("initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"host","version":"1"}}`, "")
		require.NoError(t, err)
		_ = response.Body.Close()
		h.session = response.Header.Get("Mcp-Session-Id")
		require.NotEmpty(t, h.session)
	}
	return h
}

func (h *Host) send(method, params, name string) (*http.Response, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if h.version >= "2026-07-28" {
		r.Header.Set("Mcp-Protocol-Version", h.version)
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	} else if h.session != "" {
		r.Header.Set("Mcp-Session-Id", h.session)
	}
	r.GetBody = nil // so that nothing is sent twice
	return h.client.Do(r)
}

// ErrBroken is the error of a request whose connection broke: its outcome is not known.
var ErrBroken = errors.New("the connection broke")

// ask sends a request and decodes its result. members are those of params, without _meta.
func (h *Host) ask(method, members, name string, result any) error {
	params := "{" + members + "}"
	if h.version >= "2026-07-28" {
		if members != "" {
			members += ","
		}
		params = "{" + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + h.version + `","io.modelcontextprotocol/clientCapabilities":{}}}`
	}
	response, err := h.send(method, params, name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var answer struct{ Result, Error json.RawMessage }
	if response.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil || answer.Result == nil {
		return fmt.Errorf("%s with version %s: status %d: %s", method, h.version, response.StatusCode, body)
	}
	if raw, ok := result.(*json.RawMessage); ok {
		*raw = answer.Result
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// Count calls the tool that is counted, with a key.
func (h *Host) Count(key string) (Result, error) {
	return h.Call("fixture__count", fmt.Sprintf(`{"key":%q}`, key))
}

// Call calls a tool. It does not repeat anything.
func (h *Host) Call(tool, arguments string) (r Result, err error) {
	err = h.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments), tool, &r)
	return r, err
}

// List returns the list of tools, as it was received.
func (h *Host) List() (string, error) {
	var list json.RawMessage
	err := h.ask("tools/list", "", "", &list)
	return string(list), err
}

// Follow reads the stream of the session until ctx ends, and again from where it was when the
// connection broke and the server is back. It returns the methods of what was received.
func (h *Host) Follow(ctx context.Context, server *Process) (methods []string) {
	last := ""
	for ctx.Err() == nil {
		server.Await()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
		if err != nil {
			h.t.Error(err)
			return methods
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", h.session)
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		response, err := h.client.Do(r)
		if err != nil {
			continue
		}
		if response.StatusCode != http.StatusOK {
			h.t.Errorf("the stream was answered with %d", response.StatusCode)
			_ = response.Body.Close()
			return methods
		}
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				last = id
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				var m struct{ Method string }
				_ = json.Unmarshal([]byte(data), &m)
				methods = append(methods, m.Method)
			}
		}
		_ = response.Body.Close()
	}
	return methods
}

// AcceptsTools does what hosts do that reject a whole list for one tool: it compiles each schema of a result of
// tools/list. It returns the names of the tools.
func AcceptsTools(list []byte) (names []string, err error) {
	var all struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	for _, tool := range all.Tools {
		var s jsonschema.Schema
		if err := json.Unmarshal(tool.InputSchema, &s); err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", tool.Name, err)
		}
		if _, err := s.Resolve(nil); err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", tool.Name, err)
		}
		if s.Type != "object" {
			return nil, fmt.Errorf("the schema of %s is of type %q", tool.Name, s.Type)
		}
		names = append(names, tool.Name)
	}
	return names, nil
}
