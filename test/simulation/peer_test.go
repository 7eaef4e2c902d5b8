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

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
)

var versions = []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "2026-07-28"}

const peers = 6

// A peer is a client of the gateway, which uses HTTP and nothing of the product.
type peer struct {
	w         *world
	n         int
	version   string
	principal string
	http      *http.Client

	mu      sync.Mutex // guards the fields below
	session string
	nextID  int
	known   []string             // the tools of the last list; guarded by w.mu
	told    map[string]time.Time // when it was told last that a resource has changed; guarded by w.mu
	open    map[string]int       // calls in flight, by the id of their plan
}

func (w *world) newPeer(n int) *peer {
	p := &peer{w: w, n: n, version: versions[n%len(versions)], principal: []string{"alice", "bob"}[n%2]}
	p.open, p.told = map[string]int{}, map[string]time.Time{}
	p.http = &http.Client{Transport: &http.Transport{DialContext: w.net.dial}}
	return p
}

func (p *peer) modern() bool { return p.version == "2026-07-28" }

var tokens = []gateway.Token{
	{Principal: "alice", Profile: "p", SHA256: gateway.HashToken("token-of-alice")},
	{Principal: "bob", Profile: "p", SHA256: gateway.HashToken("token-of-bob")},
}

var sessionKey = bytes.Repeat([]byte("k"), 32)

// serve offers the client of the host as a gateway, until the host ends.
func (w *world) serve(c *facade.Client) (stop func()) {
	h := gateway.Handler(c, gateway.WithTokens(tokens...), gateway.WithSettings(w.settings), gateway.WithSessionKey(sessionKey), gateway.WithMaxWait(6*time.Second),
		gateway.WithHTTPLimits(gateway.HTTPLimits{MaxBytes: 4 << 20, MaxSessions: 50, MaxTasks: 200, MaxInFlight: 300}))
	l := w.net.listen("gateway.sim:80")
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	w.closes.Go(func() { _ = server.Serve(l) })
	return func() {
		_ = server.Close()
		_ = l.Close()
		h.Close()
	}
}

// offer sets what the gateway offers: all servers, or all but one.
func (w *world) offer(hidden string) {
	share := map[string]gateway.Share{}
	if w.copied != "" {
		share[w.copied] = gateway.ShareClient
	}
	profile := gateway.Profile{}
	if hidden != "" {
		profile.Servers.Deny = []string{hidden}
	}
	w.offers.Lock() // two changes of one instant come in one order
	defer w.offers.Unlock()
	w.mu.Lock()
	w.hidden = append(w.hidden, visibility{time.Now(), hidden}) // first: at the instant of a change both hold
	w.mu.Unlock()
	if err := w.settings.Set(gateway.Settings{ShareOf: share, Profiles: map[string]gateway.Profile{"p": profile}}); err != nil {
		w.fail("settings: %v", err)
	}
}

// visibility says which server the profile hides from a time on; empty: none.
type visibility struct {
	from   time.Time
	hidden string
}

// alwaysHidden reports whether a server was hidden all the time between two instants; w.mu is locked.
func (w *world) alwaysHidden(server string, from, to time.Time) bool {
	for i, v := range w.hidden {
		until := to
		if i+1 < len(w.hidden) {
			until = w.hidden[i+1].from
		}
		if !until.Before(from) && !v.from.After(to) && v.hidden != server {
			return false
		}
	}
	return true
}

var errStatus = errors.New("status")

// request makes a request with the headers that it must have.
func (p *peer) request(ctx context.Context, verb string, body io.Reader, method, name, session string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, verb, "http://gateway.sim/mcp", body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer token-of-"+p.principal)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method != "initialize" {
		r.Header.Set("Mcp-Protocol-Version", p.version)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if p.modern() {
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
	return r, nil
}

// openSession returns the session of the peer, which it opens if there is none; empty since 2026-07-28.
func (p *peer) openSession(ctx context.Context) (session string, err error) {
	p.mu.Lock()
	session = p.session
	p.mu.Unlock()
	if session != "" || p.modern() {
		return session, nil
	}
	_, session, err = p.post(ctx, p.id(), "initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"peer","version":"1"}}`, p.version), "", "")
	if err != nil || session == "" {
		return "", fmt.Errorf("initialize: %w", err)
	}
	if _, _, err = p.post(ctx, 0, "notifications/initialized", "{}", "", session); err != nil {
		return "", fmt.Errorf("initialized: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == "" {
		p.session = session
	}
	return p.session, nil
}

// follow keeps a stream for notifications open, and asks for the tools whenever they have changed, until ctx ends.
func (p *peer) follow(ctx context.Context) {
	for ctx.Err() == nil {
		p.followOnce(ctx)
		sleep(ctx, 300*time.Millisecond)
	}
}

func (p *peer) followOnce(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := p.openSession(ctx)
	if err != nil {
		return
	}
	verb, body, method := http.MethodGet, "", ""
	if p.modern() {
		verb, method = http.MethodPost, "subscriptions/listen"
		uris, _ := json.Marshal(p.uris())
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":%s},"_meta":{%s}}}`, p.id(), method, uris, modernMeta)
	}
	r, err := p.request(ctx, verb, strings.NewReader(body), method, "", session)
	if err != nil {
		return
	}
	got, err := p.http.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode == http.StatusServiceUnavailable { // the host is ending
		return
	}
	if got.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(got.Body)
		p.mu.Lock()
		left := session != p.session // it has said goodbye in that moment
		p.mu.Unlock()
		if !left {
			p.w.fail("peer %d could not follow: %d %s", p.n, got.StatusCode, text)
		}
		return
	}
	if !p.modern() { // what has changed before is known from now on; since 2026-07-28 an acknowledgement comes first
		p.w.closes.Go(func() { p.subscribe(ctx, session) })
		p.list(ctx)
	}
	for lines := bufio.NewReader(got.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		var news struct {
			Method string
			Params struct {
				URI           string
				Notifications struct{ ResourceSubscriptions []string }
			}
		}
		_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &news)
		switch news.Method {
		case "notifications/subscriptions/acknowledged":
			if len(news.Params.Notifications.ResourceSubscriptions) < len(p.uris()) { // a server is down, or hidden
				defer time.AfterFunc(2*time.Second, cancel).Stop()
			}
			p.list(ctx)
		case "notifications/tools/list_changed":
			p.list(ctx)
		case "notifications/resources/list_changed":
			return // it subscribes again
		case "notifications/resources/updated":
			p.updated(ctx, news.Params.URI)
		}
	}
}

// list keeps the list of tools as the peer knows it.
func (p *peer) list(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := p.call(ctx, event{Kind: "tools"})
		if err == nil {
			return
		}
		sleep(ctx, 200*time.Millisecond)
	}
}

