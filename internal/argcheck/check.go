package argcheck

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// verdict is whether a value matches a schema. The lowest of several verdicts is that of all
// together.
type verdict int8

const (
	no    verdict = iota // the value breaks a rule
	maybe                // it is not known
	yes
)

// problem is a rule that a value breaks. Only the problems that are returned get words.
type problem struct {
	rule          string    // the keyword, "" for the schema false
	schema, value int       // nodes: the schema that has the keyword, and the value
	name          int       // the node of a name that the rule is about: of the schema for required, else of the arguments
	count         int       // what is compared with a limit; the alternatives; the items that match
	several       bool      // of oneOf: more than one alternative matches
	parts         []problem // of alternatives of which none has the right type: one problem of each
}

// keyword returns the node of the value of a keyword; 0 if the schema does not have it.
func (c *check) keyword(s int, name string) int { return c.member(&c.schema, s, name) }

// has reports whether a schema has one of some keywords.
func (c *check) has(s int, names ...string) bool {
	for _, name := range names {
		if c.keyword(s, name) != 0 {
			return true
		}
	}
	return false
}

// node is keyword for a value that begins with one of some bytes. A keyword whose value is
// something else is not compared, and the verdict is maybe.
func (c *check) node(s int, name, first string, out *verdict) (i int, ok bool) {
	if i = c.keyword(s, name); i == 0 {
		return 0, false
	}
	if strings.IndexByte(first, c.schema.First(i)) < 0 {
		*out = min(*out, maybe)
		return 0, false
	}
	return i, true
}

// fail notes a problem.
func (c *check) fail(p problem) verdict {
	c.problems = append(c.problems, p)
	return no
}

// enough reports whether no further problem of the same value is wanted.
func (c *check) enough() bool { return c.stopped || c.quiet > 0 || len(c.problems) >= c.most }

// value compares a value with a schema.
func (c *check) value(s, v, depth int) verdict {
	switch first := c.schema.First(s); {
	case !c.spend(1):
		return maybe
	case first == 't':
		return yes
	case first == 'f':
		return c.fail(problem{schema: s, value: v})
	case first != '{':
		return maybe
	case depth > maxDepth:
		c.stop("its input schema, or the arguments, are nested too deep")
		return maybe
	}
	if s != 0 && c.hasID(s) {
		return maybe
	}
	out := c.reference(s, v, depth)
	if c.refAlone && c.has(s, "$ref") {
		return out
	}
	if c.has(s, "$dynamicRef", "$recursiveRef") {
		c.note("$dynamicRef is not supported")
		out = min(out, maybe)
	}
	if out = min(out, c.kind(s, v)); out == no { // of another type, other rules hold
		return no
	}
	for _, rules := range [...]func(*check, int, int, int) verdict{(*check).number, (*check).string, (*check).object, (*check).array, (*check).combined} {
		if out = min(out, rules(c, s, v, depth)); out == no && c.enough() {
			return no
		}
	}
	return out
}

// hasID reports whether a schema has a URI of its own, at which references begin.
func (c *check) hasID(s int) bool {
	isText := func(name string) bool { id := c.keyword(s, name); return id != 0 && c.schema.First(id) == '"' }
	return isText("$id") || c.refAlone && isText("id")
}

// note says what is not compared. What comes after the end of the check does not count.
func (c *check) note(text string) {
	if c.unchecked == "" && !c.stopped {
		c.unchecked = text
	}
}

// reference compares a value with what $ref refers to.
func (c *check) reference(s, v, depth int) verdict {
	out := yes
	ref, ok := c.node(s, "$ref", `"`, &out)
	if !ok {
		return out
	}
	text := c.text(&c.schema, ref)
	if text != "#" && !strings.HasPrefix(text, "#/") {
		if c.unchecked == "" {
			c.note("$ref " + strconv.Quote(shorten(text)) + " refers to another place than the schema itself")
		}
		return maybe
	}
	target, ok := c.find(text)
	if !ok {
		return maybe
	}
	if c.has(s, "properties", "allOf", "anyOf", "oneOf", "if") {
		return c.part(target, v, depth)
	}
	return c.value(target, v, depth+1)
}

// pointerEscapes reads the escapes of a JSON pointer (RFC 6901, section 4).
var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// find returns what a reference within the schema refers to.
func (c *check) find(ref string) (at int, ok bool) {
	pointer := ref[1:]
	if strings.Contains(pointer, "%") {
		var err error
		if pointer, err = url.PathUnescape(pointer); err != nil {
			return 0, false
		}
	}
	pointer, more := strings.CutPrefix(pointer, "/")
	for more && c.spend(1+len(pointer)/bytesPerStep) {
		var step string
		step, pointer, more = strings.Cut(pointer, "/")
		if strings.Contains(step, "~") && c.spend(len(step)) {
			step = pointerEscapes.Replace(step)
		}
		next := 0
		switch c.schema.First(at) {
		case '{':
			if at != 0 && c.hasID(at) {
				return 0, false
			}
			next = c.member(&c.schema, at, step)
		case '[':
			n, err := strconv.Atoi(step)
			for i := at + 1; err == nil && n >= 0 && i < c.schema.Next(at) && c.spend(1); i = c.schema.Next(i) {
				if n == 0 {
					next = i
					break
				}
				n--
			}
		}
		if next == 0 {
			return 0, false
		}
		at = next
	}
	return at, !c.stopped
}

