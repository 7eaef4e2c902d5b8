package argcheck

import (
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/pattern"
)

// problem is a rule that a value breaks. Only the problems that are returned get words.
type problem struct {
	rule          string    // the keyword, "" for the schema false
	schema, value int       // nodes: the schema that has the keyword, and the value
	name          int       // the node of a name that the rule is about: of the schema for required, else of the arguments
	count         int       // what is compared with a limit; the alternatives
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

// node is keyword for a value that begins with one of some bytes; a keyword whose value is
// something else is not compared.
func (c *check) node(s int, name, first string) int {
	i := c.keyword(s, name)
	if i == 0 || strings.IndexByte(first, c.schema.First(i)) < 0 {
		return 0
	}
	return i
}

// names iterates over the nodes of the names in an object.
func (c *check) names(t *jsonscan.Tree, object int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := object + 1; i < t.Next(object) && c.spend(1) && yield(i); i = t.Next(i + 1) {
		}
	}
}

// items iterates over the nodes of the items of a list.
func (c *check) items(t *jsonscan.Tree, list int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := list + 1; i < t.Next(list) && c.spend(1) && yield(i); i = t.Next(i) {
		}
	}
}

// fail notes a problem. It returns false.
func (c *check) fail(p problem) bool {
	c.problems = append(c.problems, p)
	return false
}

// enough reports whether no further problem of the same value is wanted.
func (c *check) enough() bool { return c.stopped || c.quiet > 0 || len(c.problems) >= c.most }

// note says what is not compared. What comes after the end of the check does not count.
func (c *check) note(text string) {
	if c.unchecked == "" && !c.stopped {
		c.unchecked = text
	}
}

// value compares a value with a schema. It reports false, and has noted a problem, if the
// value certainly breaks a rule. So do the functions that compare some of the keywords.
func (c *check) value(s, v, depth int) bool {
	switch first := c.schema.First(s); {
	case !c.spend(1):
		return true
	case first == 'f':
		return c.fail(problem{schema: s, value: v})
	case first != '{':
		return true
	case depth > maxDepth:
		c.stop("its input schema, or the arguments, are nested too deep")
		return true
	case s != 0 && c.hasID(s):
		return true
	}
	if c.has(s, "$dynamicRef", "$recursiveRef") {
		c.note("$dynamicRef is not supported")
	}
	if ref := c.node(s, "$ref", `"`); ref != 0 { // drafts up to 7 ignore what is beside it
		target, ok := c.find(c.text(&c.schema, ref))
		if !ok {
			return true
		}
		if c.has(s, "properties", "allOf", "anyOf", "oneOf") {
			c.partial++
			defer func() { c.partial-- }()
		}
		return c.value(target, v, depth+1)
	}
	if !c.kind(s, v) { // of another type, other rules hold
		return false
	}
	ok := true
	for _, rules := range [...]func(*check, int, int, int) bool{(*check).number, (*check).string, (*check).object, (*check).array, (*check).combined} {
		if !rules(c, s, v, depth) {
			if ok = false; c.enough() {
				break
			}
		}
	}
	return ok
}

// hasID reports whether a schema has a URI of its own, at which references begin.
func (c *check) hasID(s int) bool { return c.node(s, "$id", `"`) != 0 || c.node(s, "id", `"`) != 0 }

