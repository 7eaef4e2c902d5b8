package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The environment variables by which a re-executed binary knows which server
// of the zoo it is, and whether it is that server's child.
const (
	roleZoo    = "zoo"
	envZoo     = "MCPTEST_ZOO"
	envZooDir  = "MCPTEST_ZOO_DIR"
	envZooPart = "MCPTEST_ZOO_PART"
)

// creature is a server written by hand. It behaves well, save where a
// misbehaviour puts something in its place. One goroutine does everything, so
// that what it writes comes in the order in which the code says it.
type creature struct {
	ctx   context.Context
	stdin io.ReadCloser
	in    *bufio.Reader
	out   io.WriteCloser
	errs  io.Writer
	// end ends the incarnation; it does not return.
	end func(code int)
	// part is empty, or says which of its children this process is.
	part string
	// start counts the incarnations, from 1.
	start int

	// on takes the place of the good answer to a method, notifications included.
	// Of tools/call only those of [ZooBad] come here.
	on map[string]func(*creature, question)
	// told is called for what is an answer, of the client to us.
	told func(*creature, envelope)
}

// question is a message of the client.
type question struct {
	id     string // raw; empty in a notification
	method string
	params params
	modern bool
}

func newCreature(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) *creature {
	return &creature{ctx: ctx, stdin: stdin, in: bufio.NewReaderSize(stdin, 64<<10), out: stdout, errs: stderr,
		on: map[string]func(*creature, question){}}
}

// serve answers until stdin ends.
func (c *creature) serve() {
	for {
		line, err := c.in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			c.handle(line)
		}
		if err != nil {
			return
		}
	}
}

func (c *creature) handle(line []byte) {
	var e envelope
	if e.decode(line) != nil {
		return
	}
	if e.Method == "" {
		if c.told != nil {
			c.told(c, e)
		}
		return
	}
	q := question{id: string(e.ID), method: e.Method, params: e.Params, modern: bytes.Contains(e.Params.Meta, modernMark)}
	if do := c.on[q.method]; do != nil && (q.method != "tools/call" || q.params.Name == ZooBad) {
		do(c, q)
	} else if q.id != "" {
		c.behave(q)
	}
}

// The good answers.
const (
	goodTools        = `{"name":"bad","description":"Misbehaves.","inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object"}}`
	goodCapabilities = `{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{}}`
	goodInitialize   = `{"protocolVersion":"2025-11-25","capabilities":` + goodCapabilities + `,"serverInfo":{"name":"zoo","version":"1"}}`
	goodDiscover     = `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":` + goodCapabilities +
		`,"ttlMs":0,"cacheScope":"private","resultType":"complete"}`
	fine = `{"content":[{"type":"text","text":"` + ZooFine + `"}]}`
)

var goodAnswers = map[string]string{
	"initialize":               goodInitialize,
	"server/discover":          goodDiscover,
	"ping":                     `{}`,
	"tools/list":               `{"tools":[` + goodTools + `]}`,
	"resources/list":           `{"resources":[{"uri":"` + ZooResource + `","name":"resource"}]}`,
	"resources/templates/list": `{"resourceTemplates":[]}`,
	"prompts/list":             `{"prompts":[{"name":"` + ZooPrompt + `"}]}`,
	"resources/read":           `{"contents":[{"uri":"` + ZooResource + `","text":"fine"}]}`,
	"resources/subscribe":      `{}`,
	"resources/unsubscribe":    `{}`,
	"logging/setLevel":         `{}`,
	"prompts/get":              `{"messages":[{"role":"user","content":{"type":"text","text":"fine"}}]}`,
}

// behave gives the good answer.
func (c *creature) behave(q question) {
	answer, ok := goodAnswers[q.method]
	switch {
	case q.method == "tools/call" && q.params.Name == ZooBad:
		c.result(q, fine)
	case q.method == "tools/call":
		var args struct{ Text string }
		_ = json.Unmarshal(q.params.Arguments, &args)
		c.result(q, `{"content":[{"type":"text","text":`+string(mustJSON(args.Text))+`}]}`)
	case q.method == "subscriptions/listen": // there is no answer while it goes on
		c.write(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
			q.id + `},"notifications":` + string(q.params.Notifications) + "}}\n")
	case ok:
		c.result(q, answer)
	default:
		c.write(`{"jsonrpc":"2.0","id":` + q.id + `,"error":{"code":-32601,"message":"method not found"}}` + "\n")
	}
}

