// Package clients is not part of the stable API. It counts what the clients of gateways do, for
// those who look: the page, the terminal view and metrics. Everything in it is bounded, whatever
// clients there are.
package clients

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

const (
	// maxKept is how many clients are told apart. Beyond it those of the principal that has most make room. If that is
	// the principal of the new one, and it has none that is idle, the new one is counted with others.
	maxKept = 2000
	// maxListed is how many clients a [Status] lists.
	maxListed = 200
	// maxText is the longest text that a client says of itself, in bytes.
	maxText = 100
	// maxTasks is how many tasks of a client a [Status] lists.
	maxTasks = 20
	// Window is how long a client is shown after its last request.
	Window = 15 * time.Minute
)

// Outcome says how a request of a client ended.
type Outcome string

const (
	// OutcomeAnswered: it got a result. That of a tool may say that the tool itself failed.
	OutcomeAnswered Outcome = "answered"
	// OutcomeFailed: a server could not answer it, and the result says so.
	OutcomeFailed Outcome = "failed"
	// OutcomeError: it got a JSON-RPC error.
	OutcomeError Outcome = "error"
	// OutcomeCanceled: the client canceled it, or has gone.
	OutcomeCanceled Outcome = "canceled"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeAnswered, OutcomeFailed, OutcomeError, OutcomeCanceled}
}

// Refusal says why an HTTP request was refused before anything of it was done.
type Refusal string

const (
	// RefusedHost: the gateway does not serve this host, machine or web site.
	RefusedHost Refusal = "host"
	// RefusedToken: no token, one that is not valid, or a profile that does not exist.
	RefusedToken Refusal = "token"
	// RefusedSession: the session has ended, or is not one of this principal.
	RefusedSession Refusal = "session"
	// RefusedLimit: the principal has as many requests, sessions or bytes as it may.
	RefusedLimit Refusal = "limit"
	// RefusedMalformed: it is no request of MCP, too long, or too slow.
	RefusedMalformed Refusal = "malformed"
)

// Refusals returns all refusals.
func Refusals() []Refusal {
	return []Refusal{RefusedHost, RefusedToken, RefusedSession, RefusedLimit, RefusedMalformed}
}

// Info describes a client. Texts that a client says of itself are cut to 100 bytes of one
// line.
type Info struct {
	// Name and Version are those that the client gives; empty if it has not said it.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Protocol is the version of MCP.
	Protocol string `json:"protocol,omitempty"`
	// Principal is whose token the client has; empty without tokens.
	Principal string `json:"principal,omitempty"`
	// Profile names what the client is offered; empty: everything.
	Profile string `json:"profile,omitempty"`
	// Transport is "http", "stdio" or "memory".
	Transport string `json:"transport"`
}

// SessionStatus is one client: a session, or what belongs to one client of 2026-07-28, which has no
// sessions.
type SessionStatus struct {
	// Number tells sessions apart. It says nothing about the id of the session.
	Number uint64 `json:"number"`
	Info
	// Since is when it was seen first, Last when it began its last request.
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	// Ended is when it ended; nil if it did not say so.
	Ended *time.Time `json:"ended,omitempty"`
	// Requests counts the requests, Calls those of them that call a tool, and Failed those that
	// ended with another outcome than OutcomeAnswered.
	Requests int64 `json:"requests"`
	Calls    int64 `json:"calls"`
	Failed   int64 `json:"failed"`
	// InFlight counts the requests in flight, Streams the open streams.
	InFlight int `json:"inFlight"`
	Streams  int `json:"streams"`
	// Tasks counts the tasks that it has open, and OpenTasks are the newest 20 of them.
	Tasks     int          `json:"tasks"`
	OpenTasks []TaskStatus `json:"openTasks"`
	// Copies are the servers that run for this client alone, sorted; one for each process or
	// connection. Clients of 2026-07-28 over HTTP share those of their principal.
	Copies []string `json:"copies,omitempty"`
}

