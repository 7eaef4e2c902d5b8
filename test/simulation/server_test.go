package simulation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A plan is what one call wants of its server. The call carries it in its arguments, so that a schedule decides
// it, and not the order in which goroutines run.
type plan struct {
	ID    string        `json:"id"`              // of the call, or its key: executions are counted by it
	Form  string        `json:"form"`            // plain, task, ask, never, large, flood
	Delay time.Duration `json:"delay,omitempty"` // from the execution to the answer
	Fault string        `json:"fault,omitempty"` // one of faults; it happens at the first execution only
}

var faults = []string{"die_before", "die_after", "die_half", "twice", "junk", "other_id", "stop", "restart", "drain", "again", "apply", "fence", "hide", "die", "cancel", "refresh"}

// crossings are the faults that are actions of the host, or of the caller, between the execution and the answer.
var crossings = []string{"restart", "drain", "again", "apply", "fence", "hide", "die", "cancel", "refresh", "halt", "start", "groups", "rules", "drift"}

// An execution is one line of the ledger: what a server has done, whatever it or the client said later.
type execution struct {
	ID, Server  string
	Incarnation int
	Session     string // over HTTP, before 2026-07-28
	Number      int
	At          time.Time
	Halted      time.Time // since when an operator has stopped the server; zero: it runs
	Drifted     time.Time // of the life, and Honest
	Honest      bool
	Late        bool // it may have come earlier
}

// A server is one scripted server over all its incarnations.
type server struct {
	w       *world
	name    string
	index   int
	modern  bool
	durable bool         // its tasks survive its end
	http    *http.Client // how it is reached over HTTP; nil: it is in memory

	// guarded by w.mu
	incarnation int
	lives       []*life   // that run, the oldest first
	past        []*life   // all, by their numbers
	tools       int       // it offers do and extra0 … extraN
	changes     bool      // when its list is read next
	refuses     int       // that many starts fail
	value       int       // of its resource
	drifted     bool      // its tool do is another than that in the lock file
	tasks       *tasks    // of all incarnations, if they are durable
	fenced      time.Time // since when it surely must not run; zero: it may

	// For the supervision; guarded by w.mu.
	halted       time.Time // since when an operator has stopped it; zero: it may run
	revivals     int       // how often that may have ended
	starts       int       // by an operator, that are under way
	registered   bool      // surely, since registeredAt
	registeredAt time.Time
	disturbed    bool      // the host was told to end it: those that come after it may not wait
	wants        int       // callers that want it now
	wanted       time.Time // when something wanted it last
}

type tasks struct {
	byID map[string]*task
	last int
}

type task struct {
	id, text string
	created  time.Time
	done     time.Time
	canceled bool
}

// A life is one incarnation.
type life struct {
	s      *server
	number int
	from   *registration // nil over HTTP
	disk   *store        // of its host; nil over HTTP
	end    context.CancelCauseFunc
	ctx    context.Context
	// guarded by w.mu
	stopped   time.Time         // it reads and answers nothing before
	listeners map[*message]bool // streams for notifications
	sessions  map[string]bool   // over HTTP, before 2026-07-28
	questions map[string]chan string
	requests  map[string]string // by id, the id of the plan of a call; empty: another request
	ended     time.Time
	listed    time.Time // when its tools were listed last
	idle      time.Time // until when it is surely used
	used      bool
	began     time.Time
	honest    bool            // it has listed the tool do that is locked
	drifted   time.Time       // since when all its lists have another one; zero: the last one has not
	follows   map[string]bool // sessions that have subscribed to the resource; before 2026-07-28
	tasks     *tasks

	nextSession int

	out sync.Mutex
	w   io.Writer
}

func (l *life) write(text string) {
	l.out.Lock()
	defer l.out.Unlock()
	if l.ctx.Err() == nil {
		_, _ = io.WriteString(l.w, text) // the client may have gone
	}
}

// sleep waits in virtual time; it returns false if the life ended.
func (l *life) sleep(d time.Duration) bool {
	if d <= 0 {
		return l.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return l.ctx.Err() == nil
	case <-l.ctx.Done():
		return false
	}
}