// kind compares enum, const and type. OpenAPI has nullable.
func (c *check) kind(s, v int) verdict {
	out := yes
	if on := c.keyword(s, "nullable"); on != 0 && c.schema.First(on) == 't' && c.args.First(v) == 'n' {
		return out
	}
	if list, ok := c.node(s, "enum", "[", &out); ok {
		best := no
		for i := list + 1; i < c.schema.Next(list) && best != yes && c.spend(1); i = c.schema.Next(i) {
			best = max(best, c.equal(&c.schema, i, &c.args, v))
		}
		if best == no {
			return c.fail(problem{rule: "enum", schema: s, value: v})
		}
		out = min(out, best)
	}
	if only := c.keyword(s, "const"); only != 0 {
		same := c.equal(&c.schema, only, &c.args, v)
		if same == no {
			return c.fail(problem{rule: "const", schema: s, value: v})
		}
		out = min(out, same)
	}
	if t, ok := c.node(s, "type", `"[`, &out); ok {
		best := no
		for name := range c.typeNames(t) {
			best = max(best, c.hasType(v, name))
		}
		if best == no {
			return c.fail(problem{rule: "type", schema: s, value: v})
		}
		out = min(out, best)
	}
	return out
}

// typeNames iterates over the names of types in the value of "type"; an element that is no
// text is the name "".
func (c *check) typeNames(t int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if c.schema.First(t) == '"' {
			yield(c.text(&c.schema, t))
			return
		}
		for i := t + 1; i < c.schema.Next(t) && c.spend(1); i = c.schema.Next(i) {
			name := ""
			if c.schema.First(i) == '"' {
				name = c.text(&c.schema, i)
			}
			if !yield(name) {
				return
			}
		}
	}
}

func (c *check) hasType(v int, name string) verdict {
	is := c.typeOf(v)
	switch name {
	case is:
		return yes
	case "number":
		if is == "integer" {
			return yes
		}
	case "integer":
		if _, ok := c.float(&c.args, v); is == "number" && !ok {
			return maybe
		}
	case "null", "boolean", "object", "array", "string":
	default:
		return maybe // no type of JSON Schema
	}
	return no
}

// typeOf returns the type of a value of the arguments. 1.0 is an integer.
func (c *check) typeOf(v int) string {
	name := TypeOf(c.args.First(v))
	if name == "number" {
		if n, ok := c.float(&c.args, v); ok && n == math.Trunc(n) {
			return "integer"
		}
	}
	return name
}

