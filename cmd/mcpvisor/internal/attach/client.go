// Package attach is how the commands of mcpvisor reach servers: those of a running
// `mcpvisor run` over its unix socket, or those of the same process. Both answer the same
// requests, so a command does not know the difference.
package attach

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// ErrNotRunning says that no `mcpvisor run` of the configuration is running.
var ErrNotRunning = socket.ErrNotRunning

// infoTimeout bounds the first request, so that a process that is stopped is not waited
// for. Later requests end with their contexts.
const infoTimeout = 5 * time.Second

// Client makes requests to one handler of package control. Safe for concurrent use.
type Client struct {
	transport http.RoundTripper
	close     func()
}

// Find connects to the running `mcpvisor run` of a configuration file. It returns
// [ErrNotRunning] if that does not run.
func Find(ctx context.Context, config string) (*Client, control.Info, error) {
	path, err := socket.Find(config)
	if err != nil { // even if the context has ended
		return nil, control.Info{}, err
	}
	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, path) },
		DisableCompression: true,
	}
	c := &Client{transport: transport, close: transport.CloseIdleConnections}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	info, err := c.Info(ctx)
	switch {
	case err == nil && info.Schema == control.Schema:
		return c, info, nil
	case err == nil:
		err = fmt.Errorf("mcpvisor run (pid %d) is of version %s, which this program does not understand; restart it, or use --fresh", info.PID, info.Version)
	case errors.Is(err, ErrNotRunning):
		err = ErrNotRunning
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("mcpvisor run of this configuration has not answered for %v; use --fresh, or end it", infoTimeout)
	}
	c.Close()
	return nil, control.Info{}, err
}

func InProcess(h http.Handler) *Client {
	return &Client{transport: handlerTransport{h}, close: func() {}}
}

// Close closes idle connections.
func (c *Client) Close() { c.close() }

// Error is an error that a request was answered with. It unwraps to an
// [*mcpvisor.Error] of the same kind.
type Error struct {
	api.ErrorDetail
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns an error that errors.Is compares with the sentinels of package mcpvisor.
func (e *Error) Unwrap() error {
	if e.Kind == "" {
		return nil
	}
	return &mcpvisor.Error{Kind: e.Kind, Outcome: e.Outcome, Server: e.Server, RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond}
}

// Info describes the process that serves.
func (c *Client) Info(ctx context.Context) (control.Info, error) {
	return get[control.Info](ctx, c, "run/info")
}

// Status returns the status of all servers at one moment.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return get[api.Status](ctx, c, "api/status")
}

// Server returns the status of one server, its stderr and statistics of its tools.
func (c *Client) Server(ctx context.Context, name string) (api.Server, error) {
	return get[api.Server](ctx, c, "api/servers/"+url.PathEscape(name))
}

func (c *Client) Catalog(ctx context.Context, name string) (api.Tools, error) {
	return get[api.Tools](ctx, c, "api/servers/"+url.PathEscape(name)+"/tools")
}

// Inspect shows how the supervision of one server came to where it is.
func (c *Client) Inspect(ctx context.Context, name string) (monitor.Inspection, error) {
	return get[monitor.Inspection](ctx, c, "run/inspect?server="+url.QueryEscape(name))
}

// Stderr returns the lines of a server's stderr after line number after.
func (c *Client) Stderr(ctx context.Context, name string, after int64) (api.Stderr, error) {
	return get[api.Stderr](ctx, c, fmt.Sprintf("api/servers/%s/stderr?after=%d", url.PathEscape(name), after))
}

// ToolUse returns statistics of the tools of all servers.
func (c *Client) ToolUse(ctx context.Context) (api.ToolUse, error) {
	return get[api.ToolUse](ctx, c, "api/tools")
}

// Usage returns what the servers use, without the samples behind it.
func (c *Client) Usage(ctx context.Context) (api.Usage, error) {
	return get[api.Usage](ctx, c, fmt.Sprintf("api/usage?after=%d", uint64(math.MaxInt64)))
}

// Calls returns the calls in flight, and those that ended after number after.
func (c *Client) Calls(ctx context.Context, after uint64) (api.Calls, error) {
	return get[api.Calls](ctx, c, fmt.Sprintf("api/calls?after=%d", after))
}

func (c *Client) Clients(ctx context.Context) (api.Clients, error) {
	return get[api.Clients](ctx, c, "api/clients")
}

// Nodes returns the fleet that the running process is a node of.
func (c *Client) Nodes(ctx context.Context) (api.Nodes, error) {
	return get[api.Nodes](ctx, c, "api/nodes")
}

// Summaries returns what has happened in short, as far as it has changed since the event of a
// number: to all servers, or to those of these names.
func (c *Client) Summaries(ctx context.Context, after uint64, servers ...string) (api.EventSummaries, error) {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}, "server": servers}
	return get[api.EventSummaries](ctx, c, "api/events/summaries?"+query.Encode())
}

// Tasks returns the open tasks, and what the journal knows.
func (c *Client) Tasks(ctx context.Context) (api.Tasks, error) {
	return get[api.Tasks](ctx, c, "api/tasks")
}

