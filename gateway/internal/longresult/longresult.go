// Package longresult shortens the text in results of tools. A Store keeps the whole texts for 10
// minutes, at most 64 MiB for one principal and 256 MiB for all.
package longresult

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

const (
	// ttl is how long the text of a shortened result is kept.
	ttl = 10 * time.Minute
	// maxKept and maxOfPrincipal bound the texts that are kept, in bytes: all of them, and those of one principal.
	maxKept        = 256 << 20
	maxOfPrincipal = 64 << 20
	// Scheme is the beginning of the URIs of such texts. They look like resources of a server called Server.
	Scheme = "mcpvisor://" + Server + "/"
	// Server is the name of that server.
	Server = "result"
)

// Store keeps the texts of results that were shortened. Safe for concurrent use.
type Store struct {
	ttl                     time.Duration // read only
	bound, boundOfPrincipal int           // read only
	// hold also counts the bytes of a principal, and reports false if there is no room for them. Negative bytes are
	// given back. Read only.
	hold   func(principal string, bytes int) bool
	mu     sync.Mutex          // guards the fields below
	of     map[string]*results // by principal
	bytes  int
	expiry *time.Timer // fires when the oldest text expires; nil without texts
}

// results are the texts of one principal, oldest first.
type results struct {
	kept  []keptResult
	bytes int
}

type keptResult struct {
	owner string // may read it
	id    string
	tool  string
	text  []byte // as JSON, with its quotes
	until time.Time
}

// New returns an empty store.
func New(hold func(principal string, bytes int) bool) *Store {
	return &Store{hold: hold, ttl: ttl, bound: maxKept, boundOfPrincipal: maxOfPrincipal, of: map[string]*results{}}
}

// add keeps a text, and returns its id. It reports false if the text is too long.
func (s *Store) add(by, tool string, text []byte) (id string, ok bool) {
	if len(text) > s.boundOfPrincipal || len(text) > s.bound {
		return "", false
	}
	id, text = rand.Text(), bytes.Clone(text) // the text shares the memory of the result
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.expireLocked(now)
	principal := owner.Principal(by)
	o := s.of[principal]
	for !s.hold(principal, len(text)) {
		if o == nil || len(o.kept) == 0 {
			return "", false
		}
		s.dropLocked(principal, o, 1)
	}
	if o == nil || len(o.kept) == 0 { // dropLocked has forgotten it
		o = &results{}
		s.of[principal] = o
	}
	o.kept = append(o.kept, keptResult{by, id, tool, text, now.Add(s.ttl)})
	o.bytes += len(text)
	s.bytes += len(text)
	for o.bytes > s.boundOfPrincipal {
		s.dropLocked(principal, o, 1)
	}
	for s.bytes > s.bound {
		most := owner.Largest(s.of, func(other string, of *results) int {
			if other == principal { // its newest text does not count
				return of.bytes - len(text)
			}
			return of.bytes
		})
		s.dropLocked(most, s.of[most], 1)
	}
	if s.expiry == nil {
		s.expiry = time.AfterFunc(s.ttl, s.expire)
	}
	return id, true
}

// dropLocked drops the n oldest texts of a principal.
func (s *Store) dropLocked(principal string, o *results, n int) {
	for _, one := range o.kept[:n] {
		s.hold(principal, -len(one.text))
		o.bytes -= len(one.text)
		s.bytes -= len(one.text)
	}
	if o.kept = slices.Delete(o.kept, 0, n); len(o.kept) == 0 {
		delete(s.of, principal)
	}
}

// expire drops the texts that have expired, and sets the timer for the next one.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(time.Now())
	s.expiry = nil
	var next time.Time
	for _, o := range s.of {
		if until := o.kept[0].until; next.IsZero() || until.Before(next) {
			next = until
		}
	}
	if !next.IsZero() {
		s.expiry = time.AfterFunc(time.Until(next), s.expire)
	}
}

func (s *Store) expireLocked(now time.Time) {
	for principal, o := range s.of {
		n := 0
		for n < len(o.kept) && !now.Before(o.kept[n].until) {
			n++
		}
		if n > 0 {
			s.dropLocked(principal, o, n)
		}
	}
}

// Get returns a text that an owner may read.
func (s *Store) Get(by, id string) (text []byte, tool string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[owner.Principal(by)]
	if o == nil {
		return nil, "", false
	}
	i := slices.IndexFunc(o.kept, func(one keptResult) bool { return one.id == id && one.owner == by })
	if i < 0 || !time.Now().Before(o.kept[i].until) {
		return nil, "", false
	}
	return o.kept[i].text, o.kept[i].tool, true
}

