// Package elicited remembers which session was sent to a URL. When a server says that the interaction at
// the URL has ended, only that session is told. A Store has all of it, bounded by MaxOpen, MaxOfSession
// and WaitTime.
package elicited

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A server before 2026-07-28 that sends a user to a URL may say later that the interaction there has
// ended (MCP, client, elicitation, completion notifications). Since 2026-07-28 elicitations have no id,
// and there is no such notification.

const (
	// WaitTime is how long an interaction is remembered.
	WaitTime = time.Hour
	// MaxOpen bounds the interactions that are remembered. Beyond it the oldest interaction is forgotten
	// of the session with the most, among those of the principal with the most.
	MaxOpen = 1_000
	// MaxOfSession bounds the interactions of one session. Beyond it its oldest one is forgotten.
	MaxOfSession = 64
	// MaxIDBytes bounds an id. An interaction with a longer id is not remembered.
	MaxIDBytes = 256
)

// Session is a session before 2026-07-28 that a question or an error sends to a URL.
type Session struct {
	Key       any                        // comparable; the same for all connections of the session; nil: none
	Principal string                     // who opened the session; empty without tokens
	Gateway   any                        // comparable; the gateway of the session
	Client    *facade.Client             // its servers are registered there
	CopyOf    func(server string) string // the tenant whose copy of a server it uses; empty: a shared one
	Tell      func(server, id string)    // tells the session that an interaction has ended
}

// name identifies an interaction. A server uses an id once, but another copy of the server may use the
// same one.
type name struct {
	client *facade.Client // the server is registered there
	tenant string         // has the copy of the server; empty: sessions share the server
	server string
	id     string
}

func (s *Session) name(server, id string) name { return name{s.Client, s.CopyOf(server), server, id} }

// elicitation is an interaction at a URL.
type elicitation struct {
	session *Session
	id      string // the client knows it by this id
	several bool   // several sessions were asked under the same id, so that no session is told
	expires time.Time
}

// Store has the interactions that have not ended, for all gateways with the same settings. It follows
// each facade.Client whose shared servers have one. The zero value has none. Safe for concurrent use. No
// lock of a gateway is taken under its lock.
type Store struct {
	mu      sync.Mutex // guards the fields below
	open    map[name]*elicitation
	follows map[*facade.Client]func() // each function ends the following
}

// readID returns the id in the params of an elicitation by URL; empty if they have none that is
// remembered.
func readID(params json.RawMessage) (id string) {
	if string(jsonscan.Member(params, "mode")) != `"url"` { // the engine has read it
		return ""
	}
	if id, _ = jsonscan.ReadString(jsonscan.Member(params, "elicitationId")); len(id) > MaxIDBytes {
		return ""
	}
	return id
}

