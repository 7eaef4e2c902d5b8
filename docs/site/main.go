// Command site renders the pages of this repository as a static site: main files of the root, docs and deploy. It
// needs no network, neither when it is made nor when it is read, and works from a folder and below any path.
//
//	go run . -out DIRECTORY
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// start is the page that the site begins with. Its headings and the links below them are the navigation.
const start = "docs/index.md"

// files leads to what the pages link to and the site does not have, such as sources.
const files = "https://github.com/mcpvisor/mcpvisor/blob/main/"

var (
	//go:embed page.html
	frame string
	//go:embed style.css
	style []byte
	//go:embed search.js
	search []byte

	layout   = template.Must(template.New("page").Parse(frame))
	patterns = []string{"*.md", "docs/*.md", "docs/adr/*.md", "deploy/*.md"}
	markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
)

func main() {
	root := flag.String("root", "../..", "the repository")
	out := flag.String("out", "", "the `directory` that the site is written to")
	flag.Parse()
	if *out == "" {
		fmt.Fprintln(os.Stderr, "site: name a directory for the site, as in -out site")
		os.Exit(2)
	}
	if err := build(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// A page is one file of Markdown. Paths begin at the root of the repository, and have slashes.
type page struct {
	path, Title string
	source      []byte
	doc         ast.Node
	headings    []heading
}

// heading is a heading with the text below it, up to the next heading.
type heading struct {
	level          int
	id, name, text string
	links          []link // those in lists
}

type link struct{ to, name string }

// section is a part of the navigation.
type section struct {
	Name  string
	Links []entry
}

type entry struct {
	Href, Name string
	Here       bool
}

// found is one heading in the index of the search.
type found struct {
	Href  string `json:"href"`
	Page  string `json:"page"`
	Name  string `json:"name"`
	Words string `json:"words"`
}

// site is what one build knows.
type site struct {
	root, out string
	pages     map[string]*page
	images    map[string]bool
}

// build renders all pages of the repository at root into the directory out. A link to a file that does not exist is
// an error.
func build(root, out string) error {
	s := &site{root, out, map[string]*page{}, map[string]bool{}}
	var order []*page
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			p, err := s.read(name)
			if err != nil {
				return err
			}
			s.pages[p.path] = p
			order = append(order, p)
		}
	}
	if s.pages[start] == nil {
		return fmt.Errorf("%s has no %s: -root names the repository", root, start)
	}
	var index []found
	for _, p := range order {
		if err := s.write(p); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		for _, h := range p.headings {
			index = append(index, found{target(p.path) + "#" + h.id, p.Title, h.name, h.text})
		}
	}
	// A page that is opened as a file may not fetch JSON, so the index is a script.
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := s.save("search.js", fmt.Appendf(nil, "const index = %s;\n%s", data, search)); err != nil {
		return err
	}
	for image := range s.images {
		data, err := os.ReadFile(filepath.Join(root, image))
		if err != nil {
			return err
		}
		if err := s.save(image, data); err != nil {
			return err
		}
	}
	return s.save("style.css", style)
}

func (s *site) read(name string) (*page, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(s.root, name)
	if err != nil {
		return nil, err
	}
	p := &page{path: filepath.ToSlash(relative), source: source}
	p.Title = p.path
	p.doc = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids{}))))
	err = ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			p.headings = append(p.headings, heading{level: h.Level, id: string(id.([]byte)), name: plain(h, source)})
			return ast.WalkSkipChildren, nil
		}
		if len(p.headings) == 0 {
			return ast.WalkContinue, nil
		}
		last := &p.headings[len(p.headings)-1]
		switch n := n.(type) {
		case *ast.Link:
			if _, inList := n.Parent().Parent().(*ast.ListItem); inList {
				last.links = append(last.links, link{string(n.Destination), plain(n, source)})
			}
		case *ast.FencedCodeBlock:
			last.text += " " + string(n.Lines().Value(source))
		case *ast.Text:
			last.text += string(n.Segment.Value(source))
			if n.SoftLineBreak() {
				last.text += " "
			}
		default:
			if n.Type() == ast.TypeBlock {
				last.text += " "
			}
		}
		return ast.WalkContinue, nil
	})
	if len(p.headings) > 0 {
		p.Title = p.headings[0].name
	}
	return p, err
}

// write renders a page into the frame of the site.
func (s *site) write(p *page) error {
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.doc); err != nil {
		return err
	}
	content, err := s.resolve(p.path, body.String())
	if err != nil {
		return err
	}
	up := strings.Repeat("../", strings.Count(target(p.path), "/"))
	var nav []section
	for _, h := range s.pages[start].headings {
		part := section{Name: h.name}
		for _, l := range h.links {
			to, _, _ := strings.Cut(path.Join(path.Dir(start), l.to), "#")
			if s.pages[to] == nil {
				continue
			}
			part.Links = append(part.Links, entry{up + target(to), l.name, to == p.path})
		}
		if len(part.Links) > 0 {
			nav = append(nav, part)
		}
	}
	var contents []entry
	for _, h := range p.headings {
		if h.level == 2 {
			contents = append(contents, entry{Href: "#" + h.id, Name: h.name})
		}
	}
	var out bytes.Buffer
	err = layout.Execute(&out, map[string]any{
		"Title": p.Title, "Up": up, "Nav": nav, "Contents": contents, "Body": template.HTML(content), //nolint:gosec // pages of this repository
	})
	if err != nil {
		return err
	}
	return s.save(target(p.path), out.Bytes())
}

// references are the attributes that lead to another file, also in HTML that a page contains.
var references = regexp.MustCompile(`(<(?:a|img|source) [^>]*?)(href|srcset|src)="([^"]*)"`)

// resolve makes the links of a page relative within the site.
func (s *site) resolve(from, content string) (string, error) {
	var missing []string
	up := strings.Repeat("../", strings.Count(target(from), "/"))
	content = references.ReplaceAllStringFunc(content, func(match string) string {
		parts := references.FindStringSubmatch(match)
		to, anchor, _ := strings.Cut(parts[3], "#")
		if to == "" || strings.Contains(to, ":") {
			return match
		}
		to = path.Join(path.Dir(from), to)
		if s.pages[to+"/README.md"] != nil {
			to += "/README.md"
		}
		_, err := os.Stat(filepath.Join(s.root, to))
		switch {
		case err != nil:
			missing = append(missing, to)
		case s.pages[to] != nil:
			to = up + target(to)
		case parts[2] != "href":
			s.images[to] = true
			to = up + to
		default:
			to = files + to
		}
		if anchor != "" {
			to += "#" + anchor
		}
		return parts[1] + parts[2] + `="` + to + `"`
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("it links to %s, which does not exist", strings.Join(missing, ", "))
	}
	return content, nil
}

func (s *site) save(name string, data []byte) error {
	name = filepath.Join(s.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644) //nolint:gosec // a site is for all
}

// target is where the site has a page.
func target(page string) string {
	if page == start {
		return "index.html"
	}
	return strings.TrimSuffix(page, ".md") + ".html"
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// ids gives headings the anchors that GitHub gives them, so that links work in both places.
type ids map[string]int

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

func (i ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	i[id]++
	if n := i[id]; n > 1 {
		id = fmt.Sprintf("%s-%d", id, n-1)
	}
	return []byte(id)
}

func (i ids) Put(value []byte) { i[string(value)]++ }
