package simulation

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
)

// A linePeer is a client on the lines of gateway.Serve, as that of mcpvisor wrap. Each host has one.
type linePeer struct {
	w      *world
	out    *io.PipeWriter
	broken chan struct{}

	mu      sync.Mutex // guards the fields below
	lastID  int
	waiting map[int]chan *response
	open    map[string]int // calls in flight, and those that were canceled, by the id of their plan
}

// serveLines offers the client of a host on lines, until the host ends.
func (w *world) serveLines(c *facade.Client) (stop func()) {
	in, out := io.Pipe()
	answers, back := io.Pipe()
	p := &linePeer{w: w, out: out, broken: make(chan struct{}), waiting: map[int]chan *response{}, open: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	w.closes.Go(func() {
		_ = gateway.Serve(ctx, gateway.Transport(c, gateway.WithSettings(w.settings)), &mcp.IOTransport{Reader: in, Writer: back})
		_, _ = in.Close(), back.Close()
	})
	w.closes.Go(func() { p.read(answers) })
	w.mu.Lock()
	w.line = p
	w.mu.Unlock()
	version := []string{"2024-11-05", "2025-11-25"}[w.seed%2]
	_, _ = p.ask(ctx, "initialize", `{"protocolVersion":"`+version+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"lines","version":"1"}}`)
	_ = p.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return func() {
		cancel()
		_, _ = out.Close(), answers.Close()
	}
}

func (p *linePeer) write(text string) error {
	_, err := io.WriteString(p.out, text+"\n")
	return err
}

func (p *linePeer) read(answers io.Reader) {
	defer close(p.broken)
	for lines := bufio.NewReader(answers); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		a := new(response)
		if err := json.Unmarshal(line, a); err != nil {
			p.w.fail("the peer on lines got %q", line)
			return
		}
		p.mu.Lock()
		switch {
		case a.Method == "elicitation/create" && p.open[a.Params.Message] == 0, a.Method == "notifications/progress" && p.open[a.Params.Message] == 0:
			p.w.fail("the peer on lines got %s of %s, which it does not call", a.Method, a.Params.Message)
		case a.Method == "elicitation/create":
			p.w.closes.Go(func() {
				_ = p.write(`{"jsonrpc":"2.0","id":` + string(a.ID) + `,"result":{"action":"accept","content":{"a":"` + a.Params.Message + `"}}}`)
			})
		case a.Method == "":
			var id int
			_ = json.Unmarshal(a.ID, &id)
			answer := p.waiting[id]
			delete(p.waiting, id)
			if answer != nil {
				answer <- a
			} else if id > p.lastID || id < 1 {
				p.w.fail("the peer on lines got an answer to what it has not asked: %s", line)
			}
		}
		p.mu.Unlock()
	}
}

// ask makes a request, and cancels it when ctx ends.
func (p *linePeer) ask(ctx context.Context, method, params string) (*response, error) {
	answer := make(chan *response, 1)
	p.mu.Lock()
	p.lastID++
	id := p.lastID
	p.waiting[id] = answer
	p.mu.Unlock()
	if err := p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-p.broken:
		return nil, errors.New("the lines have ended")
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
		_ = p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		return nil, context.Cause(ctx)
	}
}

// call makes a tool call as the plan says.
func (p *linePeer) call(ctx context.Context, e event) (string, error) {
	arguments, err := json.Marshal(e.Plan)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.open[e.Plan.ID]++
	p.mu.Unlock()
	a, err := p.ask(ctx, "tools/call", fmt.Sprintf(`{"name":"mcp__s%d__do","arguments":%s,"_meta":{"progressToken":"of %s"}}`, e.Server, arguments, e.Plan.ID))
	if err != nil { // what comes before the server knows may follow
		return "", err
	}
	p.mu.Lock()
	p.open[e.Plan.ID]--
	p.mu.Unlock()
	return p.w.readResult("the peer on lines", a)
}