// pointerEscapes reads the escapes of a JSON pointer (RFC 6901, section 4).
var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// find returns what a reference within the schema refers to.
func (c *check) find(ref string) (at int, ok bool) {
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		c.note("$ref " + strconv.Quote(shorten(ref)) + " refers to another place than the schema itself")
		return 0, false
	}
	pointer, more := strings.CutPrefix(ref[1:], "/")
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
			for i := range c.items(&c.schema, at) {
				if err == nil && n == 0 {
					next = i
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
func (c *check) kind(s, v int) bool {
	if on := c.keyword(s, "nullable"); on != 0 && c.schema.First(on) == 't' && c.args.First(v) == 'n' {
		return true
	}
	if list := c.node(s, "enum", "["); list != 0 {
		found := false
		for i := range c.items(&c.schema, list) {
			if found = c.equal(i, v); found {
				break
			}
		}
		if !found {
			return c.fail(problem{rule: "enum", schema: s, value: v})
		}
	}
	if only := c.keyword(s, "const"); only != 0 && !c.equal(only, v) {
		return c.fail(problem{rule: "const", schema: s, value: v})
	}
	if t := c.node(s, "type", `"[`); t != 0 && !c.hasType(t, v) {
		return c.fail(problem{rule: "type", schema: s, value: v})
	}
	return true
}

// typeNames iterates over the names of types in the value of "type"; an element that is no
// text is the name "".
func (c *check) typeNames(t int) iter.Seq[string] {
	return func(yield func(string) bool) {
		if c.schema.First(t) == '"' {
			yield(c.text(&c.schema, t))
			return
		}
		for i := range c.items(&c.schema, t) {
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

// hasType reports whether a value may have one of the types in the value of "type".
func (c *check) hasType(t, v int) bool {
	is := c.typeOf(v)
	for name := range c.typeNames(t) {
		switch name {
		case is:
			return true
		case "number":
			if is == "integer" {
				return true
			}
		case "integer":
			if _, ok := c.float(&c.args, v); is == "number" && !ok {
				return true
			}
		case "null", "boolean", "object", "array", "string":
		default:
			return true // no type of JSON Schema
		}
	}
	return false
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

// equal reports whether a value of the schema may be the same as one of the arguments.
func (c *check) equal(i, v int) bool {
	a := c.schema.First(i)
	switch kind := TypeOf(a); {
	case !c.spend(1):
		return true
	case kind != TypeOf(c.args.First(v)):
		return false
	case kind == "number":
		x, xOK := c.float(&c.schema, i)
		y, yOK := c.float(&c.args, v)
		return !xOK || !yOK || x == y
	case kind == "string":
		x, y := len(c.schema.Text(i))-2, len(c.args.Text(v))-2
		if x > maxExpansion*y || y > maxExpansion*x || x != y && !c.schema.Escaped(i) && !c.args.Escaped(v) {
			return false
		}
		return c.text(&c.schema, i) == c.text(&c.args, v)
	case kind == "object":
		for name := range c.names(&c.schema, i) {
			text := c.text(&c.schema, name)
			if found := c.member(&c.args, v, text); found == 0 || !c.equal(c.member(&c.schema, i, text), found) {
				return false
			}
		}
		for name := range c.names(&c.args, v) {
			if c.member(&c.schema, i, c.text(&c.args, name)) == 0 {
				return false
			}
		}
		return true
	case kind == "array":
		x, y := i+1, v+1
		for ; x < c.schema.Next(i) && y < c.args.Next(v); x, y = c.schema.Next(x), c.args.Next(y) {
			if !c.equal(x, y) {
				return false
			}
		}
		return x == c.schema.Next(i) && y == c.args.Next(v)
	}
	return a == c.args.First(v) // true, false, null
}

// largeNumber is where numbers begin that float64 does not tell apart.
const largeNumber = 1 << 53

// number compares the keywords about numbers.
func (c *check) number(s, v, _ int) bool {
	if TypeOf(c.args.First(v)) != "number" {
		return true
	}
	n, ok := c.float(&c.args, v)
	if !ok {
		return true
	}
	for _, rule := range [...]struct {
		keyword string
		broken  func(n, limit float64) bool
	}{
		{"exclusiveMinimum", func(n, limit float64) bool { return n < limit || n == limit && math.Abs(n) < largeNumber }},
		{"exclusiveMaximum", func(n, limit float64) bool { return n > limit || n == limit && math.Abs(n) < largeNumber }},
		{"minimum", func(n, limit float64) bool { return n < limit }},
		{"maximum", func(n, limit float64) bool { return n > limit }},
		{"multipleOf", func(n, divisor float64) bool {
			// Divisors such as 0.01 have no exact value: 19.99 would be no multiple of it.
			exact := divisor >= 1.0/1024 && divisor <= math.MaxInt32 && divisor*1024 == math.Trunc(divisor*1024)
			return exact && math.Abs(n) < largeNumber && math.Mod(n, divisor) != 0
		}},
	} {
		if limit, ok := c.limit(s, rule.keyword); ok && rule.broken(n, limit) {
			return c.fail(problem{rule: rule.keyword, schema: s, value: v})
		}
	}
	return true
}

// limit returns the number that a keyword has as its value. Draft 4 has booleans that make
// a bound exclusive; without them it allows more.
func (c *check) limit(s int, keyword string) (n float64, ok bool) {
	i := c.node(s, keyword, "-0123456789")
	if i == 0 {
		return 0, false
	}
	return c.float(&c.schema, i)
}

// size compares a length with two keywords.
func (c *check) size(s, v int, least, most string, count func() int) bool {
	for _, w := range [...]string{least, most} {
		limit, ok := c.limit(s, w)
		if !ok || limit < 0 || limit > math.MaxInt32 || limit != math.Trunc(limit) {
			continue
		}
		if n := count(); w == least && n < int(limit) || w == most && n > int(limit) {
			return c.fail(problem{rule: w, schema: s, value: v, count: n})
		}
	}
	return true
}

// string compares the keywords about texts.
func (c *check) string(s, v, _ int) bool {
	if c.args.First(v) != '"' {
		return true
	}
	if p := c.node(s, "pattern", `"`); p != 0 && !c.matches(c.text(&c.schema, p), v) {
		return c.fail(problem{rule: "pattern", schema: s, value: v})
	}
	return c.size(s, v, "minLength", "maxLength", func() int { return utf8.RuneCountInString(c.text(&c.args, v)) })
}

// matches reports whether a text of the arguments may match a regular expression.
func (c *check) matches(expression string, v int) bool {
	compiled, known := c.patterns.Get(expression)
	if !known {
		if !c.spend(pattern.CompileSteps(expression)) {
			return true
		}
		compiled = c.patterns.Compile(expression)
	}
	if errors.Is(compiled.Err, pattern.ErrTooLarge) {
		c.note(compiled.Err.Error())
	}
	text := c.text(&c.args, v)
	return compiled.Err != nil || !c.spend(compiled.Steps(text)) || compiled.Matches(text)
}

// object compares the keywords about objects.
func (c *check) object(s, v, depth int) bool {
	if c.args.First(v) != '{' {
		return true
	}
	ok := c.required(s, v)
	properties, more := c.node(s, "properties", "{"), c.keyword(s, "additionalProperties")
	closed, patterned := c.isClosed(s, more), c.has(s, "patternProperties")
	if properties == 0 && more == 0 {
		return ok
	}
	for name := range c.names(&c.args, v) {
		if !ok && c.enough() {
			return false
		}
		schema, mark := 0, len(c.problems)
		if properties != 0 {
			schema = c.member(&c.schema, properties, c.text(&c.args, name))
		}
		switch {
		case schema != 0 || patterned: // the patterns are not compared
		case closed:
			ok = c.fail(problem{rule: "additionalProperties", schema: s, value: v, name: name})
		default:
			schema = more
		}
		if schema == 0 || c.value(schema, name+1, depth+1) {
			continue
		}
		if c.member(&c.args, v, c.text(&c.args, name)) != name+1 { // of several of one name, the last one counts
			c.problems = c.problems[:mark]
			continue
		}
		ok = false
	}
	return ok
}

// required compares the names that there must be.
func (c *check) required(s, v int) bool {
	ok := true
	list := c.node(s, "required", "[")
	if list == 0 {
		return true
	}
	for i := range c.items(&c.schema, list) {
		if c.schema.First(i) != '"' {
			continue
		}
		name := c.text(&c.schema, i)
		if c.member(&c.args, v, name) != 0 || c.hasDefault(s, name) {
			continue
		}
		if ok = c.fail(problem{rule: "required", schema: s, value: v, name: i}); c.enough() {
			break
		}
	}
	return ok
}

// hasDefault reports whether a property declares a value that stands for a missing one: a
// server that does so takes it, although JSON Schema does not say that.
func (c *check) hasDefault(s int, name string) bool {
	properties := c.node(s, "properties", "{")
	if properties == 0 {
		return false
	}
	property := c.member(&c.schema, properties, name)
	return property != 0 && c.schema.First(property) == '{' && c.keyword(property, "default") != 0
}

// isClosed reports whether names that a schema does not declare are refused: because it says
// so in additionalProperties, or because the check is strict, and no other part of the schema
// can declare them.
func (c *check) isClosed(s, more int) bool {
	if more != 0 {
		return c.schema.First(more) == 'f'
	}
	return c.strict && c.quiet == 0 && c.partial == 0 && c.has(s, "properties") &&
		!c.has(s, "$dynamicRef", "$recursiveRef", "dependencies", "dependentSchemas", "allOf", "anyOf", "oneOf", "if", "unevaluatedProperties")
}

// array compares the keywords about lists. Drafts up to 2019-09 may have a list in items,
// which is not compared.
func (c *check) array(s, v, depth int) bool {
	if c.args.First(v) != '[' {
		return true
	}
	ok, count, next, end := true, 0, 0, 0
	if prefix := c.node(s, "prefixItems", "["); prefix != 0 {
		next, end = prefix+1, c.schema.Next(prefix)
	}
	rest := c.node(s, "items", "{tf")
	for i := range c.items(&c.args, v) {
		count++
		of := rest
		if next < end {
			of, next = next, c.schema.Next(next)
		}
		if of != 0 && !c.value(of, i, depth+1) {
			if ok = false; c.enough() {
				return false
			}
		}
	}
	return c.size(s, v, "minItems", "maxItems", func() int { return count }) && ok
}

// combined compares what combines schemas.
func (c *check) combined(s, v, depth int) bool {
	ok := true
	if all := c.node(s, "allOf", "["); all != 0 {
		c.partial++
		for i := range c.items(&c.schema, all) {
			if !c.value(i, v, depth+1) {
				if ok = false; c.enough() {
					break
				}
			}
		}
		c.partial--
	}
	for _, w := range [...]string{"anyOf", "oneOf"} {
		if list := c.node(s, w, "["); list != 0 && (ok || !c.enough()) {
			ok = c.alternatives(w, list, s, v, depth) && ok
		}
	}
	return ok
}

// alternatives compares a value with the schemas of anyOf or oneOf. A value that matches
// several of oneOf passes.
func (c *check) alternatives(w string, list, s, v, depth int) bool {
	mark, total, matches := len(c.problems), 0, false
	c.quiet++
	for i := range c.items(&c.schema, list) {
		total++
		before := len(c.problems)
		if matches = c.value(i, v, depth+1); matches {
			break
		}
		c.problems = c.problems[:before+1] // its first problem stays
	}
	c.quiet--
	parts := c.problems[mark:]
	c.problems = c.problems[:mark]
	if matches || c.stopped || total == 0 {
		return true
	}
	return c.fail(c.closest(problem{rule: w, schema: s, value: v, count: total}, parts))
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
