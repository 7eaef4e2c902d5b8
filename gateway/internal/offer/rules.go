// Package offer says which part of the servers a gateway offers to some of its clients. Rules never
// change; a View keeps the chosen part of each server, one for each that is registered.
package offer

import (
	"iter"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Rules are a profile that is ready to be applied. nil offers everything.
type Rules struct {
	servers, resources       mcpvisor.ToolFilter
	tools, prompts           filters
	annotations              settings.Annotations
	limitsEntries, limitsURI bool
	nothing                  bool // the profile does not exist
}

// Nothing are the rules of a profile that does not exist.
var Nothing = &Rules{nothing: true}

// filters are the patterns without a server, and those that begin with one.
type filters struct{ name, qualified mcpvisor.ToolFilter }

func newFilters(f mcpvisor.ToolFilter) (made filters) {
	split := func(patterns []string) (name, qualified []string) {
		for _, pattern := range patterns {
			if strings.Contains(pattern, "/") {
				qualified = append(qualified, pattern)
			} else {
				name = append(name, pattern)
			}
		}
		return name, qualified
	}
	made.name.Allow, made.qualified.Allow = split(f.Allow)
	made.name.Deny, made.qualified.Deny = split(f.Deny)
	return made
}

func (f *filters) allows(server, name string) bool {
	qualified := mcpvisor.Qualify(server, name)
	if denied := (mcpvisor.ToolFilter{Deny: f.name.Deny}); !denied.Allows(name) {
		return false
	}
	if denied := (mcpvisor.ToolFilter{Deny: f.qualified.Deny}); !denied.Allows(qualified) {
		return false
	}
	if len(f.name.Allow) == 0 && len(f.qualified.Allow) == 0 {
		return true
	}
	return len(f.name.Allow) > 0 && mcpvisor.ToolFilter{Allow: f.name.Allow}.Allows(name) ||
		len(f.qualified.Allow) > 0 && mcpvisor.ToolFilter{Allow: f.qualified.Allow}.Allows(qualified)
}

// New returns the rules of a profile.
func New(c settings.Profile) *Rules {
	r := &Rules{servers: c.Servers, resources: c.Resources, tools: newFilters(c.Tools), prompts: newFilters(c.Prompts), annotations: c.Annotations}
	for _, pattern := range c.Resources.Deny { // it is compared with what is unescaped, too
		if unescaped, err := url.PathUnescape(pattern); err == nil && unescaped != pattern {
			r.resources.Deny = append(slices.Clip(r.resources.Deny), unescaped)
		}
	}
	r.limitsURI = !r.resources.IsZero()
	r.limitsEntries = r.limitsURI || !c.Tools.IsZero() || !c.Prompts.IsZero() || c.Annotations != settings.Annotations{}
	return r
}

// OffersServer reports whether a server is offered.
func (r *Rules) OffersServer(server string) bool {
	return r == nil || !r.nothing && r.servers.Allows(server)
}

// OffersTool reports whether a tool is offered, provided that its server is.
func (r *Rules) OffersTool(t *mcpvisor.Tool) bool {
	return r == nil || r.tools.allows(t.Server, t.OriginalName) && hold(r.annotations, t.Definition)
}

// OffersPrompt reports whether a prompt is offered.
func (r *Rules) OffersPrompt(server, name string) bool {
	return r.OffersServer(server) && (r == nil || r.prompts.allows(server, name))
}

// OffersName reports whether the name of a tool is offered, provided that its server is.
func (r *Rules) OffersName(server, name string) bool { return r == nil || r.tools.allows(server, name) }

// OffersURI reports whether a resource or template is offered, provided that its server is. A URI that two
// readers may read differently is not; see readings.
func (r *Rules) OffersURI(uri string) bool {
	if r == nil || !r.limitsURI {
		return true
	}
	all, plain := readings(uri)
	denied := mcpvisor.ToolFilter{Deny: r.resources.Deny}
	return plain && r.resources.Allows(uri) && !slices.ContainsFunc(all, func(reading string) bool { return !denied.Allows(reading) })
}

func hold(a settings.Annotations, t *mcp.Tool) bool {
	said := mcp.ToolAnnotations{}
	if t != nil && t.Annotations != nil {
		said = *t.Annotations
	}
	is := func(wanted *bool, value bool) bool { return wanted == nil || *wanted == value }
	destructive := !said.ReadOnlyHint && (said.DestructiveHint == nil || *said.DestructiveHint)
	return is(a.ReadOnly, said.ReadOnlyHint) && is(a.Destructive, destructive) && is(a.Idempotent, said.IdempotentHint) &&
		is(a.OpenWorld, said.OpenWorldHint == nil || *said.OpenWorldHint)
}

// A pattern compares the text of a URI, and its server reads the URI with a library of its own. So a
// URI must be written in the one way that all readers read alike: RFC 3986, the WHATWG URL standard, and
// servers that take the path as it is, or unescape it more than once.

// maxEscapes is how many times a URI is unescaped.
const maxEscapes = 4

// letters are the characters beyond ASCII that all readers take as they are: letters of Latin, Greek,
// Cyrillic, Hebrew, Arabic, Japanese, Chinese and Korean that no normalization (NFC, NFKC) changes. No reader drops them.
var letters = &unicode.RangeTable{LatinOffset: 3, R16: []unicode.Range16{
	{0x00c0, 0x00d6, 1}, {0x00d8, 0x00f6, 1}, {0x00f8, 0x0131, 1}, {0x0134, 0x013e, 1}, {0x0141, 0x0148, 1}, {0x014a, 0x017e, 1},
	{0x0180, 0x01c3, 1}, {0x01cd, 0x01f0, 1}, {0x01f4, 0x024f, 1}, {0x0386, 0x0386, 1}, {0x0388, 0x038a, 1}, {0x038c, 0x038c, 1},
	{0x038e, 0x03a1, 1}, {0x03a3, 0x03ce, 1}, {0x0400, 0x0481, 1}, {0x048a, 0x052f, 1}, {0x05d0, 0x05ea, 1}, {0x0620, 0x064a, 1},
	{0x3041, 0x3096, 1}, {0x30a1, 0x30fa, 1}, {0x30fc, 0x30fe, 1}, {0x3400, 0x4dbf, 1}, {0x4e00, 0x9fff, 1}, {0xac00, 0xd7a3, 1},
}}

// defaultPorts are the schemes that the WHATWG URL standard reads in a special way, with their ports.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

var (
	expression = regexp.MustCompile(`\{[^{}]*\}`) // of a template
	params     = regexp.MustCompile(`;[^/?#]*`)   // of a segment; some readers drop them
	// needlessEscape is the escape of a character that no URI needs to escape (RFC 3986, 2.3).
	needlessEscape = regexp.MustCompile(`%(2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])`)
)

// readings returns what readers may make of a URI: without its fragment, its query and a slash at its end, and
// unescaped. plain is false if readers differ in more than that.
func readings(uri string) (all []string, plain bool) {
	if needlessEscape.MatchString(uri) || strings.ContainsRune(uri, ' ') || !isPlainURL(expression.ReplaceAllString(strings.Replace(uri, "file://{", "file:///{", 1), "x")) {
		return nil, false
	}
	for range maxEscapes {
		if !isPlain(uri) {
			return nil, false
		}
		path, _, _ := strings.Cut(uri, "#")
		all = append(all, uri, path)
		path, _, _ = strings.Cut(path, "?")
		all = append(all, path, strings.TrimRight(path, "/"), strings.TrimRight(params.ReplaceAllString(path, ""), "/"))
		next, err := url.PathUnescape(uri)
		if err != nil || next == uri {
			return all, err == nil
		}
		uri = next
	}
	return nil, false
}

// isPlain reports whether a URI, or what is left of it when it is unescaped, has no byte that some readers drop
// or change, and no segment that some of them resolve.
func isPlain(uri string) bool {
	changed := func(r rune) bool { return r < ' ' || r == '\\' || r >= 0x7f && !unicode.Is(letters, r) }
	if !utf8.ValidString(uri) || strings.ContainsFunc(uri, changed) {
		return false
	}
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#", r) }) {
		// Some drop what follows a semicolon, and dots and blanks at the end.
		if name := params.ReplaceAllString(segment, ""); name == "" || strings.TrimLeft(strings.TrimRight(name, " ."), " ") != name {
			return false
		}
	}
	return true
}