// CancelTask asks the server of a task to cancel it.
func (c *Client) CancelTask(ctx context.Context, task api.TaskRequest) (answer api.CancelAnswer, err error) {
	return postFor[api.CancelAnswer](ctx, c, "api/tasks/cancel", task)
}

// Approvals returns the calls that wait for a decision.
func (c *Client) Approvals(ctx context.Context) (api.Approvals, error) {
	return get[api.Approvals](ctx, c, "api/approvals")
}

// Decide decides about a call that waits.
func (c *Client) Decide(ctx context.Context, decision api.DecisionRequest) (api.DecisionAnswer, error) {
	return postFor[api.DecisionAnswer](ctx, c, "api/approvals", decision)
}

// WaitForTask waits for the call of a key, and returns its result as the server sent it.
func (c *Client) WaitForTask(ctx context.Context, key mcpvisor.JournalKey) (json.RawMessage, error) {
	answer, err := postFor[api.CallAnswer](ctx, c, "api/tasks/wait", api.TaskRequest{Principal: key.Principal, Key: key.Key})
	return answer.Result, err
}

// JournalEntry returns what the journal knows of the call of a key, without its result; nil if it does not know it.
func (c *Client) JournalEntry(ctx context.Context, key mcpvisor.JournalKey) (*mcpvisor.JournalEntry, error) {
	answer, err := get[control.Key](ctx, c, "run/key?"+url.Values{"principal": {key.Principal}, "key": {key.Key}}.Encode())
	return answer.Entry, err
}

// ResolveKey states what became of the call of a key.
func (c *Client) ResolveKey(ctx context.Context, request control.ResolveRequest) error {
	_, err := c.post(ctx, "run/resolve", request)
	return err
}

// Tools returns the tools of one server, as --json prints them, or those of all servers if
// server is empty.
func (c *Client) Tools(ctx context.Context, server string) (json.RawMessage, error) {
	return c.raw(ctx, "run/tools?server="+url.QueryEscape(server))
}

// Tool returns a list, as that of Tools, with the tool that has a qualified name or an alias.
// The list is empty if no ready server has it.
func (c *Client) Tool(ctx context.Context, name string) (json.RawMessage, error) {
	return c.raw(ctx, "run/tools?tool="+url.QueryEscape(name))
}

// SentTool is Tool with the definition as the server sent it, also the last one of a server that is down:
// secrets are not hidden, because arguments are compared with it. Do not show it.
func (c *Client) SentTool(ctx context.Context, name string) (json.RawMessage, error) {
	return c.raw(ctx, "run/tools?sent=true&tool="+url.QueryEscape(name))
}

// Resources returns the resources and templates of all servers, as --json prints them.
func (c *Client) Resources(ctx context.Context) (json.RawMessage, error) {
	return c.raw(ctx, "run/resources")
}

// Prompts returns the prompts of all servers, as --json prints them.
func (c *Client) Prompts(ctx context.Context) (json.RawMessage, error) {
	return c.raw(ctx, "run/prompts")
}

// Restart starts a server again. The restart is under way when it returns. drain waits until the calls in flight have
// ended, within the drain timeout of the server; no other calls are sent meanwhile.
func (c *Client) Restart(ctx context.Context, name string, drain bool) error {
	return c.operate(ctx, name, "restart", drain)
}

// StopServer stops a server, or those of a group. It has ended when it returns. drain lets the calls in flight end first.
func (c *Client) StopServer(ctx context.Context, name string, drain bool) error {
	return c.operate(ctx, name, "stop", drain)
}

// StartServer starts a server that does not run, or what is stopped or has failed in a group. The start is under way
// when it returns.
func (c *Client) StartServer(ctx context.Context, name string) error {
	return c.operate(ctx, name, "start", false)
}

func (c *Client) operate(ctx context.Context, name, verb string, drain bool) error {
	_, err := c.exchange(ctx, http.MethodPost, fmt.Sprintf("api/servers/%s/%s?drain=%t", url.PathEscape(name), verb, drain), nil)
	return err
}

// Reload makes `mcpvisor run` read its configuration again. With dryRun it only says what
// would change.
func (c *Client) Reload(ctx context.Context, dryRun bool) (answer control.Reload, err error) {
	return postFor[control.Reload](ctx, c, "run/reload", control.ReloadRequest{DryRun: dryRun})
}

// HandOver asks a `mcpvisor run` that ends when it is unused to end for this process. It does so after the answer.
func (c *Client) HandOver(ctx context.Context) error {
	_, err := c.post(ctx, "run/hand-over", struct{}{})
	return err
}

// ReadResource reads a resource. The result is JSON, as --json prints it.
func (c *Client) ReadResource(ctx context.Context, server, uri string) (json.RawMessage, error) {
	return c.post(ctx, "run/read", control.ReadRequest{Server: server, URI: uri})
}