func (l *life) stopFor(d time.Duration) {
	l.s.w.mu.Lock()
	defer l.s.w.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.stopped) { // what waits for an earlier one to end waits on
		l.stopped = until
	}
	l.use(d + callTime)
}

// await waits while the life is stopped.
func (l *life) await() bool {
	for {
		l.s.w.mu.Lock()
		rest := time.Until(l.stopped)
		l.s.w.mu.Unlock()
		if rest <= 0 {
			return l.ctx.Err() == nil
		}
		if !l.sleep(rest) {
			return false
		}
	}
}

var errKilled = errors.New("killed")

// beginLocked begins an incarnation; s.w.mu is locked.
func (s *server) beginLocked(ctx context.Context) *life {
	s.incarnation++
	l := &life{s: s, number: s.incarnation, listeners: map[*message]bool{}, sessions: map[string]bool{}, questions: map[string]chan string{},
		requests: map[string]string{}, follows: map[string]bool{}, began: time.Now()}
	l.ctx, l.end = context.WithCancelCause(ctx)
	s.lives, s.past = append(s.lives, l), append(s.past, l)
	if l.tasks = s.tasks; !s.durable {
		l.tasks = &tasks{byID: map[string]*task{}}
	}
	return l
}

// serve runs an incarnation that the host with that disk has started.
func (s *server) serve(ctx context.Context, disk *store, from *registration, stdin io.ReadCloser, stdout io.WriteCloser) error {
	if disk.isDead() {
		return errKilled
	}
	s.w.mu.Lock()
	l := s.beginLocked(ctx)
	l.w, l.from, l.disk, l.idle = stdout, from, disk, time.Now().Add(sleepSlack)
	s.w.judgeBegin(l, disk)
	if !s.fenced.IsZero() && disk == s.w.disk {
		s.w.failLocked("incarnation %d of %s begins at %v, which was fenced at %v", l.number, s.name, time.Since(s.w.began), s.fenced.Sub(s.w.began))
	}
	defer l.end(nil)
	refuse := s.refuses > 0
	if refuse {
		s.refuses--
	}
	s.w.mu.Unlock()
	defer func() {
		s.w.mu.Lock()
		l.judgeSleep()
		l.ended = time.Now()
		s.lives = slices.DeleteFunc(s.lives, func(other *life) bool { return other == l })
		s.w.mu.Unlock()
	}()
	if refuse {
		return errors.New("refuses to start")
	}
	if !l.sleep(2 * time.Millisecond) { // two incarnations must not make tasks within one millisecond
		return context.Cause(l.ctx)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewReader(stdin); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			if !l.await() {
				return
			}
			var m message
			if json.Unmarshal(bytes.TrimSpace(line), &m) != nil {
				s.w.fail("server %s got what is not JSON: %q", s.name, line)
				return
			}
			m.write, m.stream = l.write, true
			if m.Method == "" {
				l.answered(&m)
				continue
			}
			l.keep(&m)
			go l.handle(&m)
		}
	}()
	select {
	case <-ended:
		return nil
	case <-l.ctx.Done():
		_ = stdin.Close()
		return context.Cause(l.ctx)
	}
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`

	session string
	stream  bool              // other messages may come before the answer
	follows bool              // this listener wants to know when the resource changes; guarded by w.mu
	write   func(text string) // where the answer goes, and what comes before it
}

// keep remembers the id of a request, and checks that a cancellation names one of this incarnation.
func (l *life) keep(m *message) {
	l.s.w.mu.Lock()
	defer l.s.w.mu.Unlock()
	if m.ID != nil {
		var params struct{ Arguments plan }
		_ = json.Unmarshal(m.Params, &params)
		l.requests[string(m.ID)] = params.Arguments.ID
	}
	switch kind, _, _ := strings.Cut(m.Method, "/"); {
	case m.Method == "tools/call":
		l.use(callTime + 2*3*time.Second) // the longest plan, and a question
	case kind == "tasks", m.Method == "resources/read", m.Method == "resources/subscribe":
		l.use(callTime)
	}
	if m.Method == "notifications/cancelled" {
		var params struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &params)
		counts["cancellations"]++
		call, known := l.requests[string(params.RequestID)]
		l.s.w.canceled[call] = true
		if l.s.http == nil && !known { // over HTTP a request may come later, and may be broken off
			l.s.w.failLocked("incarnation %d of %s got a cancellation of a request that it did not get: %s", l.number, l.s.name, m.Params)
		}
	}
}

func (l *life) reply(m *message, members string) {
	if m.ID != nil && l.await() {
		m.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + members + "}\n")
	}
}

func (l *life) result(m *message, members string) {
	if l.s.modern {
		members = strings.TrimSuffix(`"resultType":"complete",`+members, ",")
	}
	l.reply(m, `"result":{`+members+`}`)
}

const listed = `"ttlMs":0,"cacheScope":"private",`

func (l *life) handle(m *message) {
	s := l.s
	switch {
	case m.Method == "initialize" && !s.modern:
		l.result(m, `"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"sim","version":"1"}`)
	case m.Method == "server/discover" && s.modern:
		l.result(m, listed+`"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	case m.Method == "ping" && !s.modern:
		l.result(m, "")
	case m.Method == "tools/list":
		s.w.mu.Lock()
		tools := []string{tool("do", l.offers())}
		for i := range s.tools {
			tools = append(tools, tool(fmt.Sprintf("extra%d", i), ""))
		}
		changes, next := s.changes, (s.tools+1)%4
		l.listed = time.Now()
		s.w.mu.Unlock()
		if changes {
			s.change(next, false)
			l.sleep(20 * time.Millisecond)
		}
		l.result(m, listed+`"tools":[`+strings.Join(tools, ",")+`]`)
	case m.Method == "tools/call":
		l.call(m)
	case strings.HasPrefix(m.Method, "resources/"):
		l.resource(m)
	case strings.HasPrefix(m.Method, "tasks/"):
		l.task(m)
	case m.Method == "subscriptions/listen" && s.modern:
		accepted := `"toolsListChanged":true`
		s.w.mu.Lock()
		l.listeners[m] = true
		if m.follows = bytes.Contains(m.Params, []byte(s.uri())); m.follows {
			accepted += `,"resourceSubscriptions":["` + s.uri() + `"]`
		}
		s.w.mu.Unlock()
		m.write(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `},"notifications":{` + accepted + "}}}\n")
	case m.ID != nil:
		l.reply(m, `"error":{"code":-32601,"message":"method not found"}`)
	}
}

func (l *life) call(m *message) {
	s := l.s
	var params struct {
		Arguments plan            `json:"arguments"`
		Task      json.RawMessage `json:"task"`
		Meta      struct {
			Capabilities struct {
				Elicitation json.RawMessage `json:"elicitation"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
			Progress json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		InputResponses map[string]struct {
			Content struct {
				A string `json:"a"`
			} `json:"content"`
		} `json:"inputResponses"`
		RequestState string `json:"requestState"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil || params.Arguments.ID == "" {
		s.w.fail("server %s got a call that it cannot read: %s", s.name, m.Params)
		return
	}
	p := params.Arguments
	s.w.mu.Lock()
	first := !s.w.faulted[p.ID]
	s.w.faulted[p.ID] = true
	s.w.mu.Unlock()
	fault := p.Fault
	if !first {
		fault = ""
	}
	if fault == "die_before" {
		l.end(errKilled)
		return
	}
	if l.ctx.Err() != nil {
		return
	}
	asks := p.Form == "ask" && s.modern && params.Meta.Capabilities.Elicitation != nil
	if asks && params.InputResponses == nil {
		if fault == "operator" && p.Delay/time.Millisecond%2 == 1 {
			s.w.cross(event{Kind: fault, Server: s.index, Key: string(m.ID)})
		}
		l.reply(m, `"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":`+question(p.ID)+`}},"requestState":"of `+p.ID+`"}`)
		return
	}
	n := s.w.execute(p.ID, s.name, m.session, l)
	if params.Meta.Progress != nil && m.stream {
		m.write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(params.Meta.Progress) + `,"progress":1,"message":"` + p.ID + `"}}` + "\n")
	}
	text := fmt.Sprintf("%s#%d", p.ID, n)
	if asks {
		text += ":" + params.InputResponses["q"].Content.A
		if params.RequestState != "of "+p.ID {
			s.w.fail("server %s got the state %q with %s", s.name, params.RequestState, p.ID)
		}
	} else if p.Form == "ask" && !s.modern {
		text += ":" + l.ask(m, p.ID, n)
	}
	if fault == "operator" || asks && p.Fault == "operator" {
		s.w.cross(event{Kind: "operator", Server: s.index, Key: string(m.ID)})
		fault = []string{"", "restart", "die_after", "again", "drain", "die", "", ""}[p.Delay/time.Millisecond%8] // crosses that
	}
	if slices.Contains(crossings, fault) {
		s.w.cross(event{Kind: fault, Server: s.index, N: int(p.Delay/time.Millisecond) % 4, Plan: plan{ID: p.ID}})
	}
	if fault == "die_after" {
		l.end(errKilled)
		return
	}
	if fault == "stop" {
		l.stopFor(p.Delay + 4*time.Second)
	}
	if p.Form == "task" && (s.modern || params.Task != nil) {
		l.makeTask(m, p, text)
		return
	}
	if params.Meta.Progress != nil && p.Form == "flood" {
		for range 10_000 {
			m.write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(params.Meta.Progress) + `,"progress":2,"message":"` + pad[:1<<10] + `"}}` + "\n")
		}
	}
	if p.Form == "large" {
		text += pad
	}
	if !l.sleep(p.Delay) || p.Form == "never" {
		return
	}
	content := `"content":[{"type":"text","text":"` + text + `"}]`
	switch fault {
	case "die_half":
		m.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"conte`)
		l.end(errKilled)
		return
	case "twice":
		l.result(m, content)
		l.result(m, `"content":[{"type":"text","text":"the second answer"}]`)
		return
	case "junk":
		m.write("not JSON at all\n{\"jsonrpc\":\"2.0\"}\n")
	case "other_id":
		m.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `77,"result":{"content":[]}}` + "\n")
	}
	l.result(m, content)
}

