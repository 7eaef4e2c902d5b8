package house

import (
	"bytes"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// bannedProse are words and turns that no comment, string, test name, page or
// CLI text uses, each with the words to write instead. The patterns match whole
// words in any case. docs/glossary.md lists the terms that the project adds to
// those of MCP, JSON-RPC, OTP and Go.
var bannedProse = map[string]string{
	`nobody|no one|no-one`:              "name the actor: no caller, no goroutine, no process",
	`whoever|whomever|whom`:             "name the actor",
	`somebody|someone|anybody|anyone`:   "name the actor: a caller, another process",
	`anew`:                              "again",
	`is none`:                           "say what it is not, or what is missing",
	`at hand`:                           "available",
	`tidings`:                           "event, message",
	`a person|the person|persons`:       "the user",
	`wish|wishes|wished`:                "request, desired",
	`roll call`:                         "reconcile request",
	`farewell`:                          "cancel grace",
	`lineage`:                           "process tag",
	`lifeline`:                          "lifetime",
	`headcount|census`:                  "scan",
	`bequeath\w*|heir|heirs`:            "propagate, parent",
	`casualties`:                        "lost calls",
	`zoo|zoos|creature|creatures`:       "hostile server",
	`saboteur|gust|gusts`:               "fault injector, round",
	`dead-letter office`:                "dead letters",
	`knock|knocks|knocked`:              "wake, wake message",
	`veil|veils|veiled`:                 "redact, redactor",
	`misstep|missteps`:                  "fault",
	`spare incarnation|spare server`:    "standby",
	`come by|comes by`:                  "get, obtain",
	`mend|mends|mended|mending`:         "fix, repair",
	`stands there twice`:                "is defined twice",
	`tells nothing`:                     "has no information",
	`in vain`:                           "without result",
	`henceforth|thereof|whereof|hereby`: "plain words",
}

// oldNames are identifiers of the code before its redesign. They match a word of
// a camelCase name in any case.
var oldNames = map[string]string{
	`bond|bonds`:                         "exchange, exchangeTable",
	`granter|reminds?`:                   "subscriptionReconciler, notifyPorts",
	`hearof|everstood`:                   "awaitAcks, everAcked",
	`hostmark`:                           "hostTag",
	`leftovers?`:                         "draining, leftBehind",
	`revive`:                             "RestartServer, EndSession",
	`tally`:                              "callStats",
	`doubts|faith|doubtful|misstep`:      "probeExits, maxProbeExits, eraUncertain, lastFault",
	`rung`:                               "fired",
	`noise`:                              "Malformed, Discarded",
	`hardmax`:                            "CallTotal, TotalTimeout",
	`habitat|habits`:                     "httpServer, handlers",
	`rage|hearer`:                        "run, subscriberFixture",
	`curtain|chronicle|painter`:          "the demo's printer and event log",
	`heard|told|said|tell|tells|telling`: "received, notified, message, notify",
	`desk`:                               "inbox",
	`bury|buries`:                        "awaitRelease",
	`unsure|verdicts`:                    "retryNeeded, errs",
	`enroll`:                             "registerClient",
}

// allowedWords are places where a banned word is right, each with its reason.
var allowedWords = []struct {
	path   string // a prefix
	word   string
	reason string
}{
	{"test/house/vocabulary_test.go", "", "the list itself"},
	{"CHANGELOG.md", "", "names what was replaced"},
	{"LICENSE", "", "a legal text"},
	{"mcptest/", "junk", "a fixture prints junk on purpose"},
	{"test/integration/", "junk", "a fixture prints junk on purpose"},
}

// TestWords reads the Go files, the pages and the golden files of the CLI.
func TestWords(t *testing.T) {
	type rule struct {
		pattern *regexp.Regexp
		instead string
	}
	compile := func(table map[string]string) (rules []rule) {
		for pattern, instead := range table {
			rules = append(rules, rule{regexp.MustCompile(`(?i)\b(` + pattern + `)\b`), instead})
		}
		return rules
	}
	prose, names := compile(bannedProse), compile(oldNames)
	prose = append(prose, rule{regexp.MustCompile(`\bof the \w+'s[.,;:)]`), "turn the chain around: the X of the Y"})
	var hits []string
	check := func(path string, line int, text string, rules []rule) {
		for _, r := range rules {
			for _, word := range r.pattern.FindAllString(text, -1) {
				if !allowedWord(path, word) {
					hits = append(hits, fmt.Sprintf("%s:%d: %q; write: %s", path, line, word, r.instead))
				}
			}
		}
	}
	read := 0
	for _, s := range texts(t) {
		read++
		if s.isGo() {
			eachToken(s, func(line int, tok token.Token, text string) {
				switch tok {
				case token.COMMENT, token.STRING:
					check(s.path, line, text, prose)
				case token.IDENT:
					words := strings.Join(camelWords(text), " ")
					check(s.path, line, words, prose)
					check(s.path, line, words, names)
				}
			})
			continue
		}
		for i, l := range strings.Split(string(s.text), "\n") {
			check(s.path, i+1, l, prose)
		}
	}
	require.Greater(t, read, 300, "the repository is read")
	slices.Sort(hits)
	require.Empty(t, strings.Join(hits, "\n"), "banned words; see docs/glossary.md")
}

// TestWordsFinds shows that the check sees what it is for.
func TestWordsFinds(t *testing.T) {
	require.Equal(t, []string{"tell", "Server", "HTTP", "Wish", "2"}, camelWords("tellServerHTTPWish2"))
	require.Equal(t, []string{"Test", "Bond", "refused", "late"}, camelWords("TestBond_refused_late"))
	require.False(t, allowedWord("facade/client.go", "nobody"))
}

func allowedWord(path, word string) bool {
	for _, a := range allowedWords {
		if strings.HasPrefix(path, a.path) && (a.word == "" || strings.EqualFold(a.word, word)) {
			return true
		}
	}
	return false
}

// texts are the sources, and the golden files that show what the CLI prints.
func texts(t *testing.T) []source {
	all := sources(t)
	err := filepath.WalkDir(filepath.Join(root, "cmd"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.ToSlash(path), "/testdata/") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		if err == nil && !bytes.ContainsRune(text, 0) {
			all = append(all, source{filepath.ToSlash(name), text})
		}
		return err
	})
	require.NoError(t, err)
	return all
}

// camelWords splits an identifier into its words.
func camelWords(name string) (words []string) {
	start := 0
	runes := []rune(name)
	cut := func(i int) {
		if i > start {
			words = append(words, string(runes[start:i]))
		}
		start = i
	}
	for i, r := range runes {
		switch {
		case r == '_':
			cut(i)
			start = i + 1
		case i == start:
		case unicode.IsDigit(r) && !unicode.IsDigit(runes[i-1]):
			cut(i)
		case unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			cut(i)
		}
	}
	cut(len(runes))
	return words
}
