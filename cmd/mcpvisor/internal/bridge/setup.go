package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/envelope"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/linereader"
)

// list is a list that the host has read last, as far as it has.
type list struct {
	line   []byte           // the request for the first page
	digest canonical.Digest // of the pages, one after the other
	pages  int
}

func (l *list) add(result []byte) {
	page := canonical.Sum(result)
	l.digest = sha256.Sum256(append(l.digest[:], page[:]...))
	l.pages++
}

// listKinds has, by method, the notification that a list has changed, and the member of subscriptions/listen
// that asks for it.
var listKinds = map[string]struct{ notification, filter string }{
	"tools/list":               {"notifications/tools/list_changed", "toolsListChanged"},
	"prompts/list":             {"notifications/prompts/list_changed", "promptsListChanged"},
	"resources/list":           {"notifications/resources/list_changed", "resourcesListChanged"},
	"resources/templates/list": {"notifications/resources/list_changed", "resourcesListChanged"},
}

// maxSubscriptions and maxSubscriptionBytes bound the subscriptions that are remembered. A gateway accepts no
// more of them by default.
const (
	maxSubscriptions     = 1000
	maxSubscriptionBytes = 16 << 20
)

// noteLocked remembers what the host sets up.
func (b *bridge) noteLocked(m message) {
	switch m.method {
	case "initialize":
		b.initialize = m.line
	case "notifications/initialized":
		b.initialized = m.line
	case "resources/unsubscribe":
		b.forgetLocked(uriOf(m.params))
	}
	if _, ok := listKinds[m.method]; ok && jsonscan.Member(m.params, "cursor") == nil {
		b.lists[m.method] = &list{line: m.line}
	}
}

// noteAnswerLocked remembers what the host has set up with r, or the list that it has read, when the
// answer comes.
func (b *bridge) noteAnswerLocked(r *request, answer message) {
	if answer.result == nil {
		return
	}
	switch r.method {
	case "initialize":
		b.established = true
	case "logging/setLevel":
		b.level = r.line
	case "resources/subscribe":
		if r.line == nil { // there was no room to keep it
			return
		}
		uri := uriOf(r.params)
		b.forgetLocked(uri)
		if len(b.subscriptions) < maxSubscriptions && b.subscriptionBytes+len(r.line) <= maxSubscriptionBytes {
			b.subscriptions[uri] = r.line
			b.subscriptionBytes += len(r.line)
		}
	case "resources/unsubscribe": // the subscription may have been accepted after noteLocked
		b.forgetLocked(uriOf(r.params))
	}
	if l := b.lists[r.method]; l != nil && (jsonscan.Member(r.params, "cursor") != nil) == (l.pages > 0) {
		l.add(answer.result)
	}
}

func (b *bridge) forgetLocked(uri string) {
	b.subscriptionBytes -= len(b.subscriptions[uri])
	delete(b.subscriptions, uri)
}

// uriOf returns the URI in params, in memory of its own.
func uriOf(params []byte) string {
	uri, _ := jsonscan.ReadString(jsonscan.Member(params, "uri")) // empty if it is no text
	return strings.Clone(uri)
}

// nextIDLocked returns an id that no other request of the bridge has.
func (b *bridge) nextIDLocked() []byte {
	b.next++
	return fmt.Appendf(nil, `"mcpvisor-%d"`, b.next)
}

