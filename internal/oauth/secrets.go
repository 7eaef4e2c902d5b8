package oauth

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
)

const (
	// secretLength is the shortest value that is hidden: a shorter one would hide
	// half of a text instead.
	secretLength = 6
	// secretsKept is how many values are remembered beside those of the spec and
	// those at hand: old tokens turn up in errors for a while.
	secretsKept = 48
)

// secrets are the values that no text may show. Safe for concurrent use.
type secrets struct {
	mu       sync.Mutex
	fixed    []string // the spec's
	current  []string // those at hand
	recent   []string
	replacer *strings.Replacer
}

// keep adds values for good, hide for a while: until there are many later ones.
func (s *secrets) keep(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixed = append(s.fixed, long(values)...)
	s.replacer = nil
}

func (s *secrets) hide(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addRecent(values)
}

// hold takes the place of the values that were held before, which are now
// hidden for a while.
func (s *secrets) hold(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.current
	s.current = long(values)
	s.addRecent(last)
}

func (s *secrets) addRecent(values []string) {
	for _, v := range long(values) {
		s.recent = append(slices.DeleteFunc(s.recent, func(old string) bool { return old == v }), v)
	}
	s.recent = slices.Delete(s.recent, 0, max(0, len(s.recent)-secretsKept))
	s.replacer = nil
}

func long(values []string) (all []string) {
	for _, v := range values {
		if len(v) >= secretLength {
			all = append(all, v)
		}
	}
	return all
}

// replace returns a text without the secrets, in whichever form they travel.
func (s *secrets) replace(text string) string {
	s.mu.Lock()
	if s.replacer == nil {
		s.replacer = replacerOf(slices.Concat(s.fixed, s.current, s.recent))
	}
	replacer := s.replacer
	s.mu.Unlock()
	return replacer.Replace(text)
}

func replacerOf(values []string) *strings.Replacer {
	var forms []string
	for _, v := range values {
		quoted, _ := json.Marshal(v) // a string always marshals
		inner := string(quoted[1 : len(quoted)-1])
		forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v), inner, strings.ReplaceAll(inner, "/", `\/`))
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	// The longest first: what is left of a secret is one too.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, "***")
	}
	return strings.NewReplacer(pairs...)
}

// clean hides secrets in an error. One that holds none stays what it is.
func (s *secrets) clean(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := s.replace(text); hidden != text {
		return errors.New(hidden)
	}
	return err
}