// post sends one message, and returns the answer to it: of several in a stream the last one.
func (p *peer) post(ctx context.Context, id int, method, params, name, session string) (answer *response, newSession string, err error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
	if method == "" {
		body = params
	}
	if id > 0 {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
	}
	r, err := p.request(ctx, http.MethodPost, strings.NewReader(body), method, name, session)
	if err != nil {
		return nil, "", err
	}
	got, err := p.http.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode == http.StatusTooManyRequests || got.StatusCode >= 300 && got.Header.Get("Content-Type") != "application/json" {
		text, _ := io.ReadAll(got.Body)
		return nil, "", fmt.Errorf("%w %d: %s", errStatus, got.StatusCode, text)
	}
	if id == 0 {
		return nil, "", nil
	}
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		for lines := bufio.NewReader(got.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil, "", fmt.Errorf("the stream ended before the answer: %w", err)
			}
			data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
			if !ok || strings.TrimSpace(data) == "" {
				continue
			}
			a := new(response)
			if err := json.Unmarshal([]byte(data), a); err != nil {
				p.w.fail("peer %d got %q in a stream", p.n, data)
			}
			if a.Method == "elicitation/create" {
				result := p.asked(a.Params.Message) // before the call can end
				p.w.closes.Go(func() { p.answer(ctx, a, session, result) })
			}
			if a.Method == "notifications/progress" {
				p.progressed(id, a)
			}
			if a.Method == "" {
				if string(a.ID) != fmt.Sprint(id) {
					p.w.fail("peer %d asked %d and got the answer of %s", p.n, id, a.ID)
				}
				return a, got.Header.Get("Mcp-Session-Id"), nil
			}
		}
	}
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, "", err
	}
	a := new(response)
	if err := json.Unmarshal(text, a); err != nil {
		p.w.fail("peer %d got status %d with %q", p.n, got.StatusCode, text)
		return nil, "", err
	}
	if string(a.ID) != fmt.Sprint(id) {
		p.w.fail("peer %d asked %d and got the answer of %s: %s", p.n, id, a.ID, text)
	}
	return a, got.Header.Get("Mcp-Session-Id"), nil
}

type response struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Message       string          `json:"message"`
		ProgressToken json.RawMessage `json:"progressToken"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// progressed takes the progress of a call.
func (p *peer) progressed(id int, a *response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	counts["progress of post"]++
	if string(a.Params.ProgressToken) != fmt.Sprint(id) || p.open[a.Params.Message] == 0 {
		p.w.failLocked("peer %d got in the stream of %d the progress %s of %s", p.n, id, a.Params.ProgressToken, a.Params.Message)
	}
}

// asked looks whether a question is that of a call which this peer has in flight, and returns the answer.
func (p *peer) asked(message string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[message] == 0 {
		p.w.fail("peer %d of %s was asked for %s, which it does not call", p.n, p.principal, message)
	}
	return `{"action":"accept","content":{"a":"` + message + `"}}`
}

func (p *peer) answer(ctx context.Context, question *response, session, result string) {
	if _, _, err := p.post(ctx, 0, "", `{"jsonrpc":"2.0","id":`+string(question.ID)+`,"result":`+result+`}`, "", session); err != nil {
		return // the call has ended meanwhile, and nothing waits for the answer
	}
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`