func question(id string) string {
	return `{"message":"` + id + `","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`
}

// ask asks the client in mid-call, and returns its answer; empty if there is none.
func (l *life) ask(m *message, id string, n int) string {
	name := fmt.Sprintf("q%d", n)
	answer := make(chan string, 1)
	l.s.w.mu.Lock()
	l.questions[name] = answer
	l.s.w.mu.Unlock()
	m.write(`{"jsonrpc":"2.0","id":"` + name + `","method":"elicitation/create","params":` + question(id) + "}\n")
	timer := time.NewTimer(3 * time.Second)
	defer timer.Stop()
	select {
	case text := <-answer:
		return text
	case <-timer.C:
	case <-l.ctx.Done():
	}
	return ""
}

// answered takes the client's answer to a question.
func (l *life) answered(m *message) {
	var name string
	var result struct {
		Content struct {
			A string `json:"a"`
		} `json:"content"`
	}
	_ = json.Unmarshal(m.ID, &name)
	_ = json.Unmarshal(m.Result, &result)
	l.s.w.mu.Lock()
	defer l.s.w.mu.Unlock()
	if answer := l.questions[name]; answer != nil {
		delete(l.questions, name)
		answer <- result.Content.A
	}
}

func (l *life) makeTask(m *message, p plan, text string) {
	s := l.s
	s.w.mu.Lock()
	l.tasks.last++
	t := &task{id: fmt.Sprintf("task-%d", l.tasks.last), text: text, created: time.Now(), done: time.Now().Add(p.Delay)}
	l.tasks.byID[t.id] = t
	state := s.state(t)
	s.w.mu.Unlock()
	if s.modern {
		l.reply(m, `"result":{"resultType":"task",`+state+`}`)
	} else {
		l.reply(m, `"result":{"task":{`+state+`}}`)
	}
}

