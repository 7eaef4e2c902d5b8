// Package raw is an MCP server for tests in which the test decides each byte of an answer, over
// pipes and HTTP, before 2026-07-28 and since.
//
//	server := &raw.Server{Answer: func(m *raw.Message) string {
//		if m.Method == "tools/call" {
//			return raw.Text("hello")
//		}
//		return "" // the answer of a plain server
//	}}
//	spec := mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{Serve: server.Serve}}
//
// It imports the standard library alone, so that the tests of each package can use it. Programs
// test with package mcptest.
package raw

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Server is a server. The zero value is a server of 2025-11-25 with a tool "x", whose calls have
// an empty result. Do not change a field after the first message.
type Server struct {
	// Modern makes it a server of 2026-07-28, which does not know initialize. Servers before
	// do not know server/discover.
	Modern bool
	// Capabilities is the object in the handshake. Default: {"tools":{}}.
	Capabilities string
	// Session is the Mcp-Session-Id over HTTP. Default: none.
	Session string
	// Answer returns the members of the answer after its id, such as "result":{}. It also gets
	// notifications and the client's answers, for which the members are not sent. Empty text
	// means the answer of Answers, [None] that Answer has answered itself or never answers.
	//
	// Over pipes one goroutine reads and calls it, so it holds up the next message, and can
	// answer later by [Message.Reply]. Over HTTP each request has a goroutine.
	Answer func(m *Message) string
	// Answers has the members of answers by method. Methods that it does not have get the
	// answer of a plain server: that of the handshake, ping, tools/list, and tools/call, and
	// [UnknownMethod].
	Answers map[string]string
}

// None is what [Server.Answer] returns instead of members if no answer follows.
const None = "none"

// UnknownMethod is the answer to a method that the server does not have.
const UnknownMethod = `"error":{"code":-32601,"message":"method not found"}`

// Text makes the members of a result of tools/call with one text.
func Text(text string) string {
	quoted, _ := json.Marshal(text) // a string always marshals
	return `"result":{"content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// Message is a message of the client, and the way to answer it.
type Message struct {
	ID     json.RawMessage // nil in a notification
	Method string          // empty in an answer; over HTTP also GET and DELETE
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage

	Text []byte `json:"-"` // all of it
	// Status is that of the answer over HTTP, for [Server.Answer] to change. Default: 200.
	Status int `json:"-"`
	// W and R are the exchange over HTTP; nil over pipes. An answer that writes to W returns
	// [None].
	W http.ResponseWriter `json:"-"`
	R *http.Request       `json:"-"`

	out    *output
	events bool // W is an event stream
}

// output is where the answers to a client go.
type output struct {
	mu    sync.Mutex // guards w
	w     io.Writer
	ended bool // [Message.End] was called; only the reading goroutine knows of it
	err   error
}

// Line returns the answer with these members as text without its newline.
func (m *Message) Line(members string) string {
	return `{"jsonrpc":"2.0","id":` + string(m.ID) + "," + members + "}"
}

// Send sends a message before the answer, or over pipes at any time. Over HTTP the response
// becomes an event stream. More lines in one text are one write.
func (m *Message) Send(format string, args ...any) {
	m.send(fmt.Sprintf(format, args...))
}

// Reply answers a request for which [Server.Answer] returns [None].
func (m *Message) Reply(members string) { m.send(m.Line(members)) }

// End ends the server over pipes with an error, or the connection over HTTP. Return what it
// returns from [Server.Answer].
func (m *Message) End(err error) string {
	if m.W != nil {
		panic(http.ErrAbortHandler)
	}
	m.out.ended, m.out.err = true, err
	return None
}

func (m *Message) send(text string) {
	if m.W == nil {
		m.out.mu.Lock()
		defer m.out.mu.Unlock()
		_, _ = io.WriteString(m.out.w, text+"\n") // the client may have gone: the next read ends
		return
	}
	if !m.events {
		m.events = true
		m.W.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = io.WriteString(m.W, "data: "+text+"\n\n")
	_ = http.NewResponseController(m.W).Flush()
}

// read decodes a message. It returns false for text that is not JSON, such as a batch.
func (m *Message) read(text []byte) bool {
	m.Text = text
	return json.Unmarshal(text, m) == nil
}

// Serve serves a pair of pipes until one of them ends. It is for the field Serve of
// mcpvisor.InMemory, and for a process with its stdin and stdout. It does not answer what is not JSON.
func (s *Server) Serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	out := &output{w: stdout}
	for lines := bufio.NewReader(stdin); !out.ended; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // the client has closed it
		}
		m := &Message{out: out}
		if !m.read(bytes.TrimSpace(line)) {
			continue
		}
		if members := s.members(m); members != None && !out.ended && m.ID != nil && m.Method != "" {
			m.Reply(members)
		}
	}
	return out.err
}

// ServeHTTP serves Streamable HTTP. It has no stream for GET, except that of [Server.Answer].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := &Message{W: w, R: r, Status: http.StatusOK}
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost {
		m.Method, m.Text = r.Method, body
	} else if !m.read(body) || err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	members := s.members(m)
	switch {
	case members == None:
	case m.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case m.events:
		m.Reply(members)
	default:
		w.Header().Set("Content-Type", "application/json")
		if m.Method == "initialize" && s.Session != "" {
			w.Header().Set("Mcp-Session-Id", s.Session)
		}
		w.WriteHeader(m.Status)
		_, _ = io.WriteString(w, m.Line(members))
	}
}

// members returns the members of the answer to a message.
func (s *Server) members(m *Message) string {
	if s.Answer != nil {
		if members := s.Answer(m); members != "" {
			return members
		}
	}
	if members := s.Answers[m.Method]; members != "" {
		return members
	}
	capabilities := s.Capabilities
	if capabilities == "" {
		capabilities = `{"tools":{}}`
	}
	switch modern := s.Modern; {
	case m.Method == "initialize" && !modern:
		return `"result":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"raw","version":"1"}}`
	case m.Method == "server/discover" && modern:
		return `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities +
			`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}}}`
	case m.Method == "ping" && !modern:
		return `"result":{}`
	case m.Method == "tools/list" && modern:
		return `"result":{"resultType":"complete","tools":[{"name":"x","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`
	case m.Method == "tools/list":
		return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
	case m.Method == "tools/call" && modern:
		return `"result":{"resultType":"complete","content":[]}`
	case m.Method == "tools/call":
		return `"result":{"content":[]}`
	case m.Method == "subscriptions/listen" && modern: // an answer would end it
		m.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{}}}`, m.ID)
		if m.R != nil {
			<-m.R.Context().Done()
		}
		return None
	}
	return UnknownMethod
}
