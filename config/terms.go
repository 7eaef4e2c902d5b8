package config

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// keyTerms replaces the names of fields of mcpvisor.ServerSpec in a text by the
// keys that set them: "raise Timeouts.Call" becomes `raise "call" in "timeouts"`.
// Errors of the library name fields, for programs. A host that reads a file shows
// its user the keys instead.
//
// It replaces the path of a field of ServerSpec ("Timeouts.Call", "ServerSpec.Standby"), and also
// the last part alone if that has several words ("ClientSecret").
func keyTerms(text string) string {
	t := fieldTerms()
	return t.names.ReplaceAllStringFunc(text, func(field string) string {
		return t.keys[strings.TrimPrefix(field, "ServerSpec.")]
	})
}

// terms are the replacements that keyTerms makes.
type terms struct {
	names *regexp.Regexp
	keys  map[string]string // quoted, by the name of the field
}

// fieldTerms makes the replacements from the table of keys, once.
var fieldTerms = sync.OnceValue(func() terms {
	t := terms{keys: map[string]string{}}
	add := func(name, key string) (added bool) {
		if _, known := t.keys[name]; !known { // the first key of a field is its own
			t.keys[name], added = quoteKey(key), true
		}
		return added
	}
	var paths, last []string
	for _, k := range keys() {
		if k.Field == "" {
			continue
		}
		dot := strings.LastIndexByte(k.Field, '.')
		if add(k.Field, k.Name) {
			path := regexp.QuoteMeta("ServerSpec." + k.Field)
			if dot >= 0 {
				path = `(?:ServerSpec\.)?` + regexp.QuoteMeta(k.Field)
			}
			paths = append(paths, path)
		}
		if name := k.Field[dot+1:]; hasSeveralWords(name) && add(name, k.Name) {
			last = append(last, name)
		}
	}
	// The first alternative that matches wins, so longer names come first.
	alternatives := append(longestFirst(paths), longestFirst(last)...)
	t.names = regexp.MustCompile(`\b(?:` + strings.Join(alternatives, "|") + `)\b`)
	return t
})

// hasSeveralWords reports whether a name is written in camel case. One word alone
// may be an ordinary word of the text.
func hasSeveralWords(name string) bool {
	capitals := 0
	for _, r := range name {
		if unicode.IsUpper(r) {
			capitals++
		}
	}
	return capitals > 1 && capitals < len(name)
}

// quoteKey writes the name of a key as a reader of the file looks for it.
func quoteKey(name string) string {
	parts := strings.Split(name, ".")
	slices.Reverse(parts)
	return `"` + strings.Join(parts, `" in "`) + `"`
}

func longestFirst(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	return names
}