// setUp repeats on a new connection what the host has set up. The answers are not passed on. If the host
// still waits for the answer to initialize, setUp does nothing, and flush sends the request. Each
// resource that the host has subscribed to counts as updated: it may have changed while there was no
// connection. refused are the subscriptions that the connection has refused: their servers may not be
// ready yet.
func (b *bridge) setUp(l *link, lines *linereader.Reader) (refused []string, err error) {
	b.mu.Lock()
	initialize, initialized, level := b.initialize, b.initialized, b.level
	subscriptions := maps.Clone(b.subscriptions)
	established := b.established
	b.mu.Unlock()
	if !established {
		return nil, nil
	}
	if _, err := b.exchange(l, lines, initialize); err != nil {
		return nil, err
	}
	if initialized != nil {
		if _, err := l.write(initialized); err != nil {
			return nil, err
		}
		l.initialized = true
	}
	if level != nil {
		if _, err := b.exchange(l, lines, level); err != nil {
			return nil, err
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(subscriptions)) {
		accepted, err := b.exchange(l, lines, subscriptions[uri])
		switch {
		case err != nil:
			return nil, err
		case accepted:
			b.tellUpdated(uri, nil)
		default:
			refused = append(refused, uri)
		}
	}
	return refused, nil
}

// subscribePause is the wait before a refused subscription is requested again.
var subscribePause = backoff.Backoff{First: time.Second, Max: time.Minute}

// subscribeAgain requests the refused subscriptions again until the connection accepts them, the host
// ends them, or ctx ends.
func (b *bridge) subscribeAgain(ctx context.Context, l *link, refused []string) {
	pause := time.Duration(0)
	for len(refused) > 0 {
		pause = subscribePause.Next(pause)
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
		refused = slices.DeleteFunc(refused, func(uri string) bool { return b.subscribe(ctx, l, uri) })
	}
}

// subscribe requests a subscription of the host again. done says that no further request is needed: the
// connection has accepted it, or the host has ended it.
func (b *bridge) subscribe(ctx context.Context, l *link, uri string) (done bool) {
	b.mu.Lock()
	m, err := parseObject(bytes.TrimSpace(b.subscriptions[uri]))
	if err != nil { // the host has ended it; it was read before
		b.mu.Unlock()
		return true
	}
	accepted := make(chan bool, 1)
	r := b.ownLocked(l, m, func(answer message) { accepted <- answer.result != nil })
	b.mu.Unlock()
	b.send(l, r)
	select {
	case done = <-accepted:
		if done {
			b.tellUpdated(uri, nil)
		}
	case <-ctx.Done():
	}
	return done
}

// ownLocked makes a request of the bridge from a message of the host. own gets the answer, if there is one.
func (b *bridge) ownLocked(l *link, m message, own func(answer message)) *request {
	m.id = b.nextIDLocked()
	m.line = m.withID(m.id)
	r := &request{message: m, link: l, own: own}
	b.addLocked(r)
	return r
}

// tellUpdated tells the host that a resource was updated. listen is the id of the subscriptions/listen that
// reports it; nil in a session before 2026-07-28.
func (b *bridge) tellUpdated(uri string, listen []byte) {
	quoted, _ := json.Marshal(uri) // a string always marshals
	meta := ""
	if listen != nil {
		meta = fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s},`, listen)
	}
	b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{%s"uri":%s}}`+"\n", meta, quoted))
}