// Offer names what the clients of one profile can see and call.
type Offer struct {
	// Profile is its name; empty: everything.
	Profile string `json:"profile"`
	// Servers are the servers that have something in the lists, sorted.
	Servers []string `json:"servers"`
	// Tools, Prompts, Resources and Templates count the listed entries. Withheld counts the entries of the
	// profile that are not listed.
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Withheld  int `json:"withheld"`
}

// Status describes all clients at one moment.
type Status struct {
	// Sessions are the sessions that were seen within the last 15 minutes or have something open, at
	// most 200: those with something open first, and then those that were seen last.
	Sessions []SessionStatus `json:"sessions"`
	// Total counts them, with those that are not listed.
	Total int `json:"total"`
	// Offers say what they can see, by profile.
	Offers []Offer `json:"offers"`
	// InFlight and Streams count those of all sessions.
	InFlight int `json:"inFlight"`
	Streams  int `json:"streams"`
	// Requests counts the requests that ended, by outcome, and Refused the HTTP requests that were
	// refused, since the gateway was started.
	Requests map[Outcome]int64 `json:"requests"`
	Refused  map[Refusal]int64 `json:"refused"`
}

// Registry knows the clients of one or several gateways. Make it with [New]. Safe for concurrent use.
type Registry struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below, and those of the clients
	number   uint64
	byKey    map[string]*Client
	clients  map[string]int // number of clients, by principal
	idle     *list.List     // clients, that of the last request first; values are *Client
	rest     *Client        // stands for clients beyond maxKept
	requests map[Outcome]int64
	refused  map[Refusal]int64
	inFlight int
	streams  int
	offers   map[string]func() Offer // by profile
}

// New makes a registry without clients.
func New() *Registry {
	r := &Registry{now: time.Now, byKey: map[string]*Client{}, clients: map[string]int{}, idle: list.New(), requests: map[Outcome]int64{}, refused: map[Refusal]int64{}, offers: map[string]func() Offer{}}
	r.rest = &Client{registry: r, session: SessionStatus{Info: Info{Name: "other clients"}}}
	return r
}

// Client is one client. A nil *Client counts nothing.
type Client struct {
	registry *Registry
	key      string
	place    *list.Element   // nil for the rest
	open     int             // connections
	copies   func() []string // the servers that run for it alone; nil: none
	session  SessionStatus
	tasks    map[*Task]bool
}

// Open returns the client of a key, which it makes for a new key and for an empty one. The fields of info that
// are set replace those of the client.
func (r *Registry) Open(key string, info Info) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key == "" {
		key = fmt.Sprintf("connection %d", r.number+1)
	}
	c := r.byKey[key]
	if c == nil {
		if c = r.addLocked(key, oneLine(info.Principal)); c == r.rest {
			return c
		}
	}
	c.touchLocked()
	c.takeLocked(info)
	return c
}

func (r *Registry) addLocked(key, principal string) *Client {
	now := r.now()
	r.forgetLocked(now)
	r.number++
	c := &Client{registry: r, key: strings.Clone(key), session: SessionStatus{Number: r.number, Since: now, Info: Info{Principal: principal}}}
	if len(r.byKey) >= maxKept && !r.makeRoomLocked(principal) {
		return r.rest
	}
	c.place = r.idle.PushFront(c)
	r.byKey[c.key] = c
	r.clients[principal]++
	return c
}

// makeRoomLocked drops a client of the principal that has most: the oldest that has nothing open. Without one it drops
// the oldest, but not for another client of the same principal.
func (r *Registry) makeRoomLocked(principal string) bool {
	most := principal
	for other, n := range r.clients {
		if n > r.clients[most] {
			most = other
		}
	}
	var oldest *Client
	for e := r.idle.Back(); e != nil; e = e.Prev() {
		c := clientOf(e)
		switch {
		case c.session.Principal != most:
		case !c.isActiveLocked():
			r.dropLocked(c)
			return true
		case oldest == nil:
			oldest = c
		}
	}
	if most != principal {
		r.dropLocked(oldest)
	}
	return most != principal
}