// TypeOf returns the type, in JSON Schema, of a value whose JSON begins with this byte. All
// numbers are "number".
func TypeOf(first byte) string {
	switch first {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// maxExpansion is how many times as long as another text one of the same value can be: an
// escape has 6 bytes, and a byte that is not UTF-8 stands for a character of 3 bytes.
const maxExpansion = 18

// largeNumber is where numbers begin that float64 does not tell apart.
const largeNumber = 1 << 53

// equal compares two values.
func (c *check) equal(t *jsonscan.Tree, i int, u *jsonscan.Tree, j int) verdict {
	a, b := t.First(i), u.First(j)
	if !c.spend(1) {
		return maybe
	}
	switch isNumber := func(b byte) bool { return b == '-' || b >= '0' && b <= '9' }; {
	case isNumber(a) && isNumber(b):
		x, xOK := c.float(t, i)
		y, yOK := c.float(u, j)
		switch {
		case !xOK || !yOK || x == y && math.Abs(x) >= largeNumber && string(t.Text(i)) != string(u.Text(j)):
			return maybe
		case x == y:
			return yes
		}
		return no
	case a != b:
		return no
	case a == '"':
		x, y := len(t.Text(i))-2, len(u.Text(j))-2
		if x > maxExpansion*y || y > maxExpansion*x || x != y && !t.Escaped(i) && !u.Escaped(j) {
			return no
		}
		return verdictOf(c.text(t, i) == c.text(u, j))
	case a == '{':
		out := yes
		for name := range c.names(t, i) {
			found := c.member(u, j, c.text(t, name))
			if found == 0 {
				return no
			}
			if out = min(out, c.equal(t, name+1, u, found)); out == no {
				return no
			}
		}
		for name := range c.names(u, j) {
			if c.member(t, i, c.text(u, name)) == 0 {
				return no
			}
		}
		return out
	case a == '[':
		out := yes
		x, y := i+1, j+1
		for ; x < t.Next(i) && y < u.Next(j) && out != no; x, y = t.Next(x), u.Next(y) {
			out = min(out, c.equal(t, x, u, y))
		}
		if out != no && (x < t.Next(i) || y < u.Next(j)) {
			return no
		}
		return out
	}
	return yes // true, false, null
}

// names iterates over the nodes of the names in an object. Of several of one name, it
// yields the last one.
func (c *check) names(t *jsonscan.Tree, object int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		last := c.lastOfNames(t, object)
		for i := object + 1; i < t.Next(object) && c.spend(1); i = t.Next(i + 1) {
			name := c.text(t, i)
			if at, ok := last[name]; ok && at != i || !ok && c.member(t, object, name) != i+1 {
				continue
			}
			if !yield(i) {
				return
			}
		}
	}
}

const (
	// manyNames is how many names an object has for which they are indexed, and
	// stepsPerName what one costs then.
	manyNames    = 100
	stepsPerName = 16
)

// lastOfNames returns the last node of each name in an object with many names; nil for
// others.
func (c *check) lastOfNames(t *jsonscan.Tree, object int) map[string]int {
	n := 0
	for i := object + 1; i < t.Next(object) && n < manyNames && c.spend(1); i = t.Next(i + 1) {
		n++
	}
	if n < manyNames {
		return nil
	}
	last := map[string]int{}
	for i := object + 1; i < t.Next(object) && c.spend(stepsPerName); i = t.Next(i + 1) {
		last[c.text(t, i)] = i
	}
	return last
}

func verdictOf(ok bool) verdict {
	if ok {
		return yes
	}
	return no
}

// part compares a value with one of several schemas that it has.
func (c *check) part(s, v, depth int) verdict {
	c.partial++
	defer func() { c.partial-- }()
	return c.value(s, v, depth+1)
}

// quietly compares a value with a schema without noting problems.
func (c *check) quietly(s, v, depth int) verdict {
	mark := len(c.problems)
	c.quiet++
	out := c.value(s, v, depth+1)
	c.quiet--
	c.problems = c.problems[:mark]
	return out
}

// combined compares what combines schemas.
func (c *check) combined(s, v, depth int) verdict {
	out := yes
	if all, ok := c.node(s, "allOf", "[", &out); ok {
		for i := all + 1; i < c.schema.Next(all) && c.spend(1); i = c.schema.Next(i) {
			if out = min(out, c.part(i, v, depth)); out == no && c.enough() {
				return no
			}
		}
	}
	for _, w := range [...]string{"anyOf", "oneOf"} {
		if list, ok := c.node(s, w, "[", &out); ok {
			if out = min(out, c.alternatives(w, list, s, v, depth)); out == no && c.enough() {
				return no
			}
		}
	}
	if not := c.keyword(s, "not"); not != 0 {
		switch c.quietly(not, v, depth) {
		case yes:
			if out = c.fail(problem{rule: "not", schema: s, value: v}); c.enough() {
				return no
			}
		case maybe:
			out = min(out, maybe)
		default:
		}
	}
	if condition := c.keyword(s, "if"); condition != 0 {
		branch := 0
		switch c.quietly(condition, v, depth) {
		case yes:
			branch = c.keyword(s, "then")
		case no:
			branch = c.keyword(s, "else")
		default:
			out = min(out, maybe)
		}
		if branch != 0 {
			out = min(out, c.part(branch, v, depth))
		}
	}
	return out
}

// alternatives compares a value with the schemas of anyOf or oneOf.
func (c *check) alternatives(w string, list, s, v, depth int) verdict {
	mark, matching, unknown, total := len(c.problems), 0, 0, 0
	c.quiet++
	for i := list + 1; i < c.schema.Next(list) && c.spend(1); i = c.schema.Next(i) {
		total++
		before := len(c.problems)
		switch c.value(i, v, depth+1) {
		case yes:
			matching++
		case maybe:
			unknown++
		default:
			before++ // its first problem stays
		}
		c.problems = c.problems[:min(before, len(c.problems))]
		if matching > 0 && w == "anyOf" {
			break
		}
	}
	c.quiet--
	parts := c.problems[mark:]
	c.problems = c.problems[:mark]
	switch {
	case c.stopped || total == 0:
		return maybe
	case matching == 0 && unknown == 0:
		return c.fail(c.closest(problem{rule: w, schema: s, value: v, count: total}, parts))
	case w == "oneOf" && matching > 1:
		return c.fail(problem{rule: w, schema: s, value: v, count: total, several: true})
	case w == "oneOf" && unknown > 0 || matching == 0:
		return maybe
	}
	return yes
}

// closest returns the problem of alternatives of which none matches. parts has one problem
// for each. If the value has the right type for one of them only, it is that one's problem.
func (c *check) closest(whole problem, parts []problem) problem {
	if c.quiet > 0 {
		return whole
	}
	var inside *problem
	for i, p := range parts {
		switch {
		case p.value == whole.value && (p.rule == "type" || p.rule == "enum" || p.rule == "const"):
		case inside != nil:
			return whole
		default:
			inside = &parts[i]
		}
	}
	if inside != nil {
		return *inside
	}
	whole.parts = append([]problem(nil), parts...)
	return whole
}