// tellListenUpdated tells the host that all resources of a repeated subscriptions/listen were updated. params
// are those of its acknowledgement.
func (b *bridge) tellListenUpdated(params []byte) {
	var acknowledged struct {
		Meta struct {
			ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
		Notifications struct {
			URIs []string `json:"resourceSubscriptions"`
		}
	}
	if json.Unmarshal(params, &acknowledged) != nil {
		return
	}
	for _, uri := range acknowledged.Notifications.URIs {
		b.tellUpdated(uri, acknowledged.Meta.ID)
	}
}

// exchange sends a request of the host again, and reports whether its answer is a result. Meanwhile other
// messages are handled as usual: the connection may ask a question before it answers.
func (b *bridge) exchange(l *link, lines *linereader.Reader, line []byte) (accepted bool, err error) {
	request, err := parseObject(bytes.TrimSpace(line))
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	id := b.nextIDLocked()
	b.mu.Unlock()
	if _, err := l.write(request.withID(id)); err != nil {
		return false, err
	}
	for {
		line, err := lines.Next()
		if err != nil {
			return false, err
		}
		messages, refusals := parse(line)
		if len(refusals) > 0 {
			return false, refusals[0].why
		}
		answered := false
		for _, m := range messages {
			if m.method == "" && bytes.Equal(m.id, id) {
				answered, accepted = true, m.result != nil
			} else {
				b.fromLink(l, m)
			}
		}
		if answered {
			return accepted, nil
		}
	}
}

// flush makes a connection that is set up the current one, and sends the requests that wait.
func (b *bridge) flush(l *link) {
	b.mu.Lock()
	b.pending = nil
	if l.draining {
		b.mu.Unlock()
		return
	}
	b.current = l
	var waiting []*request
	for _, r := range b.requests {
		if r.link == nil {
			r.link = l
			if r.expiry != nil {
				r.expiry.Stop()
			}
			waiting = append(waiting, r)
		}
	}
	var own []*request
	if l.number > 1 {
		own = b.compareListsLocked(l) // before the answer to a waiting request replaces the digest
	}
	var initialized []byte // setUp could not send it: it came later, or before there was a connection
	if !l.initialized {
		initialized = b.initialized
	}
	established := b.established
	b.mu.Unlock()
	tellInitialized := func() {
		if initialized != nil {
			_, _ = l.write(initialized) // a connection that has ended has no use for it
		}
	}
	if established {
		tellInitialized()
	}
	slices.SortFunc(waiting, bySeq)
	for _, r := range append(waiting, own...) {
		if b.send(l, r); r.method == "initialize" {
			tellInitialized()
		}
	}
}

// compareListsLocked makes requests for the lists that the host has read. Their answers tell the host
// which lists have changed.
func (b *bridge) compareListsLocked(l *link) (own []*request) {
	for method, before := range b.lists {
		if before.pages > 0 {
			own = append(own, b.comparePageLocked(l, method, *before, list{line: before.line}))
		}
	}
	return own
}

// comparePageLocked makes a request for the next page of a list. now has the pages so far. After the page that the
// host has read last, the host is told if they differ.
func (b *bridge) comparePageLocked(l *link, method string, before, now list) *request {
	m, _ := parseObject(bytes.TrimSpace(now.line)) // it was read before
	return b.ownLocked(l, m, func(answer message) {
		if answer.result == nil {
			return
		}
		now.add(answer.result)
		cursor := jsonscan.Member(answer.result, "nextCursor")
		if now.pages == before.pages || cursor == nil {
			if now.digest != before.digest {
				b.tellChanged(method)
			}
			return
		}
		now.line = withCursor(before.line, cursor)
		b.mu.Lock()
		next := b.comparePageLocked(l, method, before, now)
		b.mu.Unlock()
		b.send(l, next)
	})
}

// tellChanged tells the host that a list has changed: since 2026-07-28 in each subscriptions/listen that has
// asked for it (MCP, basic, subscriptions).
func (b *bridge) tellChanged(method string) {
	kind := listKinds[method]
	b.mu.Lock()
	legacy := b.established
	var listens [][]byte
	for _, r := range b.requests {
		if r.method == "subscriptions/listen" && asksFor(r.params, kind.filter) {
			listens = append(listens, r.id)
		}
	}
	b.mu.Unlock()
	if legacy {
		b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`+"\n", kind.notification))
	}
	for _, id := range listens {
		b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`+"\n", kind.notification, id))
	}
}

// asksFor reports whether the params of subscriptions/listen ask for a kind of notifications.
func asksFor(params []byte, filter string) bool {
	return string(jsonscan.Member(jsonscan.Member(params, "notifications"), filter)) == "true"
}

// isRepeatedListen reports whether the host has already had the acknowledgement of this subscriptions/listen.
func (b *bridge) isRepeatedListen(m message) (repeated bool) {
	id := jsonscan.Member(jsonscan.Member(m.params, "_meta"), "io.modelcontextprotocol/subscriptionId")
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.requests[envelope.Key(id)]; r != nil {
		repeated, r.acknowledged = r.acknowledged, true
	}
	return repeated
}