// Begin records that a session is asked with params. shown are the params for its client. Begin returns
// them, with another id if another server has asked the session under the same one. The caller calls
// undo if the session could not be asked.
func (s *Store) Begin(session *Session, server string, params, shown json.RawMessage) (asked json.RawMessage, undo func()) {
	undo = func() {}
	id := readID(params)
	if id == "" || session.Key == nil {
		return shown, undo
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	of := session.name(server, id)
	if before := s.open[of]; before != nil {
		if before.session.Key != session.Key {
			before.several = true
			return shown, undo
		}
		before.session, before.expires = session, time.Now().Add(WaitTime)
		if before.id != id {
			return jsonscan.ReplaceMember(shown, "elicitationId", jsonscan.Quote(before.id)), undo
		}
		return shown, undo
	}
	s.makeRoomLocked(session.Key)
	made := &elicitation{session: session, id: id, expires: time.Now().Add(WaitTime)}
	for _, other := range s.open {
		if other.session.Key == session.Key && other.id == id {
			made.id = rand.Text()
			shown = jsonscan.ReplaceMember(shown, "elicitationId", jsonscan.Quote(made.id))
			break
		}
	}
	if s.open == nil {
		s.open, s.follows = map[name]*elicitation{}, map[*facade.Client]func(){}
	}
	s.open[of] = made
	if of.tenant == "" && s.follows[session.Client] == nil {
		s.follows[session.Client] = s.Follow(session.Client, session.Client, "")
	}
	return shown, func() { s.forget(func(one *elicitation) bool { return one == made }) }
}

// Follow follows the copy of a tenant, until stop or the end of the copy. registered is the client with
// the server that it is a copy of. Only copies need a Follow.
func (s *Store) Follow(from, registered *facade.Client, tenant string) (stop func()) {
	return relay.Of(from).FollowElicitations(func(server, id string) {
		s.complete(name{registered, tenant, server, id})
	})
}

// makeRoomLocked forgets an interaction if the session, or the store, has too many for another one.
func (s *Store) makeRoomLocked(key any) {
	of, ofPrincipal := map[any]int{}, map[string]int{}
	for _, one := range s.open {
		of[one.session.Key]++
		ofPrincipal[one.session.Principal]++
	}
	own := of[key] >= MaxOfSession
	if !own && len(s.open) < MaxOpen {
		return
	}
	var first name
	var oldest *elicitation
	for n, one := range s.open {
		if own && one.session.Key != key {
			continue
		}
		if oldest == nil || cmp.Or(cmp.Compare(ofPrincipal[oldest.session.Principal], ofPrincipal[one.session.Principal]),
			cmp.Compare(of[oldest.session.Key], of[one.session.Key]), one.expires.Compare(oldest.expires)) < 0 {
			first, oldest = n, one
		}
	}
	delete(s.open, first)
}

// codeURLRequired is the code of an error that names interactions: without them the server cannot serve
// the request.
const codeURLRequired = -32042

// maxNamed bounds the interactions of one error that are remembered.
const maxNamed = 64

// BeginRequired records the interactions that an error of a server names.
func (s *Store) BeginRequired(session *Session, err error) {
	var wire *jsonrpc.Error
	var of *mcpvisor.Error
	if !errors.As(err, &wire) || wire.Code != codeURLRequired || !errors.As(err, &of) || session.Key == nil {
		return
	}
	named := 0
	jsonscan.EachItem(jsonscan.Member(wire.Data, "elicitations"), func(item []byte) bool { // it is valid JSON, or has no members
		if shown, undo := s.Begin(session, of.Server, item, item); !bytes.Equal(shown, item) {
			undo() // another server has the id, and the error is passed on as it is
		}
		named++
		return named < maxNamed
	})
}

// complete tells the session whose interaction has ended.
func (s *Store) complete(of name) {
	s.mu.Lock()
	one := s.open[of]
	if one == nil {
		s.mu.Unlock()
		return
	}
	delete(s.open, of)
	stop := s.restLocked()
	s.mu.Unlock()
	stop()
	if !one.several && time.Now().Before(one.expires) {
		one.session.Tell(of.server, one.id)
	}
}

func (s *Store) expireLocked() {
	now := time.Now()
	for of, one := range s.open {
		if !now.Before(one.expires) {
			delete(s.open, of)
		}
	}
}

// ForgetSession forgets the interactions of a session that has ended for good. A session over HTTP may
// outlive its connection.
func (s *Store) ForgetSession(key any) {
	s.forget(func(one *elicitation) bool { return one.session.Key == key })
}

// ForgetGateways forgets the interactions of all sessions of the gateways that which selects.
func (s *Store) ForgetGateways(which func(gateway any) bool) {
	s.forget(func(one *elicitation) bool { return which(one.session.Gateway) })
}

// Len returns the number of open interactions, and of the clients that are followed because of them.
func (s *Store) Len() (open, followed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.follows)
}

func (s *Store) forget(which func(*elicitation) bool) {
	s.mu.Lock()
	maps.DeleteFunc(s.open, func(_ name, one *elicitation) bool { return which(one) })
	stop := s.restLocked()
	s.mu.Unlock()
	stop()
}

// restLocked returns a function that stops the following of clients without an open interaction.
func (s *Store) restLocked() (stop func()) {
	rest := maps.Clone(s.follows)
	for of := range s.open {
		if of.tenant == "" {
			delete(rest, of.client)
		}
	}
	for client := range rest {
		delete(s.follows, client)
	}
	return func() {
		for _, end := range rest {
			end()
		}
	}
}