// isPlainURL reports whether the scheme and the authority of a URI are in their normal form, and its path has no
// empty segment.
func isPlainURL(uri string) bool {
	scheme, rest, absolute := strings.Cut(uri, ":")
	port, special := defaultPorts[strings.ToLower(scheme)]
	if !special {
		return !absolute || scheme == strings.ToLower(scheme) || strings.ContainsAny(scheme, "/?#")
	}
	u, err := url.Parse(uri)
	if err != nil || scheme != u.Scheme || !strings.HasPrefix(rest, "//") || u.User != nil || u.Host != strings.ToLower(u.Host) ||
		strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }) { // others have several spellings
		return false
	}
	name := u.Hostname()
	address, err := netip.ParseAddr(name)
	isIP := err == nil
	number, _ := strconv.Atoi(u.Port())
	switch {
	case (scheme == "file") != (u.Host == ""): // a host of a file is read, dropped or refused
		return false
	case strings.HasSuffix(name, ".") || strings.Contains(name, "%") || strings.HasSuffix(u.Host, ":") || u.Port() != "" && (u.Port() == port || u.Port() != strconv.Itoa(number)):
		return false
	case isIP && address.Unmap().String() != name || strings.HasPrefix(u.Host, "[") != (isIP && address.Is6()):
		return false
	case !isIP && name != "" && slices.ContainsFunc(strings.Split(name, ".")[strings.Count(name, "."):], isNumber): // 127.1 and 0x7f.1 are addresses for some
		return false
	}
	path, _, _ := strings.Cut(rest[2:], "#")
	path, _, _ = strings.Cut(path, "?")
	path = path[len(u.Host):]
	return path != "" && !strings.Contains(path, "//")
}

