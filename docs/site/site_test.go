package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// built is the text of each file of the site, by its path.
func built(t *testing.T) map[string]string {
	t.Helper()
	out := t.TempDir()
	require.NoError(t, build(root, out))
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		relative, _ := filepath.Rel(out, name)
		all[filepath.ToSlash(relative)] = string(text)
		return err
	}))
	return all
}

var (
	linked   = regexp.MustCompile(`<(a|img|source|link|script) [^>]*?(?:href|src|srcset)="([^"]*)"`)
	anchored = regexp.MustCompile(` id="([^"]*)"`)
)

// Each link of the site leads to a file and an anchor that it has, relative to its page, and each page can be reached
// from the first one. Nothing is loaded from elsewhere.
func TestLinks(t *testing.T) {
	all := built(t)
	seen, next := map[string]bool{"index.html": true}, []string{"index.html"}
	checked, images := 0, 0
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		for _, found := range linked.FindAllStringSubmatch(all[from], -1) {
			if strings.Contains(found[2], ":") {
				require.Equal(t, "a", found[1], "%s loads %s", from, found[2])
				continue
			}
			require.False(t, strings.HasPrefix(found[2], "/"), "%s links to %s, which is not below every path", from, found[2])
			to, anchor, _ := strings.Cut(found[2], "#")
			if to == "" {
				to = from
			} else {
				to = path.Join(path.Dir(from), to)
			}
			require.True(t, all[to] != "", "%s links to %s, which the site does not have", from, found[2])
			checked++
			if found[1] == "img" {
				images++
			}
			if anchor != "" {
				require.True(t, strings.Contains(all[to], ` id="`+anchor+`"`), "%s links to %s, which has no such heading", from, found[2])
			}
			if strings.HasSuffix(to, ".html") && !seen[to] {
				seen[to], next = true, append(next, to)
			}
		}
	}
	for name, text := range all {
		if strings.HasSuffix(name, ".html") {
			require.True(t, seen[name], "no path leads from the first page to %s: name it in %s", name, start)
			for _, image := range regexp.MustCompile(`<img [^>]*>`).FindAllString(text, -1) {
				require.Regexp(t, ` alt="[^"]`, image, "an image of %s has no text for those who do not see it", name)
			}
		}
		if strings.HasSuffix(name, ".css") {
			require.NotContains(t, text, "url(")
		}
	}
	require.Greater(t, checked, 1000)
	require.Greater(t, images, 5)
}

// The index of the search has each heading of each page, with an anchor that exists and the words below it.
func TestSearchKnowsEachHeading(t *testing.T) {
	all := built(t)
	script, found := strings.CutPrefix(all["search.js"], "const index = ")
	require.True(t, found)
	var index []struct{ Href, Page, Name, Words string }
	require.NoError(t, json.NewDecoder(strings.NewReader(script)).Decode(&index))
	known, words := map[string]bool{}, map[string]string{}
	for _, entry := range index {
		known[entry.Href] = true
		words[entry.Href] = entry.Words
		require.NotEmpty(t, entry.Name, entry.Href)
	}
	headings := regexp.MustCompile(`<h[1-6] id="([^"]*)"`)
	checked := 0
	for name, text := range all {
		for _, heading := range headings.FindAllStringSubmatch(text, -1) {
			checked++
			require.True(t, known[name+"#"+heading[1]], "%s#%s", name, heading[1])
		}
	}
	require.Equal(t, len(index), checked, "each entry is a heading")
	require.Greater(t, checked, 300)
	require.Contains(t, words["docs/config.html#keys-of-retry"], "max_attempts", "tables")
	require.Contains(t, words["docs/quickstart.html#4-run-it"], "go run .", "code")
}

// A link to a file that does not exist, an anchor that GitHub writes in another way, and HTML within a page.
func TestBuild(t *testing.T) {
	write := func(dir, name, text string) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	dir, out := t.TempDir(), t.TempDir()
	require.ErrorContains(t, build(dir, out), "has no docs/index.md")
	write(dir, "docs/index.md", "# Start\n\n## Part\n\n- [Other](other.md)\n- [The *source*](../x.go)\n")
	write(dir, "x.go", "package x\n")
	write(dir, "docs/other.md", "# `retry`, Ünd mehr!\n\n[a](missing.md)\n")
	require.ErrorContains(t, build(dir, out), "docs/other.md: it links to docs/missing.md, which does not exist")
	write(dir, "docs/adr/README.md", "# Decisions\n")
	write(dir, "docs/i.svg", "<svg/>")
	write(dir, "docs/other.md", "# `retry`, Ünd mehr!\n\n## Twice\n\n## Twice\n\n[a](adr) [b](#twice-1)\n\n<img alt=\"i\" src=\"i.svg\">\n")
	require.NoError(t, build(dir, out))
	text, err := os.ReadFile(filepath.Join(out, "docs", "other.html"))
	require.NoError(t, err)
	for _, want := range []string{`id="retry-ünd-mehr"`, `id="twice"`, `id="twice-1"`, `href="../docs/adr/README.html"`, `href="#twice-1"`,
		`src="../docs/i.svg"`, `<a href="../docs/other.html" aria-current="page">Other</a>`} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "x.go", "the navigation has pages only")
	text, err = os.ReadFile(filepath.Join(out, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(text), `href="`+files+`x.go"`)
	require.FileExists(t, filepath.Join(out, "docs", "i.svg"))
}

// The pictures are well-formed, are readable on dark and on light ground, and say in words what they show.
func TestPictures(t *testing.T) {
	for _, name := range []string{"processes", "crash", "demo"} {
		data, err := os.ReadFile(filepath.Join(root, "docs", "images", name+".svg"))
		require.NoError(t, err)
		decoder := xml.NewDecoder(strings.NewReader(string(data)))
		for {
			if _, err := decoder.Token(); err != nil {
				require.True(t, errors.Is(err, io.EOF), "%s: %v", name, err)
				break
			}
		}
		for _, want := range []string{"<title", "<desc", "prefers-color-scheme: dark"} {
			require.Contains(t, string(data), want, name)
		}
		ids := map[string]bool{}
		for _, id := range anchored.FindAllStringSubmatch(string(data), -1) {
			require.False(t, ids[id[1]], "%s has two elements %s", name, id[1])
			ids[id[1]] = true
		}
	}
}
