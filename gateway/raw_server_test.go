package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// rawMessage is what a server of serveRaw receives.
type rawMessage struct {
	ID     json.RawMessage // nil for a notification
	Method string          // empty for an answer
	Params json.RawMessage
	Result json.RawMessage
	Error  struct{ Message string }
}

// rawHandler returns the members of the answer after its id; "": that of serveRaw; noAnswer: none. send sends a line
// before it. An error ends the server.
type rawHandler func(m rawMessage, send func(format string, args ...any)) (members string, err error)

const noAnswer = "none"

// serveRaw is a server in memory before 2026-07-28 with one tool, x.
func serveRaw(on rawHandler) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		w := bufio.NewWriter(out)
		send := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) } // Flush has the error
		for lines := bufio.NewReader(in); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return nil //nolint:nilerr // the end
			}
			var m rawMessage
			if json.Unmarshal(line, &m) != nil {
				continue
			}
			members, died := on(m, send)
			if members == "" {
				members = map[string]string{
					"initialize":      `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
					"tools/list":      `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`,
					"server/discover": `"error":{"code":-32601,"message":"no"}`,
				}[m.Method]
			}
			switch {
			case died != nil || m.ID == nil || members == noAnswer:
			case members != "":
				send(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, members)
			case m.Method != "":
				send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
			if err := errors.Join(w.Flush(), died); err != nil {
				return err
			}
		}
	}}
}

// rawServer answers calls of x with a text: the members of the message after its id, or a result. For "params" it is the
// params of the first call.
func rawServer(result string) *mcpvisor.InMemory {
	return serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		if m.Method != "tools/call" {
			return "", nil
		}
		if result == "params" {
			result = `{"content":[],"structuredContent":` + string(m.Params) + `}`
		}
		if result[0] == '{' {
			return `"result":` + result, nil
		}
		return result, nil
	})
}

// reportingServer is a server whose calls of x report their text as progress, and answer with it.
func reportingServer() *mcpvisor.InMemory {
	return serveRaw(func(m rawMessage, send func(string, ...any)) (string, error) {
		if m.Method != "tools/call" {
			return "", nil
		}
		var call struct {
			Arguments struct{ Text string }
			Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		_ = json.Unmarshal(m.Params, &call)
		send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, call.Meta.ProgressToken, call.Arguments.Text)
		return fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, call.Arguments.Text), nil
	})
}

// eagerServer is a server whose calls of x ask for a form. It answers the call at once with n bytes of text, or, for
// n = 0, dies.
func eagerServer(n int) *mcpvisor.InMemory {
	return serveRaw(func(m rawMessage, send func(string, ...any)) (string, error) {
		if m.Method != "tools/call" {
			return "", nil
		}
		send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, wantsText)
		if n == 0 {
			return "", errors.New("it dies")
		}
		return `"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`, nil
	})
}

// asksFirst is a server that asks for a form because of each request, and answers it when it has the answer, whose
// text is in the answer. It waits for a value of ask, unless that is nil.
func asksFirst(ask <-chan struct{}) rawHandler {
	waiting := map[string]string{} // the beginning of an answer, by the id of the question
	return func(m rawMessage, send func(string, ...any)) (string, error) {
		var begin string
		switch m.Method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"raw","version":"1"}}`, nil
		case "prompts/list":
			return `"result":{"prompts":[{"name":"x"}]}`, nil
		case "resources/list":
			return `"result":{"resources":[{"name":"x","uri":"x:y"}]}`, nil
		case "resources/templates/list":
			return `"error":{"code":-32601,"message":"no"}`, nil
		case "tools/call":
			begin = `{"content":[{"type":"text","text":`
		case "prompts/get":
			begin = `{"messages":[{"role":"user","content":{"type":"text","text":`
		case "resources/read":
			begin = `{"contents":[{"uri":"x:y","text":`
		case "":
			id, _ := strconv.Unquote(string(m.ID))
			text, _ := json.Marshal(string(m.Result))
			end := map[byte]string{'c': "}]}", 'm': "}}]}"}[waiting[id][2]]
			send(`{"jsonrpc":"2.0","id":%s,"result":%s%s%s}`, id, waiting[id], text, end)
			return noAnswer, nil
		default:
			return "", nil
		}
		if ask != nil {
			<-ask
		}
		waiting[string(m.ID)] = begin
		send(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":%s}`, m.ID, wantsText)
		return noAnswer, nil
	}
}

// waitingServer is a server of asksFirst, of which each incarnation begins with the first answer.
func waitingServer(ask <-chan struct{}) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, errs io.Writer) error {
		return serveRaw(asksFirst(ask)).Serve(ctx, in, out, errs)
	}}
}

// cancelableServer is one of asksFirst that tells when a call is canceled.
func cancelableServer(told chan<- time.Time) *mcpvisor.InMemory {
	inner := asksFirst(nil)
	return serveRaw(func(m rawMessage, send func(string, ...any)) (string, error) {
		if m.Method == "notifications/cancelled" {
			told <- time.Now()
		}
		return inner(m, send)
	})
}