func (c *creature) result(q question, result string) {
	c.write(`{"jsonrpc":"2.0","id":` + q.id + `,"result":` + result + "}\n")
}

// write puts text on stdout; see [many].
func (c *creature) write(text string) {
	if text = expand(text); text != "" {
		_, _ = io.WriteString(c.out, text)
	}
}

// many stands for text, repeated. It is written out when it is sent and not
// before: what the whole zoo has to say is hundreds of megabytes.
func many(text string, times int) string { return "⟦" + strconv.Itoa(times) + "×" + text + "⟧" }

func expand(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "⟦")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		times, rest, _ := strings.Cut(rest, "×")
		n, _ := strconv.Atoi(times)
		end := closing(rest)
		b.WriteString(strings.Repeat(expand(rest[:end]), n))
		text = rest[end+len("⟧"):]
	}
}

// closing is where the bracket ends that began before text.
func closing(text string) int {
	for i, depth := 0, 0; ; {
		end := i + strings.Index(text[i:], "⟧")
		depth += strings.Count(text[i:end], "⟦")
		if depth == 0 {
			return end
		}
		depth--
		i = end + len("⟧")
	}
}

// fill puts a question's id and the good result of a call into a text.
func (q question) fill(text string) string {
	return strings.NewReplacer("$id", q.id, "$fine", fine).Replace(text)
}

// park does nothing any more, not even read.
func (c *creature) park() {
	t := time.NewTimer(maxLoiter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// rest waits a moment, where the passing of time is what the misbehaviour is about.
func (c *creature) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// child starts another process of the same misbehaviour, which sees its part.
func (c *creature) child(part string) *exec.Cmd {
	cmd := exec.Command(currentBinary())
	cmd.Env = append(os.Environ(), envRole+"="+roleZoo, envZooPart+"="+part)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// instead serves well, save that do answers the method.
func instead(method string, do func(*creature, question)) func(*creature) {
	return func(c *creature) {
		c.on[method] = do
		c.serve()
	}
}

// onCall serves well, save for the calls of [ZooBad].
func atCall(do func(*creature, question)) func(*creature) { return instead("tools/call", do) }

// says answers the method with a text of its own, in which $id stands for the
// id of the request.
func says(method, text string) func(*creature) {
	return instead(method, func(c *creature, q question) { c.write(q.fill(text)) })
}

// answers is a line in answer to each call of [ZooBad]; $fine is a good result.
func answers(text string) func(*creature) { return says("tools/call", text+"\n") }

// results answers the method with a result of its own.
func results(method, result string) func(*creature) {
	return says(method, `{"jsonrpc":"2.0","id":$id,"result":`+result+"}\n")
}

// serveZoo is the part of a process that is a server of the zoo.
func serveZoo() int {
	m, ok := MisbehaviourNamed(os.Getenv(envZoo))
	if !ok || m.serve == nil {
		fmt.Fprintf(os.Stderr, "mcptest: no server of the zoo is called %q; start it with what Misbehaviour.Stdio gives\n", os.Getenv(envZoo))
		return 2
	}
	c := newCreature(context.Background(), os.Stdin, os.Stdout, os.Stderr)
	c.end, c.part = os.Exit, os.Getenv(envZooPart)
	var err error
	if acc := newAccounts(os.Getenv(envZooDir)); c.part == "" {
		if c.start, err = acc.begin(); err == nil {
			err = acc.recordPid(os.Getpid())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// However stubborn it is, it does not outlive a failed test for ever.
	time.AfterFunc(maxLoiter, func() { os.Exit(3) })
	m.serve(c)
	return 0
}

// gone is how an in-memory creature leaves from wherever it is.
type gone struct{ code int }

func (m Misbehaviour) serveInMemory(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) (err error) {
	// Both wake whoever is blocked on a pipe.
	stop := context.AfterFunc(ctx, func() { _, _ = stdin.Close(), stdout.Close() })
	defer stop()
	defer func() {
		switch g := recover().(type) {
		case nil:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
		case gone:
			err = &ExitError{Code: g.code}
		default:
			err = errors.Join(err, fmt.Errorf("mcptest: %s panicked: %v", m.Name, g))
		}
		_ = stdout.Close()
	}()
	c := newCreature(ctx, stdin, stdout, stderr)
	c.start, c.end = 1, func(code int) { panic(gone{code}) }
	m.serve(c)
	return nil
}