// state is that of a task; s.w.mu is locked.
func (s *server) state(t *task) string {
	status := "working"
	switch {
	case t.canceled:
		status = "cancelled"
	case !time.Now().Before(t.done):
		status = "completed"
	}
	poll, ttl := "pollIntervalMs", "ttlMs"
	if !s.modern {
		poll, ttl = "pollInterval", "ttl"
	}
	created := t.created.UTC().Format("2006-01-02T15:04:05.000Z")
	state := fmt.Sprintf(`"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"%s":50,"%s":600000`, t.id, status, created, created, poll, ttl)
	if s.modern && status == "completed" {
		state += `,"result":{"resultType":"complete","content":[{"type":"text","text":"` + t.text + `"}]}`
	}
	return state
}

func (l *life) task(m *message) {
	s := l.s
	var params struct {
		TaskID string `json:"taskId"`
	}
	_ = json.Unmarshal(m.Params, &params)
	s.w.mu.Lock()
	t := l.tasks.byID[params.TaskID]
	if t == nil {
		s.w.mu.Unlock()
		l.reply(m, `"error":{"code":-32602,"message":"unknown task"}`)
		return
	}
	if m.Method == "tasks/cancel" {
		id, _, _ := strings.Cut(t.text, "#")
		s.w.canceled[id] = true
		t.canceled = t.canceled || time.Now().Before(t.done)
	}
	state, wait, text, canceled := s.state(t), time.Until(t.done), t.text, t.canceled
	s.w.mu.Unlock()
	if m.Method != "tasks/result" {
		l.result(m, state)
		return
	}
	if !canceled && !l.sleep(wait) {
		return
	}
	if canceled {
		l.reply(m, `"error":{"code":-32603,"message":"the task was cancelled"}`)
		return
	}
	l.result(m, `"content":[{"type":"text","text":"`+text+`"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+params.TaskID+`"}}`)
}

// oldest is the incarnation in service; nil without one.
func (s *server) oldest() *life {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if len(s.lives) == 0 {
		return nil
	}
	return s.lives[0]
}

// kill ends the incarnation in service.
func (s *server) kill() {
	if l := s.oldest(); l != nil {
		l.end(errKilled)
	}
}

// change sets how many tools the server offers beside the first, and says so. With again it does so once more
// while the client reads the list.
func (s *server) change(tools int, again bool) {
	s.w.mu.Lock()
	s.tools = tools
	s.changes = again
	s.w.mu.Unlock()
	s.notify("tools/list_changed", "", nil)
}

// touch changes the resource, and tells who has subscribed to it.
func (s *server) touch() {
	s.w.mu.Lock()
	s.value++
	s.w.mu.Unlock()
	s.notify("resources/updated", `"uri":"`+s.uri()+`"`, func(l *life, m *message) bool { return m.follows || l.follows[m.session] })
}

func (s *server) uri() string { return "sim://" + s.name + "/value" }

// notify sends a notification on all pipes and streams of which wants says so; it is called with w.mu locked.
func (s *server) notify(method, members string, wants func(*life, *message) bool) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, l := range s.lives {
		pipe := &message{write: l.write}
		if !s.modern && s.http == nil && (wants == nil || wants(l, pipe)) {
			go pipe.write(notification(method, members))
		}
		for m := range l.listeners {
			if wants != nil && !wants(l, m) {
				continue
			}
			text := notification(method, members)
			if s.modern {
				text = notification(method, strings.TrimSuffix(`"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(m.ID)+`},`+members, ","))
			}
			go m.write(text)
		}
	}
}

func notification(method, members string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + members + "}}\n"
}

func (l *life) resource(m *message) {
	s := l.s
	switch m.Method {
	case "resources/list":
		l.result(m, listed+`"resources":[{"name":"value","uri":"`+s.uri()+`"}]`)
	case "resources/templates/list":
		l.result(m, listed+`"resourceTemplates":[]`)
	case "resources/read":
		s.w.mu.Lock()
		value := s.value
		s.w.mu.Unlock()
		l.result(m, listed+fmt.Sprintf(`"contents":[{"uri":%q,"text":"%s=%d"}]`, s.uri(), s.name, value))
	case "resources/subscribe", "resources/unsubscribe":
		s.w.mu.Lock()
		l.follows[m.session] = m.Method == "resources/subscribe"
		s.w.mu.Unlock()
		l.result(m, "")
	}
}