func clientOf(e *list.Element) *Client { return e.Value.(*Client) } //nolint:forcetypeassert // nothing else is in the list

func (r *Registry) dropLocked(c *Client) {
	r.idle.Remove(c.place)
	delete(r.byKey, c.key)
	if r.clients[c.session.Principal]--; r.clients[c.session.Principal] == 0 {
		delete(r.clients, c.session.Principal)
	}
}

// forgetLocked drops the clients that were not seen for long.
func (r *Registry) forgetLocked(now time.Time) {
	for e := r.idle.Back(); e != nil; {
		c := clientOf(e)
		if now.Sub(c.session.Last) < Window {
			return
		}
		e = e.Prev()
		if !c.isActiveLocked() {
			r.dropLocked(c)
		}
	}
}

func (c *Client) isActiveLocked() bool {
	return c.open > 0 || c.session.InFlight > 0 || c.session.Streams > 0
}

func (c *Client) touchLocked() {
	c.session.Last = c.registry.now()
	c.session.Ended = nil
	if c.place != nil && c.registry.byKey[c.key] == c {
		c.registry.idle.MoveToFront(c.place)
	}
}

func (c *Client) takeLocked(info Info) {
	if c == c.registry.rest {
		return
	}
	mine := &c.session.Info
	for _, f := range []struct {
		field *string
		said  string
	}{{&mine.Name, info.Name}, {&mine.Version, info.Version}, {&mine.Protocol, info.Protocol}, {&mine.Profile, info.Profile}, {&mine.Transport, info.Transport}} {
		if f.said != "" && f.said != *f.field {
			*f.field = oneLine(f.said)
		}
	}
}

// update makes a change, unless there is no client.
func (c *Client) update(change func()) {
	if c == nil {
		return
	}
	c.registry.mu.Lock()
	defer c.registry.mu.Unlock()
	change()
}

// Introduce sets what is known of the client now.
func (c *Client) Introduce(info Info) { c.update(func() { c.takeLocked(info) }) }

// Label names the client in one line: its name and version, or else its principal; empty if
// neither is known.
func (c *Client) Label() (label string) {
	c.update(func() { label = c.session.Label() })
	return label
}

// Label is that of [Client.Label].
func (i Info) Label() string {
	if i.Name == "" {
		return i.Principal
	}
	return strings.TrimSpace(i.Name + " " + i.Version)
}

// Connect counts a connection that stays open, or with -1 the end of it.
func (c *Client) Connect(n int) {
	c.update(func() {
		if c.open += n; n < 0 && c.open == 0 {
			c.endLocked()
		}
	})
}

// ShowCopies says which servers run for the client alone. names must not call the registry; it is called
// until another one is set.
func (c *Client) ShowCopies(names func() []string) {
	c.update(func() {
		if c != c.registry.rest {
			c.copies = names
		}
	})
}

// End says that the session of a key has ended.
func (r *Registry) End(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.byKey[key]; c != nil {
		c.endLocked()
	}
}

func (c *Client) endLocked() {
	at := c.registry.now()
	c.session.Ended = &at
}

// Stream counts a stream that opens, or with -1 one that closes.
func (c *Client) Stream(n int) {
	c.update(func() {
		c.session.Streams += n
		c.registry.streams += n
		c.touchLocked()
	})
}

// Begin counts a request that begins. Each needs one [Client.Done].
func (c *Client) Begin(calls bool) {
	c.update(func() {
		c.session.Requests++
		if calls {
			c.session.Calls++
		}
		c.session.InFlight++
		c.registry.inFlight++
		c.touchLocked()
	})
}

// Done counts the end of a request.
func (c *Client) Done(outcome Outcome) {
	c.update(func() {
		c.session.InFlight--
		c.registry.inFlight--
		c.registry.requests[outcome]++
		if outcome != OutcomeAnswered {
			c.session.Failed++
		}
	})
}

// Refuse counts an HTTP request that was refused.
func (r *Registry) Refuse(why Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[why]++
}