// GetPrompt gets a prompt. The result is JSON, as --json prints it.
func (c *Client) GetPrompt(ctx context.Context, server, name string, arguments map[string]string) (json.RawMessage, error) {
	return c.post(ctx, "run/prompt", control.PromptRequest{Server: server, Name: name, Arguments: arguments})
}

func (c *Client) raw(ctx context.Context, path string) (json.RawMessage, error) {
	return c.exchange(ctx, http.MethodGet, path, nil)
}

func get[T any](ctx context.Context, c *Client, path string) (answer T, err error) {
	data, err := c.raw(ctx, path)
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	return answer, err
}

func (c *Client) post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.exchange(ctx, http.MethodPost, path, data)
}

// postFor is post with an answer of a type.
func postFor[T any](ctx context.Context, c *Client, path string, body any) (answer T, err error) {
	data, err := c.post(ctx, path, body)
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	return answer, err
}

// exchange makes a request and reads the whole answer.
func (c *Client) exchange(ctx context.Context, method, path string, body []byte) (json.RawMessage, error) {
	response, err := c.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, c.lost(ctx, method, err)
	}
	return data, nil
}

// do makes a request. An answer that is not a success is an [*Error].
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.transport.RoundTrip(request)
	switch {
	case err != nil:
		return nil, c.lost(ctx, method, err)
	case response.StatusCode < http.StatusBadRequest:
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, c.lost(ctx, method, err)
	}
	var answer api.ErrorAnswer
	if err := json.Unmarshal(data, &answer); err != nil || answer.Error.Message == "" {
		return nil, fmt.Errorf("mcpvisor run answered %s", response.Status)
	}
	return nil, &Error{answer.Error}
}

// lost is the error of a request that was not answered.
func (c *Client) lost(ctx context.Context, method string, err error) error {
	if errors.Is(err, ErrNotRunning) {
		return ErrNotRunning
	}
	detail := api.ErrorDetail{Kind: mcpvisor.ErrUnavailable, Message: "the connection to mcpvisor run was lost: " + err.Error()}
	if ctx.Err() != nil {
		detail.Kind, detail.Message = mcpvisor.ErrCanceled, "canceled"
	}
	if method == http.MethodPost {
		detail.Outcome = mcpvisor.OutcomeUnknown
		detail.Message = "outcome unknown: " + detail.Message
	}
	return &Error{detail}
}

type CallOptions struct {
	// Timeout bounds the time without progress; 0 means the server's own timeout.
	Timeout time.Duration
	// Progress is called for each report of the server, in the goroutine of the call; nil
	// asks for none.
	Progress func(mcpvisor.Progress)
	// Key names the call in the journal; empty names none.
	Key string
	// Dry sends nothing: the error says why the tool cannot be called, and is ErrCanceled if it can.
	Dry bool
}

// CallTool calls a tool. The result is what the server sent, byte for byte.
func (c *Client) CallTool(ctx context.Context, tool string, arguments json.RawMessage, o CallOptions) (json.RawMessage, error) {
	query := url.Values{"tool": {tool}}
	if o.Timeout != 0 {
		query.Set("timeout", o.Timeout.String())
	}
	if o.Key != "" {
		query.Set("key", o.Key)
	}
	if o.Dry {
		query.Set("dry", "true")
	}
	if o.Progress != nil {
		query.Set("progress", "true")
	}
	response, err := c.do(ctx, http.MethodPost, "run/call?"+query.Encode(), arguments)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	for messages := json.NewDecoder(response.Body); ; {
		var m control.CallMessage
		if err := messages.Decode(&m); err != nil {
			return nil, c.lost(ctx, http.MethodPost, err)
		}
		switch {
		case m.Progress != nil && o.Progress != nil:
			o.Progress(*m.Progress)
		case m.Error != nil:
			return nil, &Error{*m.Error}
		case m.Result != nil:
			return m.Result, nil
		case m.Progress == nil:
			return nil, fmt.Errorf("mcpvisor run sent an answer that this program does not understand; restart it, or use --fresh")
		}
	}
}

// maxEventLine is the longest line of an event stream, in bytes.
const maxEventLine = 16 << 20

// Events calls each for every event after number after, in order, until the context ends or
// the stream does, and returns why. It returns nil if each returned false. Kinds select
// events; none means all.
func (c *Client) Events(ctx context.Context, after uint64, each func(api.Event) bool, kinds ...mcpvisor.EventKind) error {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}}
	for _, kind := range kinds {
		query.Add("kind", string(kind))
	}
	response, err := c.do(ctx, http.MethodGet, "api/events/stream?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEventLine)
	named := false // the event has a name: it is about the stream
	for lines.Scan() {
		line := lines.Bytes()
		data, isData := bytes.CutPrefix(line, []byte("data: "))
		switch {
		case len(line) == 0:
			named = false
		case bytes.HasPrefix(line, []byte("event:")):
			named = true
		case isData && !named:
			var event api.Event
			if err := json.Unmarshal(data, &event); err != nil {
				return err
			}
			if !each(event) {
				return nil
			}
		}
	}
	err = lines.Err()
	if err == nil {
		err = io.EOF
	}
	return c.lost(ctx, http.MethodGet, err)
}