// call makes a tool call as the plan says. It opens a session if there is none.
func (p *peer) call(ctx context.Context, e event) (string, error) {
	began := time.Now()
	p.mu.Lock()
	p.open[e.Plan.ID]++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open[e.Plan.ID]--
	}()
	session, err := p.openSession(ctx)
	if err != nil {
		return "", &notCalled{err}
	}
	p.w.mu.Lock()
	p.w.sessions[e.Plan.ID] = append(p.w.sessions[e.Plan.ID], session)
	p.w.mu.Unlock()
	var meta []string
	if p.modern() && e.Kind == "taskpost" {
		meta = append(meta, strings.Replace(modernMeta, `{"elicitation":{}}`, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1))
	} else if p.modern() {
		meta = append(meta, modernMeta)
	}
	if e.Key != "" {
		meta = append(meta, fmt.Sprintf(`"mcpvisor/key":%q`, e.Key))
	}
	if e.Kind == "tools" {
		return "", p.tools(ctx, session, meta, began)
	}
	arguments, err := json.Marshal(e.Plan)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("s%d__do", e.Server)
	send := func(more string) (*response, error) {
		id := p.id()
		all := append(slices.Clone(meta), fmt.Sprintf(`"progressToken":%d`, id))
		a, _, err := p.post(ctx, id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{%s}%s}`, name, arguments, strings.Join(all, ","), more), name, session)
		return a, err
	}
	more := ""
	if e.Kind == "taskpost" && !p.modern() {
		more = `,"task":{}`
	}
	a, err := send(more)
	for round := 0; err == nil && a.Error == nil && round < 3; round++ {
		var required struct {
			ResultType    string `json:"resultType"`
			InputRequests map[string]struct {
				Params struct {
					Message string `json:"message"`
				} `json:"params"`
			} `json:"inputRequests"`
			RequestState json.RawMessage `json:"requestState"`
		}
		if json.Unmarshal(a.Result, &required) != nil || required.ResultType != "input_required" {
			break
		}
		var answers []string
		for key, question := range required.InputRequests {
			answers = append(answers, fmt.Sprintf("%q:%s", key, p.asked(question.Params.Message)))
		}
		more := `,"inputResponses":{` + strings.Join(answers, ",") + "}"
		if required.RequestState != nil {
			more += `,"requestState":` + string(required.RequestState)
		}
		a, err = send(more)
	}
	if e.Kind == "taskpost" && err == nil && a.Error == nil {
		a, err = p.followTask(ctx, a, p.w.servers[e.Server].name, session, meta)
	}
	if err != nil {
		return "", err
	}
	return p.w.readResult(fmt.Sprintf("peer %d", p.n), a)
}

// readResult reads the answer to a tool call.
func (w *world) readResult(who string, a *response) (string, error) {
	if a.Error != nil {
		return "", &rpcError{a.Error.Code, a.Error.Message}
	}
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError    bool              `json:"isError"`
		Structured facade.ModelError `json:"structuredContent"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || len(result.Content) != 1 {
		w.fail("%s got the result %s", who, a.Result)
		return "", errors.New("a result of another form")
	}
	if result.IsError {
		return "", &modelError{result.Structured}
	}
	return result.Content[0].Text, nil
}

// tools lists the tools.
func (p *peer) tools(ctx context.Context, session string, meta []string, began time.Time) error {
	a, _, err := p.post(ctx, p.id(), "tools/list", fmt.Sprintf(`{"_meta":{%s}}`, strings.Join(meta, ",")), "", session)
	if err != nil || a.Error != nil {
		return err
	}
	var result struct {
		Tools []struct {
			Name, Description string
		} `json:"tools"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		p.w.fail("peer %d got the list %s", p.n, a.Result)
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	names := []string{}
	for _, tool := range result.Tools {
		names = append(names, tool.Name)
		server, name, _ := strings.Cut(tool.Name, "__")
		if p.w.alwaysHidden(server, began, time.Now()) {
			p.w.failLocked("peer %d got %s in a list that it asked for at %v, and %s was hidden", p.n, tool.Name, began.Sub(p.w.began), server)
		}
		if tool.Description != "" {
			p.w.failLocked("peer %d lists %s, which has drifted", p.n, tool.Name)
		}
		if name != "do" && !strings.HasPrefix(name, "extra") {
			p.w.failLocked("peer %d got the tool %q", p.n, tool.Name)
		}
	}
	p.known = names
	return nil
}

type notCalled struct{ error }

type rpcError struct {
	code int
	text string
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.text) }

type modelError struct{ facade.ModelError }

func (e *modelError) Error() string { return e.Code + ": " + e.Message }

// claimsNotExecuted: what the peer was told means that the call was not executed.
func claimsNotExecuted(err error) bool {
	var model *modelError
	var not *notCalled
	var rpc *rpcError
	switch {
	case errors.As(err, &model):
		return model.Retryable || strings.Contains(model.Message, "was not sent") || strings.Contains(model.Message, "nothing was sent")
	case errors.As(err, &rpc):
		return rpc.code == -32602 && !strings.Contains(rpc.text, "may have had an effect") // a question whose call has ended
	}
	return errors.As(err, &not) || errors.Is(err, errRefused) || errors.Is(err, errStatus)
}