// Cut says how a result is shortened.
type Cut struct {
	Owner string // may read the whole text
	Tool  string // returned by Get
	Shown string // the name by which the client knows the tool
	Links bool   // the version of the client has links to resources
	Limit int    // bounds the text, in bytes; 0: the result is not shortened
}

// Shorten shortens the text in the result of a tool to c.Limit, keeps the whole text, and adds a link to
// it. The rest of the result is unchanged.
func (s *Store) Shorten(c Cut, result json.RawMessage) json.RawMessage {
	limit := c.Limit
	if limit <= 0 || len(result) <= limit {
		return result
	}
	total := 0
	eachText(result, func(text []byte) { total += len(text) - len(`""`) })
	if total <= limit {
		return result
	}
	return jsonscan.Edit(result, func(key string, value []byte) []byte { // the client has checked it
		if key != "content" {
			return value
		}
		short := append(make([]byte, 0, max(len(value)-total, 0)+limit+1024), '[')
		jsonscan.EachItem(value, func(item []byte) bool {
			text := textLiteral(item)
			if n := len(text) - len(`""`); text == nil || n <= limit {
				limit -= max(n, 0)
				short = append(appendComma(short), item...)
				return true
			}
			id, kept := s.add(c.Owner, c.Tool, text)
			if !kept {
				short = append(appendComma(short), item...)
				return true
			}
			if head := cutLiteral(text, limit); head != nil {
				limit = 0
				short = append(appendComma(short), jsonscan.ReplaceMember(item, "text", head)...)
			}
			short = append(appendComma(short), c.linkTo(id, text)...)
			return true
		})
		return append(short, ']')
	})
}

// eachText calls f for each text in the content of a result.
func eachText(result []byte, f func(text []byte)) {
	jsonscan.EachItem(jsonscan.Member(result, "content"), func(item []byte) bool { // the client has checked it
		if text := textLiteral(item); text != nil {
			f(text)
		}
		return true
	})
}

// appendComma separates an item of a list from the one before it.
func appendComma(b []byte) []byte {
	if b[len(b)-1] == '[' {
		return b
	}
	return append(b, ',')
}

// textLiteral returns the JSON string of a text item of the content; nil if the item is no text.
func textLiteral(item []byte) (text []byte) {
	text = jsonscan.Member(item, "text")
	if string(jsonscan.Member(item, "type")) != `"text"` || len(text) == 0 || text[0] != '"' {
		return nil
	}
	return text
}

// cutLiteral returns the beginning of a JSON string, of at most limit bytes without its quotes. It does
// not cut within a character. nil: no character fits.
func cutLiteral(text []byte, limit int) []byte {
	const quote = len(`"`)
	end := quote
	for end < len(text)-quote {
		_, step := utf8.DecodeRune(text[end:])
		if text[end] == '\\' {
			step = escapeBytes(text[end:])
		}
		if end+step-quote > limit {
			break
		}
		end += step
	}
	if end == quote {
		return nil
	}
	return append(slices.Clone(text[:end]), '"')
}

// escapeBytes returns the length of the escape at the beginning of text. A surrogate pair counts as one
// escape.
func escapeBytes(text []byte) int {
	const one, unicode = len(`\n`), len(`\ud83d`)
	if text[1] != 'u' {
		return one
	}
	if len(text) > 2*unicode && strings.ContainsRune("dD", rune(text[2])) && strings.ContainsRune("89abAB", rune(text[3])) && text[unicode] == '\\' && text[unicode+1] == 'u' {
		return 2 * unicode
	}
	return unicode
}

// linkTo returns the item that links the whole text. Versions before 2025-06-18 have no links: they get
// a text.
func (c Cut) linkTo(id string, literal []byte) []byte {
	uri := Scheme + id
	whole, _ := jsonscan.ReadString(literal)
	about := fmt.Sprintf("All %d bytes of a text that was shortened here. It can be read for %v.", len(whole), ttl)
	var item any = struct {
		Type        string `json:"type"`
		URI         string `json:"uri"`
		Name        string `json:"name"`
		Description string `json:"description"`
		MIMEType    string `json:"mimeType"`
		Size        int    `json:"size"`
	}{"resource_link", uri, "result of " + c.Shown, about, "text/plain", len(whole)}
	if !c.Links {
		item = struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", about + " Read the resource " + uri}
	}
	text, err := message.Result(item, false)
	if err != nil { // texts can be encoded
		return []byte("{}")
	}
	return text
}
