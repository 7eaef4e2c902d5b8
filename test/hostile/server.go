package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

// stdioServer is a hand-written server on a pair of streams. It answers correctly,
// except where a misbehaviour replaces a handler. One goroutine does everything, so
// messages are written in the order of the code.
type stdioServer struct {
	ctx   context.Context
	stdin io.ReadCloser
	in    *bufio.Reader // reads stdin
	out   io.WriteCloser
	errs  io.Writer
	// exit ends the incarnation; it does not return.
	exit func(code int)
	// childRole is empty, or names the role of this child process.
	childRole string
	// start counts the incarnations, from 1. It is 0 in a child.
	start int

	// handlers replace the correct answer to a method, notifications included. The
	// handler of tools/call gets only calls of [BadTool].
	handlers map[string]func(*stdioServer, request)
	// onAnswer handles a client's answer to a request of the server; nil drops it.
	onAnswer func(s *stdioServer, id json.RawMessage)
}

// request is a request or a notification of the client.
type request struct {
	id     string // raw JSON; empty in a notification
	method string
	params params
}

// params are the members of params that the servers read.
type params struct {
	Name          string
	Cursor        string
	Arguments     json.RawMessage
	Notifications json.RawMessage
}

func newStdioServer(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) *stdioServer {
	return &stdioServer{ctx: ctx, stdin: stdin, in: bufio.NewReaderSize(stdin, 64<<10), out: stdout, errs: stderr,
		handlers: map[string]func(*stdioServer, request){}}
}

// serve answers until stdin ends.
func (s *stdioServer) serve() {
	for {
		line, err := s.in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.handle(line)
		}
		if err != nil {
			return
		}
	}
}

// handle handles one message. A line that is not valid JSON is dropped.
func (s *stdioServer) handle(line []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params params
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	if m.Method == "" {
		if s.onAnswer != nil {
			s.onAnswer(s, m.ID)
		}
		return
	}
	r := request{id: string(m.ID), method: m.Method, params: m.Params}
	if handler := s.handlers[r.method]; handler != nil && (r.method != "tools/call" || r.params.Name == BadTool) {
		handler(s, r)
	} else if r.id != "" {
		s.answerWell(r)
	}
}

// The correct answers.
const (
	goodTools        = `{"name":"bad","description":"Misbehaves.","inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object"}}`
	goodCapabilities = `{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{}}`
	goodInitialize   = `{"protocolVersion":"2025-11-25","capabilities":` + goodCapabilities + `,"serverInfo":{"name":"hostile","version":"1"}}`
	goodDiscover     = `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":` + goodCapabilities +
		`,"ttlMs":0,"cacheScope":"private","resultType":"complete"}`
	fineResult = `{"content":[{"type":"text","text":"` + FineText + `"}]}`
)

var goodResults = map[string]string{
	"initialize":               goodInitialize,
	"server/discover":          goodDiscover,
	"ping":                     `{}`,
	"tools/list":               `{"tools":[` + goodTools + `]}`,
	"resources/list":           `{"resources":[{"uri":"` + ResourceURI + `","name":"resource"}]}`,
	"resources/templates/list": `{"resourceTemplates":[]}`,
	"prompts/list":             `{"prompts":[{"name":"` + PromptName + `"}]}`,
	"resources/read":           `{"contents":[{"uri":"` + ResourceURI + `","text":"fine"}]}`,
	"resources/subscribe":      `{}`,
	"resources/unsubscribe":    `{}`,
	"logging/setLevel":         `{}`,
	"prompts/get":              `{"messages":[{"role":"user","content":{"type":"text","text":"fine"}}]}`,
}

// answerWell answers a request correctly.
func (s *stdioServer) answerWell(r request) {
	result, ok := goodResults[r.method]
	switch {
	case r.method == "tools/call" && r.params.Name == BadTool:
		s.result(r, fineResult)
	case r.method == "tools/call":
		var args struct{ Text string }
		_ = json.Unmarshal(r.params.Arguments, &args)
		text, _ := json.Marshal(args.Text) // a string always marshals
		s.result(r, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	case r.method == "subscriptions/listen": // the answer would end the subscription
		s.write(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
			r.id + `},"notifications":` + string(r.params.Notifications) + "}}\n")
	case ok:
		s.result(r, result)
	default:
		s.write(`{"jsonrpc":"2.0","id":` + r.id + `,"error":{"code":-32601,"message":"method not found"}}` + "\n")
	}
}

// result answers a request with a result.
func (s *stdioServer) result(r request, result string) {
	s.write(`{"jsonrpc":"2.0","id":` + r.id + `,"result":` + result + "}\n")
}

// write writes text to stdout and expands what [repeated] shortened.
func (s *stdioServer) write(text string) {
	if text = expand(text); text != "" {
		_, _ = io.WriteString(s.out, text)
	}
}

// expandPlaceholders replaces $id by the id of the request, and $fine by the right
// result of a call.
func (r request) expandPlaceholders(text string) string {
	return strings.NewReplacer("$id", r.id, "$fine", fineResult).Replace(text)
}

// waitForever does nothing, not even read, until the incarnation ends.
func (s *stdioServer) waitForever() { s.pause(role.MaxLifetime) }

// pause waits; only misbehaviours that are about time use it.
func (s *stdioServer) pause(d time.Duration) {
	_ = backoff.Sleep(s.ctx, d) // the incarnation may end first
}

// onMethod serves correctly, except that handler answers the method.
func onMethod(method string, handler func(*stdioServer, request)) func(*stdioServer) {
	return func(s *stdioServer) {
		s.handlers[method] = handler
		s.serve()
	}
}

// onCall serves correctly, except for the calls of [BadTool].
func onCall(handler func(*stdioServer, request)) func(*stdioServer) {
	return onMethod("tools/call", handler)
}

// answersMethod answers the method with text; see [request.expandPlaceholders].
func answersMethod(method, text string) func(*stdioServer) {
	return onMethod(method, func(s *stdioServer, r request) { s.write(r.expandPlaceholders(text)) })
}

// answersCall answers each call of [BadTool] with a line; see
// [request.expandPlaceholders].
func answersCall(text string) func(*stdioServer) { return answersMethod("tools/call", text+"\n") }

// results answers the method with a result.
func results(method, result string) func(*stdioServer) {
	return answersMethod(method, `{"jsonrpc":"2.0","id":$id,"result":`+result+"}\n")
}
