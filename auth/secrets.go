package auth

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
	// secretsKept is how many values are remembered beside those of the spec: old
	// tokens turn up in errors for a while.
	secretsKept = 48
)

// secrets are the values that no text may show. Safe for concurrent use.
type secrets struct {
	mu       sync.Mutex
	fixed    []string
	recent   []string
	replacer *strings.Replacer
}

// keep adds values for good, hide for a while.
func (s *secrets) keep(values ...string) { s.add(&s.fixed, values) }
func (s *secrets) hide(values ...string) { s.add(&s.recent, values) }

func (s *secrets) add(list *[]string, values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if len(v) >= secretLength && !slices.Contains(*list, v) {
			*list = append(*list, v)
			s.replacer = nil
		}
	}
	if n := len(s.recent); n > secretsKept {
		s.recent = slices.Delete(s.recent, 0, n-secretsKept)
	}
}

// replace returns a text without the secrets, in whichever form they travel.
func (s *secrets) replace(text string) string {
	s.mu.Lock()
	if s.replacer == nil {
		s.replacer = replacerOf(append(slices.Clone(s.fixed), s.recent...))
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