// isNumber reports whether readers take a label as a number.
func isNumber(label string) bool {
	return label != "" && strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
}

// View is what one gateway offers of the client: everything, or a profile. Safe for concurrent use.
type View struct {
	client clientCatalogs
	Rules  func() *Rules // returns what is offered now; nil: everything

	mu   sync.Mutex               // guards the fields below
	by   *Rules                   // kept was chosen by them
	kept map[string]relay.Catalog // by server
}

// clientCatalogs is what a view needs of the client.
type clientCatalogs interface {
	Catalogs() iter.Seq[relay.Catalog]
	Servers() []string
	ServerStatus(name string) (mcpvisor.ServerStatus, bool)
}

// NewView returns a view of a client. rules returns what is offered now; nil: everything.
func NewView(client clientCatalogs, rules func() *Rules) *View {
	return &View{client: client, Rules: rules}
}

// Servers yields the whole catalogs of the servers that are offered.
func (v *View) Servers(r *Rules) iter.Seq[relay.Catalog] {
	if r == nil {
		return v.client.Catalogs()
	}
	return func(yield func(relay.Catalog) bool) {
		for known := range v.client.Catalogs() {
			if r.OffersServer(known.Server) && !yield(known) {
				return
			}
		}
	}
}

// Catalogs yields the catalogs of the servers that are offered, with the offered entries only.
func (v *View) Catalogs(r *Rules) iter.Seq[relay.Catalog] {
	if r == nil || !r.limitsEntries {
		return v.Servers(r)
	}
	return func(yield func(relay.Catalog) bool) {
		for known := range v.Servers(r) {
			if !yield(v.choose(r, known)) {
				return
			}
		}
	}
}

// choose returns the offered part of a catalog. It makes the part once for each version of the catalog.
func (v *View) choose(r *Rules, known relay.Catalog) relay.Catalog {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by != r {
		v.by, v.kept = r, map[string]relay.Catalog{}
	}
	part, ok := v.kept[known.Server]
	if !ok || part.Version != known.Version {
		if !ok && len(v.kept) > len(v.client.Servers()) { // some are gone
			clear(v.kept)
		}
		part = known
		part.Tools = chosen(known.Tools, r.OffersTool)
		part.Prompts = chosen(known.Prompts, func(p *mcpvisor.Prompt) bool { return r.prompts.allows(p.Server, p.OriginalName) })
		part.Resources = chosen(known.Resources, func(one *mcpvisor.Resource) bool { return r.OffersURI(one.URI) })
		part.Templates = chosen(known.Templates, func(t *mcpvisor.ResourceTemplate) bool { return r.OffersURI(t.URITemplate) })
		v.kept[known.Server] = part
	}
	part.Unavailable, part.State = known.Unavailable, known.State // they change without the version
	return part
}

func chosen[T any](all []T, offered func(*T) bool) (part []T) {
	for i := range all {
		if offered(&all[i]) {
			part = append(part, all[i])
		}
	}
	return part
}

// NeverReady returns the offered servers that have never been ready, so that their lists are not known: each name
// and URI may be theirs. Read it before the catalogs: a server that becomes ready in between is then in both.
func (v *View) NeverReady(r *Rules) []string {
	known := map[string]bool{}
	for catalog := range v.Servers(r) {
		known[catalog.Server] = true
	}
	return slices.DeleteFunc(v.client.Servers(), func(server string) bool {
		if known[server] || !r.OffersServer(server) {
			return true
		}
		status, ok := v.client.ServerStatus(server)
		return !ok || status.State == supervisor.StateStopping && status.Totals.Ready > 0 // it is being removed
	})
}

// ServerNames returns the registered servers that are offered.
func (v *View) ServerNames() []string {
	r := v.Rules()
	return slices.DeleteFunc(v.client.Servers(), func(server string) bool { return !r.OffersServer(server) })
}

// OffersUpdate reports whether a session may hear that a resource was updated.
func (v *View) OffersUpdate(server, uri string) bool {
	r := v.Rules()
	return r.OffersServer(server) && r.OffersURI(uri)
}