// OfferTo says what the clients of a profile are offered. offer must not call the registry.
func (r *Registry) OfferTo(profile string, offer func() Offer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers[profile] = offer
}

// Status says what the clients do.
func (r *Registry) Status() Status {
	s, offers, copies := r.counts()
	for i, names := range copies {
		s.Sessions[i].Copies = names()
	}
	for _, offer := range offers {
		s.Offers = append(s.Offers, offer())
	}
	slices.SortFunc(s.Offers, func(a, b Offer) int { return cmp.Compare(a.Profile, b.Profile) })
	return s
}

// counts returns the functions to be called without the lock; copies by the index of the session.
func (r *Registry) counts() (s Status, offers []func() Offer, copies map[int]func() []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(r.now())
	copies = map[int]func() []string{}
	s = Status{Total: len(r.byKey), InFlight: r.inFlight, Streams: r.streams, Requests: map[Outcome]int64{}, Refused: map[Refusal]int64{}, Offers: []Offer{}, Sessions: make([]SessionStatus, 0, min(len(r.byKey), maxListed))}
	for _, o := range Outcomes() {
		s.Requests[o] = r.requests[o]
	}
	for _, why := range Refusals() {
		s.Refused[why] = r.refused[why]
	}
	for _, active := range []bool{true, false} {
		for e := r.idle.Front(); e != nil && len(s.Sessions) < maxListed; e = e.Next() {
			if c := clientOf(e); c.isActiveLocked() == active {
				if c.copies != nil {
					copies[len(s.Sessions)] = c.copies
				}
				s.Sessions = append(s.Sessions, c.statusLocked())
			}
		}
	}
	if r.rest.session.InFlight+r.rest.session.Streams > 0 {
		s.Sessions = append(s.Sessions, r.rest.statusLocked())
	}
	for _, offer := range r.offers {
		offers = append(offers, offer)
	}
	return s, offers, copies
}

// TaskStatus is a task that a client has open. It does not have its id, which is a secret.
type TaskStatus struct {
	Server string `json:"server"`
	// Tool is empty if the task was made before the start of the gateway.
	Tool string `json:"tool,omitempty"`
	// State is the last one that the server reported, as "working".
	State string `json:"state"`
	// Since is when the gateway saw it first.
	Since time.Time `json:"since"`
}

// Task is a task that is counted. A nil *Task counts nothing.
type Task struct {
	client *Client
	status TaskStatus // guarded by the mutex of the registry
}

// OpenTask counts a task that works. It needs one [Task.End].
func (c *Client) OpenTask(server, tool string) *Task {
	if c == nil {
		return nil
	}
	t := &Task{client: c, status: TaskStatus{Server: strings.Clone(server), Tool: oneLine(tool), State: "working", Since: c.registry.now()}}
	c.registry.mu.Lock()
	defer c.registry.mu.Unlock()
	if c.tasks == nil {
		c.tasks = map[*Task]bool{}
	}
	c.tasks[t] = true
	return t
}

// SetState notes what the server has said.
func (t *Task) SetState(state string) {
	if t != nil {
		state = oneLine(state)
		t.client.update(func() { t.status.State = state })
	}
}

// End says that the task is no longer open. It may be called more than once.
func (t *Task) End() {
	if t != nil {
		t.client.update(func() { delete(t.client.tasks, t) })
	}
}

// oneLine is a text as it is shown.
func oneLine(text string) string {
	return strings.Clone(display.Prefix(display.Line(display.Prefix(text, 2*maxText)), maxText))
}

// statusLocked is what is shown of a client.
func (c *Client) statusLocked() SessionStatus {
	s := c.session
	s.Tasks, s.OpenTasks = len(c.tasks), make([]TaskStatus, 0, len(c.tasks))
	for t := range c.tasks {
		s.OpenTasks = append(s.OpenTasks, t.status)
	}
	slices.SortFunc(s.OpenTasks, func(a, b TaskStatus) int { return b.Since.Compare(a.Since) })
	s.OpenTasks = s.OpenTasks[:min(len(s.OpenTasks), maxTasks)]
	return s
}
